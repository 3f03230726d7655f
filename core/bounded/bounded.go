// Package bounded opens and reads files that others wrote. A path and a limit go in; a regular file within the limit, or
// an error, comes out, soon: a FIFO, a device or a folder is refused without waiting for it, and no file makes the
// program read or hold more than its caller said.
//
// All readers of records, recipes, models and data sets open their files here. A caller must not hold a lock meanwhile:
// a file may lie on a disk or a network that does not answer.
package bounded

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
)

// Units of limits.
const (
	KiB = 1 << 10
	MiB = 1 << 20
	GiB = 1 << 30
	TiB = 1 << 40
)

// ErrTooLarge is wrapped by errors about what is larger than its limit.
var ErrTooLarge = errors.New("too large")

// ErrNotRegular is wrapped by errors about what is no regular file: a folder, a FIFO, a socket or a device.
var ErrNotRegular = errors.New("not a regular file")

// As is an error that errors.Is takes for kind, and whose text says all: that of kind would only repeat it.
func As(kind error, format string, args ...any) error {
	return told{kind, fmt.Sprintf(format, args...)}
}

type told struct {
	kind error
	text string
}

func (t told) Error() string { return t.text }
func (t told) Unwrap() error { return t.kind }

// Open opens a regular file of at most so many bytes for reading.
func Open(path string, most int64) (*os.File, error) {
	// Devices may act when they are opened, so they are told by their names first.
	if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, As(err, "%s: there is no such file", path)
	} else if err != nil {
		return nil, err
	} else if err := check(path, info, most); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|nonblock, 0)
	return checked(f, err, most)
}

// OpenIn is Open for a file in a folder that a stranger filled: no link there leads out of it.
func OpenIn(dir, name string, most int64) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // the file stays open
	path := filepath.Join(dir, name)
	info, err := root.Stat(name)
	if err != nil {
		return nil, inFull(path, err)
	}
	if err := check(path, info, most); err != nil {
		return nil, err
	}
	f, err := root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	return checked(f, inFull(path, err), most)
}

// inFull puts a whole path into the error of an os.Root, which names the file alone.
func inFull(path string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return &fs.PathError{Op: "open", Path: path, Err: p.Err}
	}
	return err
}

// checked refuses what took the place of a file after its name was looked at.
func checked(f *os.File, err error, most int64) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = check(f.Name(), info, most)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func check(path string, info fs.FileInfo, most int64) error {
	switch {
	case !info.Mode().IsRegular():
		return As(ErrNotRegular, "%s is %s, want a file", path, kind(info.Mode()))
	case info.Size() > most:
		return As(ErrTooLarge, "%s has %d bytes, want at most %d", path, info.Size(), most)
	}
	return nil
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a folder"
	case m&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case m&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}

// ReadFile is os.ReadFile for a regular file of at most so many bytes.
func ReadFile(path string, most int64) ([]byte, error) {
	f, err := Open(path, most)
	return readAll(f, err, most)
}

// ReadFileIn is ReadFile for a file in a folder that a stranger filled, as in OpenIn.
func ReadFileIn(dir, name string, most int64) ([]byte, error) {
	f, err := OpenIn(dir, name, most)
	return readAll(f, err, most)
}

func readAll(f *os.File, err error, most int64) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	// The size is a hint: a file may grow, and those of /proc say 0.
	text := make([]byte, 0, min(info.Size(), most)+1)
	for {
		if len(text) == cap(text) {
			text = append(text, 0)[:len(text)]
		}
		n, err := f.Read(text[len(text):cap(text)])
		if text = text[:len(text)+n]; int64(len(text)) > most {
			return nil, As(ErrTooLarge, "%s has more than %d bytes", f.Name(), most)
		}
		if errors.Is(err, io.EOF) {
			return text, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// ReadAll is io.ReadAll for at most so many bytes, such as of what a server or a decompressor gives.
func ReadAll(r io.Reader, most int64) ([]byte, error) { return io.ReadAll(Reader(r, most)) }

// Reader reads from r, and fails after so many bytes unless r ends there.
func Reader(r io.Reader, most int64) io.Reader { return &reader{r, most, most} }

type reader struct {
	r          io.Reader
	left, most int64
}

// Read implements io.Reader.
func (b *reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1] // one more byte tells a stream that ends at the limit from one that goes on
	}
	n, err := b.r.Read(p)
	if int64(n) > b.left {
		n = int(b.left)
		b.left = 0
		return n, As(ErrTooLarge, "there are more than %d bytes", b.most)
	}
	b.left -= int64(n)
	return n, err
}

// Lines yields the lines of a stream without their ends; a line longer than so many bytes is an error, and ends the
// sequence. The next line overwrites the text of a line.
func Lines(r io.Reader, most int) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		b := bufio.NewReaderSize(r, 64*KiB)
		var long []byte // a line that is longer than the buffer
		for number := 1; ; number++ {
			text, err := b.ReadSlice('\n')
			for long = long[:0]; errors.Is(err, bufio.ErrBufferFull) && len(long)+len(text) <= most+1; text, err = b.ReadSlice('\n') {
				long = append(long, text...)
			}
			if len(long) > 0 {
				long = append(long, text...)
				text = long
			}
			whole := err == nil
			if whole {
				text = text[:len(text)-1]
			}
			switch {
			case len(text) > most:
				yield(Line{Number: number}, As(ErrTooLarge, "line %d has more than %d bytes", number, most))
				return
			case err != nil && !errors.Is(err, io.EOF):
				yield(Line{Number: number}, err)
				return
			case !whole && len(text) == 0:
				return
			}
			if !yield(Line{text, number, whole}, nil) || !whole {
				return
			}
		}
	}
}

// Line is a line of a file.
type Line struct {
	Text   []byte // without its end
	Number int    // from 1
	Whole  bool   // it has an end
}
