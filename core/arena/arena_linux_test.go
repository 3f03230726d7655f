//go:build !portable

package arena

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestCannotShrink: no process that has the file can take pages away, on which every mapping relies.
func TestCannotShrink(t *testing.T) {
	a := shared(t)
	r, err := a.Allocate(layoutOf(t, 1000), 2)
	if err != nil {
		t.Fatal(err)
	}
	b := attach(t, a)
	if err := b.File().Truncate(0); err == nil {
		t.Error("a plugin could truncate the arena")
	}
	if r.Params()[999] != 0 {
		t.Error("memory changed")
	}
}

func TestAttachRefuses(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := Attach(f); err == nil || !strings.Contains(err.Error(), "memfd") {
		t.Errorf("Attach(regular file) = %v, want an error", err)
	}
}

// TestReleaseGivesPagesBack counts the file's blocks: a closed region must not keep memory.
func TestReleaseGivesPagesBack(t *testing.T) {
	a := shared(t)
	r, err := a.Allocate(layoutOf(t, 1<<20), 2)
	if err != nil {
		t.Fatal(err)
	}
	blocks := func() int64 {
		info, err := a.File().Stat()
		if err != nil {
			t.Fatal(err)
		}
		return info.Sys().(*syscall.Stat_t).Blocks * 512
	}
	for i := range r.Sections() {
		for j := range r.Section(i) {
			r.Section(i)[j] = 1
		}
	}
	if n := blocks(); n < 8<<20 {
		t.Errorf("%d bytes behind 8 MiB of sections that were written", n)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if n := blocks(); n != 0 {
		t.Errorf("%d bytes behind the arena after the region was closed, want 0", n)
	}
}
