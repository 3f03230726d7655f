package recipe_test

import (
	"strings"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/recipe"
)

const fineTunings = `
model: {size: tiny}
defaults: {length: 64, global_batch: 8, schedule: {learning_rate: 1e-4}, optimizer: {name: adamw}}
phases:
- {name: before, max_predictions: 8, steps: 2}
- name: squad
  task: question_answering
  epochs: 2
  question_answering: {doc_stride: 32, max_query_length: 16}
  target: {metric: f1, value: 80}
- {name: rte, dataset: RTE, epochs: 3, evaluation: {every: 5, patience: 2, keep_best: true}}
- {name: c3, dataset: c3, epochs: 3}
- {name: sts, dataset: stsb, epochs: 3}
`

func parse(t *testing.T, text string, sets ...string) (*recipe.Recipe, error) {
	t.Helper()
	return recipe.Parse("r.yaml", []byte(text), sets...)
}

// TestDataset: a data set settles task, labels, metrics and what evaluations are judged by.
func TestDataset(t *testing.T) {
	r, err := parse(t, fineTunings)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		task    bert.Task
		labels  int
		dataset string
		metrics string
		judge   string
	}{
		{bert.Pretraining, 0, "", "loss masked_lm_loss masked_lm_accuracy next_sentence_loss next_sentence_accuracy", "loss"},
		{bert.QuestionAnswering, 0, "", "exact_match f1 answer_nll", "f1"},
		{bert.Classification, 2, "rte", "loss accuracy", "accuracy"},
		{bert.MultipleChoice, 4, "c3", "loss accuracy", "accuracy"},
		{bert.Classification, 1, "sts-b", "loss pearson spearman", "pearson"},
	} {
		p := &r.Phases[i]
		var names []string
		for _, m := range p.Metrics() {
			names = append(names, m.Name)
		}
		if p.Task != want.task || p.NumLabels != want.labels || p.Dataset != want.dataset || strings.Join(names, " ") != want.metrics ||
			p.Judge().Name != want.judge {
			t.Errorf("phase %s: %s with %d labels of %q, measured by %v, judged by %s; want %+v", p.Name, p.Task, p.NumLabels, p.Dataset,
				names, p.Judge().Name, want)
		}
	}
	// Both ways of saying SQuAD have one fingerprint.
	other, err := parse(t, fineTunings, "phases.squad.dataset=squad")
	if err != nil || other.Fingerprint() != r.Fingerprint() {
		t.Errorf("dataset: squad changes the fingerprint (%v)", err)
	}
	for set, want := range map[string]string{
		"phases.rte.dataset=rtx":                         "no task is named \"rtx\"",
		"phases.squad.dataset=rte":                       "is question_answering, but the data set rte is for classification",
		"phases.rte.num_labels=3":                        "is 3, but the data set rte has 2",
		"phases.c3.micro_batch=2":                        "is 2, want a multiple of the 4 choices",
		"phases.rte.evaluation.metric=f1":                "want one of loss, accuracy (task rte)",
		"phases.rte.evaluation.every=0":                  "want evaluation.every",
		"phases.sts.target={metric: f1, value: 1}":       "want one of loss, pearson, spearman (task sts-b)",
		"data.files.tasks={nothing: {train: a.tsv}}":     "no task is named \"nothing\"",
		"phases.squad.target={metric: best_f1}":          "(task squad)",
		"phases.rte.evaluation={every: 1, patience: -1}": "want 0 to",
	} {
		if _, err := parse(t, fineTunings, set); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", set, err, want)
		}
	}
	named, err := parse(t, fineTunings, "data.files.tasks={STSB: {train: a.tsv, dev: [b.tsv, c.tsv]}}")
	if err != nil {
		t.Fatal(err)
	}
	if f := named.Data.Files.Of("sts-b"); len(f.Train) != 1 || len(f.Dev) != 2 {
		t.Errorf("files of sts-b are %+v", f)
	}
}

// TestLoadFineTuning: of a recipe those phases stay that are on the task, or one of its kind becomes one.
func TestLoadFineTuning(t *testing.T) {
	for _, c := range []struct {
		ref, task, phase string
		dataset, primary string
	}{
		{"finetune", "rte", "sentences", "rte", "accuracy"},
		{"finetune", "squad2", "passages", "squad2", "f1"},
		{"finetune", "chid", "choices", "chid", "accuracy"},
		{"scratch", "squad", "squad", "", "f1"},
		{"scratch", "cmrc2018", "squad", "cmrc2018", "f1"},
		{"glue-mrpc", "mrpc", "mrpc", "mrpc", "f1"},
		{"glue-mrpc", "sts-b", "mrpc", "sts-b", "pearson"},
	} {
		r, err := recipe.LoadFineTuning(c.ref, c.task)
		if err != nil {
			t.Errorf("%s for %s: %v", c.ref, c.task, err)
			continue
		}
		p := r.Phases[0]
		if len(r.Phases) != 1 || p.Name != c.phase || p.Dataset != c.dataset || r.Verdict.Primary != c.primary ||
			r.Data.Kind != recipe.FilesData || p.FineTuning().Name != c.task {
			t.Errorf("%s for %s: phases %+v, primary %s, data %s", c.ref, c.task, r.Phases, r.Verdict.Primary, r.Data.Kind)
		}
		// It is written down with each run, and read again.
		var text strings.Builder
		if err := r.Write(&text); err != nil {
			t.Fatal(err)
		}
		if again, err := parse(t, text.String()); err != nil || again.Fingerprint() != r.Fingerprint() {
			t.Errorf("%s for %s is not what was written: %v", c.ref, c.task, err)
		}
	}
	if _, err := recipe.LoadFineTuning("quick", "rte"); err == nil || !strings.Contains(err.Error(), "no phase that fine-tunes on rte") {
		t.Errorf("quick for rte gives %v", err)
	}
	if _, err := recipe.LoadFineTuning("finetune", "rtx"); err == nil {
		t.Error("a task that is none is no error")
	}
}
