package host

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Bounds on the name of a Unix socket: sun_path has 108 bytes on Linux and 104 elsewhere, including the final zero.
// go-plugin's server appends a separator, "plugin" and up to ten digits to the folder's name.
const (
	maxSocketPath       = 108
	maxSocketPathBSD    = 104
	socketNameBytes     = len("/plugin") + 10 + 1
	socketFolderPattern = "harness-plugin-"
	// staleAfter is far longer than a start takes: a folder exists until the host has connected.
	staleAfter = time.Hour
)

// newSocketFolder makes a folder for the socket of one plugin, in the folder for temporary files or, if that name
// is too long for a socket, in /tmp. On the way it removes folders left by hosts that were killed while they
// started a plugin.
func newSocketFolder() (string, error) {
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
		return os.MkdirTemp(parent, socketFolderPattern)
	}
	return "", fmt.Errorf("the name of a socket in %s would be longer than %d bytes: set TMPDIR to a folder with a shorter name",
		strings.Join(folders, " or "), limit)
}

// sweep removes socket folders so old that no host can still be using them.
func sweep(parent string, now time.Time) {
	found, err := filepath.Glob(filepath.Join(parent, socketFolderPattern+"*"))
	if err != nil {
		return
	}
	for _, folder := range found {
		if info, err := os.Lstat(folder); err == nil && info.IsDir() && now.Sub(info.ModTime()) > staleAfter {
			_ = os.RemoveAll(folder)
		}
	}
}
