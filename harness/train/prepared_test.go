package train_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"harness.invalid/core/dataset/pretraining"
	"harness.invalid/core/dataset/synthetic"
	"harness.invalid/core/recipe"
	"harness.invalid/core/wordpiece"
	"harness.invalid/harness/train"
)

// TestPrepared trains on prepared data, one folder for each length, and stops and resumes the run.
func TestPrepared(t *testing.T) {
	dir := t.TempDir()
	files, err := synthetic.Write(dir, synthetic.Settings{Seed: 1, People: 50, Questions: 80, DevQuestions: 20})
	if err != nil {
		t.Fatal(err)
	}
	vocab := filepath.Join(dir, "vocab.txt")
	if _, _, err := train.LearnVocab(vocab, []string{files.Text}, 300, 0, true); err != nil {
		t.Fatal(err)
	}
	v, err := wordpiece.Load(vocab)
	if err != nil {
		t.Fatal(err)
	}
	tokenizer, err := wordpiece.New(v, wordpiece.Google(true))
	if err != nil {
		t.Fatal(err)
	}
	corpus, err := pretraining.Open([]string{files.Text}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer corpus.Close()
	folder := map[int]string{24: filepath.Join(dir, "data-24"), 48: filepath.Join(dir, "data-48")}
	for length, to := range folder {
		if _, err := pretraining.Prepare(t.Context(), to, corpus, tokenizer, pretraining.Preparation{
			PrepareSettings: pretraining.PrepareSettings{Length: length, ShortProb: 0.1, DupeFactor: 2, HeldOut: 0.2, Lowercase: true}, Shards: 2,
		}); err != nil {
			t.Fatal(err)
		}
	}
	sets := []string{
		fmt.Sprintf("data={kind: prepared, files: {prepared: [%s, %s], squad: {train: %s, dev: %s}}}",
			folder[24], folder[48], files.Train, files.Dev),
		"phases.phase1={steps: , epochs: 0.05}", "phases.phase2.steps=2",
		"phases.squad.steps=2", "phases.squad.target=", "phases.squad.evaluation.every=0",
	}
	e := load(t, sets...)
	whole := e.run(e.job("gpu-ref", t.TempDir()))
	p, err := pretraining.OpenPrepared(folder[24])
	if err != nil {
		t.Fatal(err)
	}
	if want := int(float64(p.Sequences()) / 8 * 0.05); whole.result.Phases[0].Steps != want || want < 3 {
		t.Errorf("phase1 has %d steps, want %d: a twentieth of an epoch of %d sequences", whole.result.Phases[0].Steps, want, p.Sequences())
	}
	for _, metric := range []string{"phase1.masked_lm_loss", "phase2.next_sentence_accuracy", "squad.f1"} {
		if _, ok := whole.result.Metrics[metric]; !ok {
			t.Errorf("metric %s was not measured", metric)
		}
	}
	resumed(t, e, "gpu-ref", 2, whole)

	r, err := recipe.Load("../testdata/mini.yaml", append(sets, "phases.phase2.length=40", "phases.phase2.max_predictions=4")...)
	if err != nil {
		t.Fatal(err)
	}
	d, err := train.OpenData(r, t.TempDir(), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	j := e.job("gpu-ref", t.TempDir())
	j.Recipe, j.Data = r, d
	const lengths = "has sequences of 24, 48 tokens, want 40: harness data prepare --length 40"
	if _, err := train.Run(t.Context(), j); err == nil || !strings.Contains(err.Error(), lengths) {
		t.Errorf("error is %v, want the lengths that there are", err)
	}
	if r, err = recipe.Load("../testdata/mini.yaml", append(sets, "vocab.lowercase=false")...); err != nil {
		t.Fatal(err)
	}
	if _, err := train.OpenData(r, t.TempDir(), func(string) {}); err == nil || !strings.Contains(err.Error(), "lowercase") {
		t.Errorf("error is %v, want that the case differs", err)
	}
}
