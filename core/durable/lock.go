package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/gofrs/flock"
)

// ErrLocked is the error of Lock if another process has the lock.
var ErrLocked = errors.New("locked by another process")

// Lock takes the lock of the file at path, and creates the file if necessary; its folder must exist. The system
// releases the lock when the process ends, so even a killed process does not leave it locked.
func Lock(path string) (unlock func() error, err error) { return take(path, (*flock.Flock).TryLock) }

// LockShared is Lock for those that only read: several may hold the lock at once, and none beside the holder of Lock.
func LockShared(path string) (unlock func() error, err error) {
	return take(path, (*flock.Flock).TryRLock)
}

func take(path string, try func(*flock.Flock) (bool, error)) (unlock func() error, err error) {
	if err := regular(path); err != nil {
		return nil, err
	}
	l := flock.New(path)
	for n := 0; ; n++ {
		switch ok, err := try(l); {
		case err != nil:
			return nil, fmt.Errorf("lock: %w", err)
		case ok:
			return l.Unlock, nil
		case n == 5:
			return nil, fmt.Errorf("%s: %w", path, ErrLocked)
		}
		time.Sleep(10 * time.Millisecond) // Held may have it for a moment
	}
}

// Held reports whether a process has the lock of a file. It creates nothing; where there is no file, nobody has its lock.
func Held(path string) (bool, error) {
	if err := regular(path); err != nil {
		return false, err
	}
	l := flock.New(path, flock.SetFlag(os.O_RDONLY))
	ok, err := l.TryRLock()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("lock: %w", err)
	}
	return !ok, l.Close()
}

// regular refuses what it would not do to open: a FIFO waits for its other end.
func regular(path string) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("lock: %s is not a regular file", path)
	}
	return nil
}
