package benchmark

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFind finds files under the names of several distributions.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"SST-2/train.tsv", "SST-2/dev.tsv", "SST-2/test.tsv", "MNLI/train.tsv", "MNLI/dev_matched.tsv",
		"MNLI/dev_mismatched.tsv", "MRPC/msr_paraphrase_train.txt", "MRPC/msr_paraphrase_test.txt", "QNLIv2/train.tsv",
		"CoLA/in_domain_train.tsv", "CoLA/in_domain_dev.tsv", "CoLA/out_of_domain_dev.tsv", "tnews_public/train.json",
		"train-v1.1.json", "dev-v1.1.json", "other/train.tsv"} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	glue, err := Tasks("GLUE")
	if err != nil || len(glue) != 9 {
		t.Fatalf("GLUE has %d tasks, %v", len(glue), err)
	}
	found, err := Find(glue, dir)
	if err != nil || len(found) != 4 || len(found["sst-2"].Test) != 1 || len(found["cola"].Dev) != 2 ||
		!strings.HasSuffix(found["mnli"].Other[0], "dev_mismatched.tsv") || found["sst-2"].Other != nil {
		t.Errorf("found %+v, %v", found, err) // QNLI has nothing to evaluate on
	}
	squad, err := Tasks("squad")
	if err != nil || len(squad) != 2 {
		t.Fatalf("SQuAD has %d tasks, %v", len(squad), err)
	}
	if found, err = Find(squad, dir); err != nil || len(found) != 1 || len(found["squad"].Train) != 1 {
		t.Errorf("found %+v, %v", found, err)
	}
	if err := os.Mkdir(filepath.Join(dir, "sst2"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sst2", "train.tsv"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(glue, dir); err == nil || !strings.Contains(err.Error(), "two folders of sst-2") {
		t.Errorf("two folders of a task: %v", err)
	}
	if _, err := Tasks("superglue"); err == nil {
		t.Error("superglue is taken")
	}
}

// TestRecipes: every task has a recipe.
func TestRecipes(t *testing.T) {
	for name, want := range map[string]string{
		"glue":  "glue-cola glue-sst2 glue-mrpc glue-qqp glue-stsb glue-mnli glue-qnli glue-rte glue-wnli",
		"clue":  "clue-afqmc clue-tnews clue-iflytek clue-cmnli clue-ocnli clue-wsc clue-csl clue-chid clue-c3 clue-cmrc2018",
		"squad": "squad-base squad-base",
	} {
		list, err := Tasks(name)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, task := range list {
			got = append(got, (&Suite{}).recipeOf(&task))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %s", name, got, want)
		}
	}
}
