package results

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io/fs"
	"iter"
	"path/filepath"

	"harness.invalid/core/bounded"
	"harness.invalid/core/durable"
	"harness.invalid/core/jsonerror"
)

// ErrDamaged is wrapped by errors about lines that are not the ones that were recorded.
var ErrDamaged = errors.New("the record is damaged")

// chain is the running sum of the lines of a file. Each line ends with it, so that a reader of any part of a record
// notices the line that was changed, left out or moved. Source of the polynomial: Castagnoli, Bräuer, Herrmann 1993,
// which processors compute.
type chain struct {
	sum    uint32
	summed bool // a line with a sum was read
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// The end of a line of JSON with its sum.
const (
	sumBefore = `,"sum":"`
	sumAfter  = `"}`
	sumBytes  = len(sumBefore) + 8 + len(sumAfter)
)

func (c *chain) add(body []byte) {
	var before [4]byte
	binary.BigEndian.PutUint32(before[:], c.sum)
	c.sum = crc32.Update(crc32.Checksum(before[:], castagnoli), castagnoli, body)
}

// seal returns an object of JSON with its sum.
func (c *chain) seal(object []byte) []byte {
	body := bytes.TrimSuffix(object, []byte("}"))
	c.add(body)
	body = append(body, sumBefore...)
	body = append(body, c.hex()...)
	return append(body, sumAfter...)
}

func (c *chain) hex() []byte {
	var sum [4]byte
	binary.BigEndian.PutUint32(sum[:], c.sum)
	return hex.AppendEncode(nil, sum[:])
}

// open checks the sum of a line and returns the line without it, in the same memory. A record of an earlier version
// has no sums; those that follow cover its lines.
func (c *chain) open(line []byte) ([]byte, error) {
	n := len(line) - sumBytes
	if n < 1 || string(line[n:n+len(sumBefore)]) != sumBefore || string(line[len(line)-len(sumAfter):]) != sumAfter {
		if c.summed {
			return nil, fmt.Errorf("it has no sum, and the line before it has one: %w", ErrDamaged)
		}
		c.add(line)
		return line, nil
	}
	c.add(line[:n])
	if string(line[n+len(sumBefore):len(line)-len(sumAfter)]) != string(c.hex()) {
		return nil, fmt.Errorf("it is not the line that was recorded after the one before it: %w", ErrDamaged)
	}
	c.summed = true
	line[n] = '}'
	return line[:n+1], nil
}

// appender writes one JSON value a line at the end of a file.
type appender struct {
	file   *durable.File
	lines  int
	end    int64
	chain  chain
	digest hash.Hash // of all lines
}

// sum is the digest of all lines so far, in hexadecimal digits.
func (a *appender) sum() string { return hex.EncodeToString(a.digest.Sum(nil)) }

// openLines opens a file for appending after its first lines; cut removes the others. It creates a missing file. A
// file with fewer lines is an error, and so is one whose lines are damaged or have another digest, unless that is
// empty.
func openLines(path string, lines int, digest string) (_ *appender, err error) {
	f, err := durable.Append(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, bounded.ErrNotRegular), err)
	}
	a := &appender{file: f, digest: sha256.New()}
	for line, err := range bounded.Lines(f, mostLine) {
		if a.lines == lines || err == nil && !line.Whole {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		a.end += int64(len(line.Text)) + 1
		a.digest.Write(line.Text)
		a.digest.Write([]byte{'\n'})
		a.lines++
		if _, err := a.chain.open(line.Text); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, a.lines, err)
		}
	}
	if a.lines < lines {
		return nil, fmt.Errorf("%s has %d whole lines, want at least the %d that the checkpoint was written after: %w",
			path, a.lines, lines, ErrDamaged)
	}
	if digest != "" && digest != a.sum() {
		return nil, fmt.Errorf("%s: the first %d lines have the SHA-256 %.12s, and the checkpoint was written after %.12s: %w",
			path, lines, a.sum(), digest, ErrDamaged)
	}
	return a, nil
}

// cut removes what comes after the lines. It precedes add.
func (a *appender) cut() error { return a.file.Cut(a.end) }

// add writes a line in one call, so that a crash leaves all of it, or a line without an end.
func (a *appender) add(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	before := a.chain
	line = append(a.chain.seal(line), '\n')
	if _, err := a.file.Write(line); err != nil {
		a.chain = before
		return err
	}
	a.digest.Write(line)
	a.lines++
	return nil
}

// readLines yields the values of a file of a run with one JSON value a line, as decode reads them. A last line without an
// end was torn by a crash, and is skipped; a missing file has no lines. If the number of lines is known, a file with more
// or fewer is an error; negative: it is not.
func readLines[T any](dir, name string, known int, decode func(line []byte) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		path, number := filepath.Join(dir, name), 0
		f, err := bounded.OpenIn(dir, name, mostLines)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			yield(zero, err)
			return
		}
		if err == nil {
			defer f.Close()
			var sums chain
			for line, err := range bounded.Lines(f, mostLine) {
				if err != nil {
					yield(zero, fmt.Errorf("%s: %w", path, err))
					return
				}
				if !line.Whole {
					break
				}
				number = line.Number
				text, err := sums.open(line.Text)
				var v T
				if err == nil {
					v, err = decode(text)
				}
				if err != nil {
					yield(zero, fmt.Errorf("%s:%d: %w", path, number, err))
					return
				}
				if !yield(v, nil) {
					return
				}
			}
		}
		if known >= 0 && number != known {
			yield(zero, fmt.Errorf("%s ends after line %d, and the run ended after line %d: %w", path, number, known, ErrDamaged))
		}
	}
}

// decodeJSON decodes a line by the rules of encoding/json.
func decodeJSON[T any](line []byte) (v T, err error) {
	err = jsonerror.Explain(line, json.Unmarshal(line, &v))
	return v, err
}
