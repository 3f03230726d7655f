//go:build unix && !portable

package bounded_test

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"harness.invalid/core/bounded"
)

// TestFIFO: a FIFO is refused. Opening one that nobody writes to would block forever.
func TestFIFO(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "recipe.yaml")
	if err := syscall.Mkfifo(path, 0o666); err != nil {
		t.Skip(err)
	}
	if _, err := bounded.ReadFile(path, 100); !errors.Is(err, bounded.ErrNotRegular) {
		t.Errorf("%v", err)
	}
	if _, err := bounded.ReadFileIn(dir, "recipe.yaml", 100); !errors.Is(err, bounded.ErrNotRegular) {
		t.Errorf("%v", err)
	}
}
