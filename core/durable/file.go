package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"harness.invalid/core/fault"
)

// File is a file that is being written. All that changes it can fail as core/fault says.
type File struct {
	f  *os.File
	at int64 // where the next Write goes
}

// Append opens a regular file, whose content can be read; Cut says where it is written. It creates a missing file for
// good: a power cut does not undo that.
func Append(path string) (*File, error) {
	_, err := os.Lstat(path)
	created := errors.Is(err, fs.ErrNotExist)
	f, err := open(path, os.O_RDWR|os.O_CREATE)
	if err == nil && created {
		if err = SyncDir(filepath.Dir(path)); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return f, err
}

func open(path string, flags int) (*File, error) {
	f := new(File)
	err := fault.Do(&fault.Op{Kind: fault.Create, Path: path}, func() (err error) {
		f.f, err = os.OpenFile(path, flags, 0o666)
		return err
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Name is the path that the file was opened with.
func (f *File) Name() string { return f.f.Name() }

// Stat describes the file.
func (f *File) Stat() (fs.FileInfo, error) { return f.f.Stat() }

// Read implements io.Reader. A file is read before Cut, and written after it.
func (f *File) Read(p []byte) (int, error) { return f.f.Read(p) }

// Write implements io.Writer.
func (f *File) Write(p []byte) (n int, err error) {
	op := &fault.Op{Kind: fault.Write, Path: f.f.Name(), Offset: f.at, Data: p}
	err = fault.Do(op, func() (err error) {
		n, err = f.f.Write(op.Data)
		f.at += int64(n)
		return err
	})
	return n, err
}

// Cut removes what comes after n bytes. The next Write goes there.
func (f *File) Cut(n int64) error {
	err := fault.Do(&fault.Op{Kind: fault.Truncate, Path: f.f.Name(), Offset: n}, func() error { return f.f.Truncate(n) })
	if err == nil {
		f.at, err = f.f.Seek(n, io.SeekStart)
	}
	return err
}

// Sync flushes the content to the disk.
func (f *File) Sync() error {
	return fault.Do(&fault.Op{Kind: fault.Sync, Path: f.f.Name()}, f.f.Sync)
}

// Close closes the file.
func (f *File) Close() error { return f.f.Close() }

// Rename gives a file or a folder another name in its folder. SyncDir makes that last.
func Rename(from, to string) error {
	return fault.Do(&fault.Op{Kind: fault.Rename, Path: from, To: to}, func() error { return os.Rename(from, to) })
}

// Remove removes a file, or a folder without entries.
func Remove(path string) error {
	return fault.Do(&fault.Op{Kind: fault.Remove, Path: path}, func() error { return os.Remove(path) })
}

// RemoveAll removes a folder with all that is in it. A crash leaves a part of it.
func RemoveAll(path string) error {
	return fault.Do(&fault.Op{Kind: fault.Prune, Path: path}, func() error { return os.RemoveAll(path) })
}

// Mkdir makes a folder. SyncDir of the folder that it lies in makes that last.
func Mkdir(path string) error {
	return fault.Do(&fault.Op{Kind: fault.Mkdir, Path: path}, func() error { return os.Mkdir(path, 0o777) })
}

// MkdirAll makes a folder and those that it lies in, unless they are there. A power cut does not undo that.
func MkdirAll(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := MkdirAll(parent); err != nil {
			return err
		}
	}
	if err := Mkdir(path); err != nil {
		if info, other := os.Stat(path); errors.Is(err, fs.ErrExist) && other == nil && info.IsDir() {
			return nil // somebody else made it
		}
		return err
	}
	return SyncDir(parent)
}
