// Package durable writes files atomically and locks them between processes. A path and what to write go in; a reader
// of the path sees the old or the new content, never a part of it, even if the process is killed or the machine
// loses power.
package durable

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
)

// WriteFile replaces the file at path by what write writes. It writes to a temporary file beside it, flushes that
// to disk, and renames it. If anything fails, the old file stays as it was.
func WriteFile(path string, write func(w io.Writer) error) (err error) {
	f, err := createBeside(path)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreClosed(f.Close()), os.Remove(f.Name()))
		}
	}()
	w := bufio.NewWriterSize(f, 1<<20)
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
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// createBeside creates a file with a unique name in path's folder. Unlike os.CreateTemp it leaves the permissions
// to the umask, because the file will stay.
func createBeside(path string) (*os.File, error) {
	dir, name := filepath.Split(path)
	for range 100 {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf(".%s.%08x.tmp", name, rand.Uint32())), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
	return nil, fmt.Errorf("write %s: no temporary name is free in %s", path, dir)
}

// RemoveLeftovers removes the temporary files that killed processes left in a folder. Nobody else may be writing there.
func RemoveLeftovers(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if left, _ := filepath.Match(".*.????????.tmp", e.Name()); left {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// SyncDir flushes a folder's entries to disk. Without it a power cut may undo a rename.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // folders can't be opened for flushing there; NTFS journals renames
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func ignoreClosed(err error) error {
	if errors.Is(err, fs.ErrClosed) {
		return nil
	}
	return err
}
