package catalog

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"harness.invalid/core/durable"
	"harness.invalid/core/plugin/host"
)

// program is the executable that runs.
func program() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the program itself: %w", err)
	}
	return self, nil
}

// ProgramHash is the SHA-256 of this program's file, for records.
func ProgramHash() (string, error) { return programHash() }

var programHash = sync.OnceValues(func() (string, error) {
	self, err := program()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return host.Hash(self) // nowhere to keep it
	}
	return keptHash(self, filepath.Join(cache, "harness", "program"))
})

// keptHash is the SHA-256 of a file. It takes longer to hash a program of tens of megabytes than to start it, so the
// hash is kept in another file, with the path, the size and the time of change that it holds for. Pins of plugins
// are never compared with what was kept.
func keptHash(path, kept string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	key := fmt.Sprintf("%s\n%d\n%d\n", path, info.Size(), info.ModTime().UnixNano())
	if text, err := os.ReadFile(kept); err == nil {
		if hash, ok := strings.CutPrefix(string(text), key); ok && len(hash) == 64 {
			return hash, nil
		}
	}
	hash, err := host.Hash(path)
	if err == nil && os.MkdirAll(filepath.Dir(kept), 0o700) == nil {
		// If it cannot be kept, the next process hashes again.
		_ = durable.WriteFile(kept, func(w io.Writer) error {
			_, err := io.WriteString(w, key+hash)
			return err
		})
	}
	return hash, err
}
