package export

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"harness.invalid/core/filename"
	"harness.invalid/harness/series"
)

// tensorboard writes an event file: scalars with the tags trained/NAME and evaluated/NAME against the step of the
// run.
//
// An event file is a TFRecord file of tensorflow.Event messages, the first of which has the version. Sources:
// tensorflow/core/util/event.proto, tensorflow/core/framework/summary.proto,
// tensorflow/core/lib/io/record_writer.cc; tensorboard issue 72.
func tensorboard(dir string, r *series.Record) error {
	folder, err := filename.Join(dir, r.Name())
	if err != nil {
		return err
	}
	// TensorBoard reads every file whose name contains "tfevents", in the order of the names.
	name := fmt.Sprintf("events.out.tfevents.%010d.harness", r.Began().Unix())
	if err := removeEvents(folder, name); err != nil {
		return err
	}
	return put(folder, name, func(w io.Writer) error { return writeEvents(w, r) })
}

// removeEvents removes the event files that harness has left in a folder, all but one.
func removeEvents(folder, but string) error {
	old, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range old {
		if ours, _ := filepath.Match("events.out.tfevents.*.harness", e.Name()); ours && e.Name() != but {
			if err := os.Remove(filepath.Join(folder, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeEvents(w io.Writer, r *series.Record) error {
	out := bufio.NewWriter(w)
	if err := writeVersion(out, r.Began()); err != nil {
		return err
	}
	if err := writePoints(out, r.Began(), merge(r.Steps, r.Evaluations)); err != nil {
		return err
	}
	return out.Flush()
}

// writeVersion writes what an event file begins with.
func writeVersion(w io.Writer, at time.Time) error {
	return writeTFRecord(w, event(at, 0, func(b []byte) []byte { return appendBytes(b, 3, "brain.Event:2") }))
}

// writePoints writes an event for each point of a run that began at a time.
func writePoints(w io.Writer, began time.Time, points []placed) error {
	for _, p := range points {
		kind := "trained/"
		if p.evaluated {
			kind = "evaluated/"
		}
		at := began.Add(time.Duration(p.Wall * float64(time.Second)))
		message := event(at, int64(p.Total), func(b []byte) []byte {
			var summary []byte
			for _, name := range slices.Sorted(maps.Keys(p.Values)) {
				value := appendBytes(nil, 1, kind+name)
				value = binary.LittleEndian.AppendUint32(append(value, 2<<3|5), math.Float32bits(float32(p.Values[name]))) // simple_value
				summary = appendBytes(summary, 1, string(value))
			}
			return appendBytes(b, 5, string(summary))
		})
		if err := writeTFRecord(w, message); err != nil {
			return err
		}
	}
	return nil
}

// placed is a point of a record, and its kind.
type placed struct {
	series.Point
	evaluated bool
}

// merge puts steps and evaluations into the order in which they happened: an evaluation follows its step.
func merge(steps, evaluations []series.Point) []placed {
	var all []placed
	rest := evaluations
	for _, s := range steps {
		for len(rest) > 0 && rest[0].Total < s.Total {
			all = append(all, placed{rest[0], true})
			rest = rest[1:]
		}
		all = append(all, placed{s, false})
	}
	for _, e := range rest {
		all = append(all, placed{e, true})
	}
	return all
}

// event is a tensorflow.Event: wall_time 1, step 2, and what fill adds.
func event(at time.Time, step int64, fill func([]byte) []byte) []byte {
	b := binary.LittleEndian.AppendUint64([]byte{1<<3 | 1}, math.Float64bits(float64(at.UnixNano())/1e9))
	if step != 0 {
		b = binary.AppendUvarint(append(b, 2<<3), uint64(step))
	}
	return fill(b)
}

// appendBytes appends a field of bytes, a string or a message in protocol buffers' encoding.
func appendBytes(b []byte, field int, text string) []byte {
	b = binary.AppendUvarint(b, uint64(field<<3|2))
	b = binary.AppendUvarint(b, uint64(len(text)))
	return append(b, text...)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked is a CRC-32C as TFRecord stores it: masked, so that a checksum of data that contains checksums stays
// strong (tensorflow/core/lib/hash/crc32c.h).
func masked(data []byte) uint32 {
	c := crc32.Checksum(data, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}

// writeTFRecord frames a record: length, checksum of the length, data, checksum of the data, all little endian.
func writeTFRecord(w io.Writer, data []byte) error {
	head := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	head = binary.LittleEndian.AppendUint32(head, masked(head))
	for _, b := range [][]byte{head, data, binary.LittleEndian.AppendUint32(nil, masked(data))} {
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}
