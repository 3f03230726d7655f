package durable

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
)

// TestLock: only one holder has it, until it is released.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(path); !errors.Is(err, ErrLocked) {
		t.Errorf("a second lock: error is %v, want %v", err, ErrLocked)
	}
	if held, err := Held(path); !held || err != nil {
		t.Errorf("held is %v, error %v, while somebody has it", held, err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	if held, err := Held(path); held || err != nil {
		t.Errorf("held is %v, error %v, when it was released", held, err)
	}
	unlock, err = LockShared(path)
	if err != nil {
		t.Fatal(err)
	}
	other, err := LockShared(path)
	if err != nil {
		t.Fatalf("a second shared lock: %v", err)
	}
	if _, err := Lock(path); !errors.Is(err, ErrLocked) {
		t.Errorf("a lock beside shared ones: error is %v, want %v", err, ErrLocked)
	}
	if err := errors.Join(unlock(), other()); err != nil {
		t.Fatal(err)
	}
	if held, err := Held(filepath.Join(filepath.Dir(path), "nothing")); held || err != nil {
		t.Errorf("held is %v, error %v, where there is no file", held, err)
	}
	if _, err := Lock(filepath.Join(filepath.Dir(path), "none", "lock")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a folder that is not there: error is %v, want %v", err, fs.ErrNotExist)
	}
}
