package pretraining

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
	"harness.invalid/core/bounded"
)

// The bounds of a text. A few kilobytes can be made that unpack to as many gigabytes; text becomes 3 to 20 times as large.
const (
	mostText     = 16 * bounded.TiB
	mostRatio    = 250
	alwaysAllows = 64 * bounded.MiB // however short the file
	mostWindow   = 256 * bounded.MiB
)

// formats are the kinds of compressed files that are decompressed transparently, recognized by their first bytes.
var formats = []struct {
	name  string
	magic []byte
	open  func(io.Reader) (io.Reader, func(), error)
}{
	{"gzip", []byte{0x1f, 0x8b}, func(r io.Reader) (io.Reader, func(), error) {
		z, err := gzip.NewReader(r)
		return z, func() {}, err
	}},
	{"zstd", []byte{0x28, 0xb5, 0x2f, 0xfd}, func(r io.Reader) (io.Reader, func(), error) {
		z, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(mostWindow), zstd.WithDecoderMaxMemory(4*mostWindow))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	}},
	{"bzip2", []byte("BZh"), func(r io.Reader) (io.Reader, func(), error) { return bzip2.NewReader(r), func() {}, nil }},
}

// decompressed is a text whose file may be compressed.
type decompressed struct {
	io.Reader
	name   string // of the file
	format string // empty: not compressed
	file   *os.File
	free   func()
}

// OpenText opens a text for reading from beginning to end. Files compressed with gzip, zstd or bzip2 are
// decompressed.
func OpenText(path string) (io.ReadCloser, error) {
	text, _, err := OpenTextProgress(path, nil)
	return text, err
}

// OpenTextProgress is OpenText that also returns the size of the file as it is, and reports to progress, if it is not
// nil, how much of it was read.
func OpenTextProgress(path string, progress func(done, total int64)) (_ io.ReadCloser, size int64, err error) {
	f, err := bounded.Open(path, mostText)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	var tell func(done int64)
	if progress != nil {
		tell = func(done int64) { progress(done, info.Size()) }
	}
	text, err := decompress(f, path, tell)
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return text, info.Size(), nil
}

// decompress reads a file's content and reports to progress how many bytes of the file itself are read.
func decompress(f *os.File, path string, progress func(done int64)) (*decompressed, error) {
	var r io.Reader = f
	if progress != nil {
		r = &watcher{f, progress, 0, 0}
	}
	b := bufio.NewReaderSize(r, 1<<20)
	d := &decompressed{b, path, "", f, func() {}}
	for _, format := range formats {
		start, err := b.Peek(len(format.magic))
		if err != nil && err != io.EOF {
			return nil, fmt.Errorf("text %s: %w", path, err)
		}
		if !bytes.Equal(start, format.magic) {
			continue
		}
		if d.Reader, d.free, err = format.open(b); err != nil {
			return nil, fmt.Errorf("text %s: %s: %w: %w", path, format.name, err, ErrInvalid)
		}
		info, err := f.Stat()
		if err != nil {
			d.free()
			return nil, err
		}
		d.Reader = bounded.Reader(d.Reader, max(alwaysAllows, mostRatio*info.Size()))
		d.format = format.name
		break
	}
	return d, nil
}

// Read implements io.Reader.
func (d *decompressed) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	if err != nil && err != io.EOF && d.format != "" {
		err = fmt.Errorf("text %s: %s: %w: %w", d.name, d.format, err, ErrInvalid)
	}
	return n, err
}

// Close closes the file.
func (d *decompressed) Close() error {
	d.free()
	return d.file.Close()
}

// watcher reports from time to time how much was read.
type watcher struct {
	r          io.Reader
	progress   func(done int64)
	done, told int64
}

func (w *watcher) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if w.done += int64(n); w.done-w.told >= 1<<22 || err != nil {
		w.told = w.done
		w.progress(w.done)
	}
	return n, err
}

// inflate decompresses a file into a temporary file, since documents are read in random order. Where the system
// allows it, the file's name is removed before inflate returns; otherwise Close removes it.
func inflate(d *decompressed) (_ *os.File, name string, err error) {
	t, err := os.CreateTemp("", "harness-text-*")
	if err != nil {
		return nil, "", err
	}
	if os.Remove(t.Name()) != nil {
		name = t.Name()
	}
	if _, err = io.Copy(t, d); err == nil {
		_, err = t.Seek(0, io.SeekStart)
	}
	if err != nil {
		err = errors.Join(err, t.Close())
		if name != "" {
			err = errors.Join(err, os.Remove(name))
		}
		return nil, "", err
	}
	return t, name, nil
}
