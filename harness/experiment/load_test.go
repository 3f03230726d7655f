package experiment_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/recipe"
	"harness.invalid/harness/experiment"
)

// TestLoad: files of one name follow each other, and prepared data takes the place of text.
func TestLoad(t *testing.T) {
	files := func(data ...string) *recipe.Recipe {
		t.Helper()
		r, err := experiment.Load(experiment.Source{Recipe: "tiny-wiki-squad", Data: data})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := files("text=a.txt", "squad.train=t.json", "vocab=v.txt", "text=b.txt", "squad.dev=d.json")
	f := r.Data.Files
	if want := []string{"a.txt", "b.txt"}; !slices.Equal(f.Text, want) || f.Vocab != "v.txt" || r.Data.Kind != recipe.FilesData {
		t.Errorf("%s: text %v, vocabulary %s, want %v and v.txt", r.Data.Kind, f.Text, f.Vocab, want)
	}
	if q := f.Of("squad"); !slices.Equal(q.Train, []string{"t.json"}) || !slices.Equal(q.Dev, []string{"d.json"}) {
		t.Errorf("squad is trained on %v and evaluated on %v", q.Train, q.Dev)
	}
	if r := files("prepared=p"); r.Data.Kind != recipe.PreparedData {
		t.Errorf("with prepared data the kind is %s", r.Data.Kind)
	}
}

// TestLoadErrors: the error names the value that can't be used.
func TestLoadErrors(t *testing.T) {
	for _, c := range []struct {
		source experiment.Source
		field  string
		want   string
	}{
		{experiment.Source{Recipe: "tiny-wiki-squad", Data: []string{"text"}}, "data", "data text: want NAME=FILE"},
		{experiment.Source{Recipe: "tiny-wiki-squad", Data: []string{"texts=a"}}, "data", "did you mean text?"},
		{experiment.Source{Recipe: "tiny-wiki-squad", Data: []string{"vocab=a", "vocab=b"}}, "data", "data vocab=b: there is only one vocab"},
		{experiment.Source{Recipe: "tiny-wiki-squad", Data: []string{"squad.test=a"}}, "data", `"squad.test"`},
		{experiment.Source{Recipe: "quick", Data: []string{"text=a"}}, "data", "data: recipe quick generates its own data"},
		{experiment.Source{Recipe: "tiny-wiki-squad", Data: []string{"model=m"}, Set: []string{"start.recipe=tiny-wiki-squad"}},
			"data", "data model=m: recipe tiny-wiki-squad has a model of its own to start from"},
		{experiment.Source{Recipe: "tiny-wiki-squad", Data: []string{"model=m"}, Set: []string{"model.hidden_size=64"}},
			"set", "set model.hidden_size=64: the model folder m decides"},
	} {
		_, err := experiment.Load(c.source)
		var e *experiment.SourceError
		if !errors.As(err, &e) || e.Field != c.field || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want one of %s with %q in it", c.source, err, c.field, c.want)
		}
	}
}

// TestFineTuningErrors: a missing task, an unknown one and an empty model folder are errors that say so.
func TestFineTuningErrors(t *testing.T) {
	model := t.TempDir()
	if _, err := (experiment.FineTuning{Model: model}).LoadTrained(); !errors.Is(err, experiment.ErrNoTask) {
		t.Errorf("without a task: %v", err)
	}
	_, err := experiment.FineTuning{Model: model, Task: "squat"}.Load()
	var e *experiment.SourceError
	if !errors.As(err, &e) || e.Field != "task" || !strings.Contains(err.Error(), "did you mean squad?") {
		t.Errorf("with an unknown task: %v", err)
	}
	if _, err := (experiment.FineTuning{Model: model, Task: "mrpc"}).Load(); err == nil || !strings.Contains(err.Error(), model) {
		t.Errorf("with an empty model folder: %v", err)
	}
}
