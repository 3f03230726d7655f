// Package durable writes files atomically and locks them between processes. A path and what to write go in; a reader
// of the path sees the old or the new content, never a part of it, even if the process is killed or the machine
// loses power.
package durable

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"harness.invalid/core/fault"
)

// ErrDiffers is the error of WriteOnce for a file that is there with other content.
var ErrDiffers = errors.New("there is one with other content")

// WriteFile replaces the file at path by what write writes. It writes to a temporary file beside it, flushes that
// to disk, and renames it. If anything fails, the old file stays as it was.
func WriteFile(path string, write func(w io.Writer) error) error {
	return writeBeside(path, write, func(temp string) error { return Rename(temp, path) })
}

// WriteOnce is WriteFile for a file that others may be using: if there is one with the same content it stays as it is,
// and if there is one with other content the error is ErrDiffers.
func WriteOnce(path string, write func(w io.Writer) error) error {
	return writeBeside(path, write, func(temp string) error {
		same, err := equal(temp, path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return Rename(temp, path)
		case err == nil && !same:
			err = fmt.Errorf("%s: %w", path, ErrDiffers)
		}
		return errors.Join(err, Remove(temp))
	})
}

// writeBeside writes a temporary file beside path, which place then moves or removes.
func writeBeside(path string, write func(w io.Writer) error, place func(temp string) error) (err error) {
	f, err := createBeside(path)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignore(f.Close(), fs.ErrClosed), ignore(Remove(f.Name()), fs.ErrNotExist))
		}
	}()
	w := bufio.NewWriterSize(f, 64<<10)
	if err := write(w); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := place(f.Name()); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// equal reports whether two files have the same content.
func equal(a, b string) (bool, error) {
	f, err := os.Open(a)
	if err != nil {
		return false, err
	}
	defer f.Close()
	g, err := os.Open(b)
	if err != nil {
		return false, err
	}
	defer g.Close()
	x, y := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, errX := io.ReadFull(f, x)
		m, errY := io.ReadFull(g, y)
		if !bytes.Equal(x[:n], y[:m]) {
			return false, nil
		}
		for _, err := range []error{errX, errY} {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return true, nil
			}
			if err != nil {
				return false, err
			}
		}
	}
}

// createBeside creates a file with a unique name in path's folder. Unlike os.CreateTemp it leaves the permissions
// to the umask, because the file will stay.
func createBeside(path string) (*File, error) {
	dir, name := filepath.Split(path)
	for range 100 {
		f, err := open(filepath.Join(dir, fmt.Sprintf(".%s.%08x.tmp", name, rand.Uint32())), os.O_WRONLY|os.O_CREATE|os.O_EXCL)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
	return nil, fmt.Errorf("write %s: no temporary name is free in %s", path, dir)
}

// RemoveLeftovers removes the temporary files that killed processes left in a folder. Nobody may be writing there a file
// that was begun longer than age ago.
func RemoveLeftovers(dir string, age time.Duration) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if left, _ := filepath.Match(".*.????????.tmp", e.Name()); !left {
			continue
		}
		if info, gone := e.Info(); gone == nil && time.Since(info.ModTime()) >= age {
			err = errors.Join(err, ignore(Remove(filepath.Join(dir, e.Name())), fs.ErrNotExist))
		}
	}
	return err
}

// SyncDir flushes a folder's entries to disk. Without it a power cut may undo a rename.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // folders can't be opened for flushing there; NTFS journals renames
	}
	return fault.Do(&fault.Op{Kind: fault.SyncDir, Path: dir}, func() error {
		d, err := os.Open(dir)
		if err != nil {
			return err
		}
		return errors.Join(d.Sync(), d.Close())
	})
}

// ignore returns an error unless it is what.
func ignore(err, what error) error {
	if errors.Is(err, what) {
		return nil
	}
	return err
}
