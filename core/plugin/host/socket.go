package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"harness.invalid/core/durable"
)

// Bounds on the name of a Unix socket: sun_path has 108 bytes on Linux and 104 elsewhere, including the final zero.
// go-plugin's server appends a separator, "plugin" and up to ten digits to the folder's name.
const (
	maxSocketPath       = 108
	maxSocketPathBSD    = 104
	socketNameBytes     = len("/plugin") + 10 + 1
	socketFolderPattern = "harness-plugin-"
	// socketLock is the file that a host holds the lock of as long as the folder is its own. Between the two there is less
	// than unlockedAfter.
	socketLock    = "lock"
	unlockedAfter = time.Minute
)

// newSocketFolder makes a folder for the socket of one plugin, in the folder for temporary files or, if that name
// is too long for a socket, in /tmp. On the way it removes folders left by hosts that were killed while they had one.
// remove removes it.
func newSocketFolder() (folder string, remove func() error, err error) {
	limit := maxSocketPathBSD
	if runtime.GOOS == "linux" {
		limit = maxSocketPath
	}
	folders := []string{os.TempDir()}
	if runtime.GOOS != "windows" {
		folders = append(folders, "/tmp")
	}
	for _, parent := range folders {
		if len(filepath.Join(parent, socketFolderPattern))+10+socketNameBytes > limit && runtime.GOOS != "windows" {
			continue
		}
		sweep(parent, time.Now())
		if folder, err = os.MkdirTemp(parent, socketFolderPattern); err != nil {
			return "", nil, err
		}
		unlock, err := durable.Lock(filepath.Join(folder, socketLock))
		if err != nil {
			return "", nil, errors.Join(err, os.RemoveAll(folder))
		}
		return folder, func() error { return errors.Join(unlock(), os.RemoveAll(folder)) }, nil
	}
	return "", nil, fmt.Errorf("the name of a socket in %s would be longer than %d bytes: set TMPDIR to a folder with a shorter name",
		strings.Join(folders, " or "), limit)
}

// sweep removes socket folders that no host holds.
func sweep(parent string, now time.Time) {
	found, err := filepath.Glob(filepath.Join(parent, socketFolderPattern+"*"))
	if err != nil {
		return
	}
	for _, folder := range found {
		info, err := os.Lstat(folder)
		if err != nil || !info.IsDir() || now.Sub(info.ModTime()) <= unlockedAfter {
			continue
		}
		if held, err := durable.Held(filepath.Join(folder, socketLock)); err == nil && !held {
			_ = os.RemoveAll(folder)
		}
	}
}
