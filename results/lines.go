package results

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"harness.invalid/core/bounded"
)

// appender writes one JSON value a line at the end of a file.
type appender struct {
	file  *os.File
	lines int
}

// openLines opens a file for appending after its first lines, and cuts off the rest. It creates a missing file; a
// file with fewer lines is an error.
func openLines(path string, lines int) (*appender, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, bounded.ErrNotRegular), err, f.Close())
	}
	end := int64(0)
	r := bufio.NewReader(f)
	for i := range lines {
		line, err := r.ReadSlice('\n')
		for errors.Is(err, bufio.ErrBufferFull) {
			end += int64(len(line))
			line, err = r.ReadSlice('\n')
		}
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("%s has %d whole lines, want at least the %d that the checkpoint was written after", path, i, lines)
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		end += int64(len(line))
	}
	if err := f.Truncate(end); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if _, err := f.Seek(end, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &appender{f, lines}, nil
}

// add writes a line in one call, so that a crash leaves all of it, or a line without an end.
func (a *appender) add(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err := a.file.Write(append(line, '\n')); err != nil {
		return err
	}
	a.lines++
	return nil
}

// readLines yields the values of a file of a run with one JSON value a line, as decode reads them. A last line without an
// end was torn by a crash, and is skipped; a missing file has no lines.
func readLines[T any](dir, name string, decode func(line []byte) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		f, err := bounded.OpenIn(dir, name, mostLines)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			yield(zero, err)
			return
		}
		defer f.Close()
		path := filepath.Join(dir, name)
		for line, err := range bounded.Lines(f, mostLine) {
			if err != nil {
				yield(zero, fmt.Errorf("%s: %w", path, err))
				return
			}
			if !line.Whole {
				return
			}
			v, err := decode(line.Text)
			if err != nil {
				yield(zero, fmt.Errorf("%s:%d: %w", path, line.Number, err))
				return
			}
			if !yield(v, nil) {
				return
			}
		}
	}
}

// decodeJSON decodes a line by the rules of encoding/json.
func decodeJSON[T any](line []byte) (v T, err error) {
	err = json.Unmarshal(line, &v)
	return v, err
}
