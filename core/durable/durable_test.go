package durable

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.json")
	for _, text := range []string{"first", "second"} {
		if err := WriteFile(path, func(w io.Writer) error { _, err := io.WriteString(w, text); return err }); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Fatalf("read %q, %v, want %q", got, err, text)
		}
	}
	only(t, dir, "a.json")
}

// TestRemoveLeftovers: the files of killed writes are removed, and nothing else.
func TestRemoveLeftovers(t *testing.T) {
	dir := t.TempDir()
	killed, err := createBeside(filepath.Join(dir, "a.json"))
	if err != nil {
		t.Fatal(err)
	}
	killed.Close()
	if err := os.WriteFile(filepath.Join(dir, ".mine.tmp"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := RemoveLeftovers(dir, time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(killed.Name()); err != nil {
		t.Errorf("a file was removed that may be in use: %v", err)
	}
	if err := RemoveLeftovers(dir, 0); err != nil {
		t.Fatal(err)
	}
	only(t, dir, ".mine.tmp")
}

// TestWriteFileFails: a failed write leaves the old file and nothing else.
func TestWriteFileFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.json")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("out of paper")
	err := WriteFile(path, func(w io.Writer) error {
		if _, err := w.Write(make([]byte, 3<<20)); err != nil {
			return err
		}
		return broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("error is %v, want %v", err, broken)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "old" {
		t.Errorf("read %q, %v, want the old content", got, err)
	}
	only(t, dir, "a.json")
}

// TestWriteOnce: a file that is there is not touched, whether or not its content is the same.
func TestWriteOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.txt")
	long := strings.Repeat("first", 40_000) // more than one buffer
	write := func(text string) error {
		return WriteOnce(path, func(w io.Writer) error { _, err := io.WriteString(w, text); return err })
	}
	if err := write(long); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := write(long); err != nil {
		t.Errorf("the same content: %v", err)
	}
	for _, other := range []string{"", long[:len(long)-1], long + "x", long[:70_000] + "x" + long[70_001:]} {
		if err := write(other); !errors.Is(err, ErrDiffers) || !strings.Contains(err.Error(), path) {
			t.Errorf("other content: error is %v, want %v", err, ErrDiffers)
		}
	}
	after, err := os.Stat(path)
	if err != nil || !os.SameFile(before, after) || after.ModTime() != before.ModTime() {
		t.Errorf("the file was replaced (%v)", err)
	}
	only(t, dir, "a.txt")
}

func only(t *testing.T, dir, name string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || entries[0].Name() != name {
		t.Errorf("folder holds %v, want %s alone", entries, name)
	}
}
