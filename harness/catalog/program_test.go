package catalog

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"harness.invalid/core/plugin/host"
)

// TestKeptHash: a kept hash is used, unless the file has changed since or the kept hash is cut off.
func TestKeptHash(t *testing.T) {
	path, kept := filepath.Join(t.TempDir(), "program"), filepath.Join(t.TempDir(), "folder", "kept")
	hashes := map[string]bool{}
	hold := func(what string, text string, at time.Time) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		want, err := host.Hash(path)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got, err := keptHash(path, kept); err != nil || got != want {
				t.Errorf("%s: hash is %s, %v, want %s", what, got, err, want)
			}
		}
		hashes[want] = true
	}
	now := time.Now()
	hold("new", "one", now)
	hold("other contents of the same size, a nanosecond later", "two", now.Add(1))
	hold("longer", "three", now.Add(1))
	if len(hashes) != 3 {
		t.Errorf("%d hashes of three files", len(hashes))
	}
	if err := os.Truncate(kept, 40); err != nil {
		t.Fatal(err)
	}
	hold("cut off", "three", now.Add(1))

	// Taken, not computed: the file is another one, and nothing that is compared says so.
	if err := os.WriteFile(path, []byte("eerht"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, now.Add(1), now.Add(1)); err != nil {
		t.Fatal(err)
	}
	if got, err := keptHash(path, kept); err != nil || !hashes[got] {
		t.Errorf("hash is %s, %v, want the one that was kept", got, err)
	}
}
