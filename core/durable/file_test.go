package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/fault"
)

// TestMkdirAll: the entry of every folder that it makes is flushed, after it was made.
func TestMkdirAll(t *testing.T) {
	root := t.TempDir()
	var did []string
	defer fault.Intercept(func(op *fault.Op, do func() error) error {
		did = append(did, fmt.Sprint(op.Kind, " ", strings.TrimPrefix(op.Path, root)))
		return do()
	})()
	for range 2 {
		if err := MkdirAll(filepath.Join(root, "a", "b")); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"mkdir /a", "syncdir ", "mkdir /a/b", "syncdir /a"}; !slices.Equal(did, want) {
		t.Errorf("%q, want %q", did, want)
	}
	if err := os.WriteFile(filepath.Join(root, "file"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := MkdirAll(filepath.Join(root, "file", "c")); err == nil {
		t.Error("a folder in a file")
	}
}

// TestAppend: lines go to where the file was cut off; a write that fails half way says so.
func TestAppend(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(path, []byte("one\ntwo\nth"), 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := Append(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Cut(8); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Write([]byte("three\n")); n != 6 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	full := errors.New("full")
	defer fault.Intercept(func(op *fault.Op, do func() error) error {
		if op.Offset != 14 {
			t.Errorf("a write at %d, want 14", op.Offset)
		}
		op.Data = op.Data[:2]
		return errors.Join(do(), full)
	})()
	if n, err := f.Write([]byte("four\n")); n != 2 || !errors.Is(err, full) {
		t.Errorf("%d, %v, want 2 and %v", n, err, full)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "one\ntwo\nthree\nfo" {
		t.Errorf("%q, %v", got, err)
	}
}
