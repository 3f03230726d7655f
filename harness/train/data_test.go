package train_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"harness.invalid/core/recipe"
	"harness.invalid/harness/train"
)

// TestOpenData: the digest is of the contents of the files, wherever they are, and an error names all missing files.
func TestOpenData(t *testing.T) {
	digest := func(r *recipe.Recipe, dir string) string {
		t.Helper()
		d, err := train.OpenData(r, dir, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		return d.Digest
	}
	parse := func(sets ...string) *recipe.Recipe {
		t.Helper()
		r, err := recipe.Load("../testdata/mini.yaml", sets...)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	here, there := t.TempDir(), t.TempDir()
	made := digest(parse(), here)
	if digest(parse(), there) != made {
		t.Error("the same recipe makes other data in another folder")
	}
	if digest(parse("data.generated.seed=2"), t.TempDir()) == made {
		t.Error("another seed makes the same data")
	}

	// The same files, given by name.
	files := parse("data.kind=files")
	files.Data.Files.Text = []string{filepath.Join(here, "text.txt")}
	files.Data.Files.Vocab = filepath.Join(here, "vocab.txt")
	files.Data.Files.SQuAD = recipe.TaskFiles{
		Train: []string{filepath.Join(here, "train.json")}, Dev: []string{filepath.Join(here, "dev.json")},
	}
	if digest(files, t.TempDir()) != made {
		t.Error("the files of synthetic data have another digest than the synthetic data")
	}
	vocab, err := os.ReadFile(filepath.Join(here, "vocab.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(there, "vocab.txt"), append(vocab, "extra\n"...), 0o666); err != nil {
		t.Fatal(err)
	}
	files.Data.Files.Vocab = filepath.Join(there, "vocab.txt")
	if digest(files, t.TempDir()) == made {
		t.Error("another vocabulary, the same digest")
	}

	for _, c := range []struct {
		change func(*recipe.Recipe)
		want   string
	}{
		{
			func(r *recipe.Recipe) { r.Data.Files = recipe.Files{} },
			"needs files that were not given: text, squad.train, squad.dev (--data text=FILE)",
		},
		{func(r *recipe.Recipe) { r.Data.Files.SQuAD.Dev = nil }, "needs files that were not given: squad.dev (--data squad.dev=FILE)"},
		{func(r *recipe.Recipe) { r.Data.Files.Text = []string{"none.txt"} }, "none.txt"},
		{func(r *recipe.Recipe) { r.Data.Files.Vocab = "none.txt" }, "none.txt"},
		{func(r *recipe.Recipe) { r.Data.Files.SQuAD.Train = files.Data.Files.Text }, "text.txt"},
	} {
		r := *files
		c.change(&r)
		if _, err := train.OpenData(&r, t.TempDir(), func(string) {}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}
