package results

import (
	"errors"
	"path/filepath"
	"testing"

	"harness.invalid/core/fault"
)

// TestDiscard: a record that is discarded is gone, or, if the disk fails, a run that can be read, or no run.
func TestDiscard(t *testing.T) {
	r := quick(t)
	broken := errors.New("broken")
	for failing := 0; ; failing++ {
		dir := filepath.Join(t.TempDir(), "run")
		w, err := Create(dir, identity(r), r, Environment{})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		remove := fault.Intercept(func(_ *fault.Op, do func() error) error {
			if n++; n == failing {
				return broken
			}
			return do()
		})
		err = w.Discard()
		remove()
		if failing > 0 && n < failing {
			break
		}
		if last := failing > 7; (err != nil) != (failing > 0 && !last) { // the folder itself may stay
			t.Errorf("operation %d of %d fails: error %v", failing, n, err)
		}
		found, err := Find(filepath.Dir(dir))
		if err != nil {
			t.Fatal(err)
		}
		if len(found) > 0 {
			if _, err := Open(dir); err != nil || failing == 0 {
				t.Errorf("operation %d of %d fails: %v", failing, n, err)
			}
			continue
		}
		w, err = Create(dir, identity(r), r, Environment{})
		if err != nil {
			t.Fatalf("operation %d of %d fails, and the folder can't be used again: %v", failing, n, err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
