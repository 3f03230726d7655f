package pretraining

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.txt", "a.txt", "extraction.json", "c.txt/x"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Files([]string{"one", dir, "two.gz"})
	want := []string{"one", filepath.Join(dir, "a.txt"), filepath.Join(dir, "b.txt"), "two.gz"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("files are %q, %v, want %q", got, err, want)
	}
	if _, err := Files([]string{filepath.Join(dir, "c.txt")}); err == nil {
		t.Error("a folder without text is taken")
	}
}
