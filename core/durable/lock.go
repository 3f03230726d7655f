package durable

import (
	"errors"
	"fmt"
	"os"

	"github.com/gofrs/flock"
)

// ErrLocked is the error of Lock if another process has the lock.
var ErrLocked = errors.New("locked by another process")

// Lock takes the lock of the file at path, and creates the file if necessary; its folder must exist. The system
// releases the lock when the process ends, so even a killed process does not leave it locked.
func Lock(path string) (unlock func() error, err error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("lock: %s is not a regular file", path) // opening a FIFO would wait for its other end
	}
	l := flock.New(path)
	switch ok, err := l.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("lock: %w", err)
	case !ok:
		return nil, fmt.Errorf("%s: %w", path, ErrLocked)
	}
	return l.Unlock, nil
}
