package tasks_test

import (
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/dataset/tasks"
	"harness.invalid/core/internal/reference"
)

// TestTrainingSequences: every task has a size, which is that of its published files where these are at hand.
func TestTrainingSequences(t *testing.T) {
	for _, task := range tasks.All() {
		if n := task.TrainingSequences(); n < 500 || task.Kind == bert.MultipleChoice && n%task.Choices != 0 {
			t.Errorf("%s: %d sequences", task.Name, n)
		}
	}
	for name, files := range map[string][]string{
		"cola": {"glue/CoLA/in_domain_train.tsv"}, "sst-2": {"glue/SST-2/train.tsv"}, "sts-b": {"glue/STS-B/sts-train.csv"},
		"tnews": {"clue/tnews/train.json"}, "c3": {"clue/c3/c3-d-train.json", "clue/c3/c3-m-train.json"},
	} {
		t.Run(name, func(t *testing.T) {
			task, err := tasks.Named(name)
			if err != nil {
				t.Fatal(err)
			}
			var paths []string
			for _, f := range files {
				paths = append(paths, reference.Path(t, "data", f))
			}
			d, err := tasks.Read(task, paths...)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := len(d.Examples)*max(1, task.Choices), task.TrainingSequences(); got != want {
				t.Errorf("%d sequences in the files, want %d", got, want)
			}
		})
	}
}
