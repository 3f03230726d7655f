package huggingface

import (
	"os"
	"path/filepath"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/checkpoint/sums"
	"harness.invalid/core/tensor"
)

// tree is the contents of all files in a folder.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, e := range entries {
		if e.Name() == sums.File {
			continue // it follows from the others
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(text)
	}
	return files
}

// sameTree compares folders without printing megabytes.
func sameTree(t *testing.T, what, a, b string) {
	t.Helper()
	x, y := tree(t, a), tree(t, b)
	for name, text := range x {
		other, ok := y[name]
		if !ok {
			t.Errorf("%s: %s is not there", what, name)
		} else if text != other {
			t.Errorf("%s: %s differs: %d and %d bytes", what, name, len(text), len(other))
		}
		delete(y, name)
	}
	for name := range y {
		t.Errorf("%s: %s is too many", what, name)
	}
}

// convert opens a model, writes it as another folder and returns that.
func convert(t *testing.T, from string, target Target) (string, Report) {
	t.Helper()
	f, err := Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dir := filepath.Join(t.TempDir(), string(target.Format))
	rep, err := f.Write(dir, target)
	if err != nil {
		t.Fatal(err)
	}
	return dir, rep
}

// saved is a model folder with a tokenizer, as another program would find it.
func saved(t *testing.T, h bert.Head, dtype tensor.DType) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	c, l, params := model(t, h)
	if err := Save(dir, c, h, l, params, dtype); err != nil {
		t.Fatal(err)
	}
	if err := (Tokenizer{Vocab: vocab(t), Options: huggingFaceOptions, MaxLength: 5}).Save(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}
