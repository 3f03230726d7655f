package durable

import (
	"errors"
	"fmt"

	"github.com/gofrs/flock"
)

// ErrLocked is the error of Lock when somebody else has the lock.
var ErrLocked = errors.New("locked by another process")

// Lock takes the lock that the file at path stands for, which is made if it is not there; its folder must be. The
// system gives the lock back when the process ends, however it ends, so a lock is never left behind by one that was
// killed.
func Lock(path string) (unlock func() error, err error) {
	l := flock.New(path)
	switch ok, err := l.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("lock: %w", err)
	case !ok:
		return nil, fmt.Errorf("%s: %w", path, ErrLocked)
	}
	return l.Unlock, nil
}
