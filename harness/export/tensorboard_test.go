package export_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"path/filepath"
	"testing"

	"harness.invalid/harness/series/seriestest"
)

// field is a field of a protocol buffer's message.
type field struct {
	number int
	value  uint64 // varint or fixed
	bytes  []byte
}

// fields takes a message apart by the encoding's specification alone.
func fields(t *testing.T, b []byte) (all []field) {
	t.Helper()
	for len(b) > 0 {
		key, n := binary.Uvarint(b)
		b = b[n:]
		f := field{number: int(key >> 3)}
		switch key & 7 {
		case 0:
			f.value, n = binary.Uvarint(b)
		case 1:
			f.value, n = binary.LittleEndian.Uint64(b), 8
		case 5:
			f.value, n = uint64(binary.LittleEndian.Uint32(b)), 4
		case 2:
			size, m := binary.Uvarint(b)
			f.bytes, n = b[m:m+int(size)], m+int(size)
		default:
			t.Fatalf("field %d has wire type %d", f.number, key&7)
		}
		all, b = append(all, f), b[n:]
	}
	return all
}

// TestTensorBoard parses the event file: frames, checksums, messages.
func TestTensorBoard(t *testing.T) {
	records := seriestest.Write(t, t.TempDir(), 1, ipu, gpu)
	dir := to(t, "tensorboard", records)
	files, err := filepath.Glob(filepath.Join(dir, "ipu-adamw-seed1", "*tfevents*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, %v", files, err)
	}
	b := readFile(t, files[0])
	check := func(data []byte, stored uint32) {
		t.Helper()
		c := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
		if want := (c>>15 | c<<17) + 0xa282ead8; stored != want {
			t.Fatalf("checksum %08x, want %08x", stored, want)
		}
	}
	values := map[string]map[uint64]float32{}
	count := 0
	for len(b) > 0 {
		n := binary.LittleEndian.Uint64(b)
		check(b[:8], binary.LittleEndian.Uint32(b[8:]))
		message := b[12 : 12+n]
		check(message, binary.LittleEndian.Uint32(b[12+n:]))
		b = b[16+n:]
		var step uint64
		for _, f := range fields(t, message) {
			switch f.number {
			case 1:
				if at := math.Float64frombits(f.value); at < float64(seriestest.Begin.Unix()) || at > float64(seriestest.Begin.Unix())+60 {
					t.Errorf("wall time %f", at)
				}
			case 2:
				step = f.value
			case 3:
				if count != 0 || string(f.bytes) != "brain.Event:2" {
					t.Errorf("file version %q in record %d", f.bytes, count)
				}
			case 5:
				for _, v := range fields(t, f.bytes) {
					var tag string
					for _, part := range fields(t, v.bytes) {
						if part.number == 1 {
							tag = string(part.bytes)
						} else if part.number == 2 {
							if values[tag] == nil {
								values[tag] = map[uint64]float32{}
							}
							values[tag][step] = math.Float32frombits(uint32(part.value))
						}
					}
				}
			}
		}
		count++
	}
	if want := 1 + 70 + 5; count != want {
		t.Errorf("%d records, want %d", count, want)
	}
	r := records[0]
	if len(values["trained/loss"]) != 70 || values["trained/loss"][70] != float32(r.Steps[69].Values["loss"]) ||
		values["evaluated/f1"][70] != float32(r.Evaluations[4].Values["f1"]) {
		t.Errorf("values: %d losses, the last %g, F1 %g", len(values["trained/loss"]), values["trained/loss"][70], values["evaluated/f1"][70])
	}
	if v := values["trained/gradient_norm"][35]; !math.IsNaN(float64(v)) {
		t.Errorf("the gradient norm of a skipped step is %g", v)
	}
}

// TestFirstBytes: every event file that TensorFlow writes begins with these bytes, since its first record has 24 of
// them: the length and its masked checksum.
func TestFirstBytes(t *testing.T) {
	records := seriestest.Write(t, t.TempDir(), 1, ipu)
	files, err := filepath.Glob(filepath.Join(to(t, "tensorboard", records), "*", "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if got, want := readFile(t, files[0])[:12], []byte{0x18, 0, 0, 0, 0, 0, 0, 0, 0xa3, 0x7f, 0x4b, 0x22}; !bytes.Equal(got, want) {
		t.Errorf("the file begins with % x, want % x", got, want)
	}
}
