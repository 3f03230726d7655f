package train_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"harness.invalid/core/recipe"
	"harness.invalid/harness/train"
)

// TestCheckFiles: all files that can't be read are named at once, each by what it was given as.
func TestCheckFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file, empty, gone := write("file", "x"), write("empty", ""), filepath.Join(dir, "gone")
	r, err := recipe.Load("tiny-wiki-squad")
	if err != nil {
		t.Fatal(err)
	}
	r.Data.Files = recipe.Files{Text: []string{file, gone}, Vocab: dir, SQuAD: recipe.TaskFiles{Train: []string{empty}, Dev: []string{file}}}
	err = train.CheckFiles(r)
	want := strings.Join([]string{
		"text " + gone + ": there is no such file", "vocab " + dir + " is a folder, want a file", "squad.train " + empty + " is empty",
	}, "\n")
	if err == nil {
		t.Fatal("no error")
	}
	got := strings.Split(err.Error(), "\n")
	for _, line := range strings.Split(want, "\n") {
		if !strings.Contains(err.Error(), line) || len(got) != 3 {
			t.Errorf("error is\n%v\nwant\n%s", err, want)
		}
	}
	r.Data.Files = recipe.Files{Text: []string{file}, Vocab: file, SQuAD: recipe.TaskFiles{Train: []string{file}, Dev: []string{file}}}
	if err := train.CheckFiles(r); err != nil {
		t.Error(err)
	}
	r.Data.Files.SQuAD.Dev = nil
	if err := train.CheckFiles(r); err == nil || !strings.Contains(err.Error(), "needs files that were not given: squad.dev") {
		t.Errorf("error is %v", err)
	}
}
