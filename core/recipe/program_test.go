package recipe

import (
	"strings"
	"testing"

	"harness.invalid/core/bert"
)

// TestProgram holds every field of a program against the part of the recipe that it comes from.
func TestProgram(t *testing.T) {
	r := mustLoad(t, "graphcore/popart/packed-large-phase1", "model.vocab_size=0", "vocab.pad_to_multiple_of=8",
		"phases.0.hidden_dropout_prob=0.25",
		"backends.ipu={micro_batch: 4, replicas: 1, options: {loss_scale: 7}}")
	p := &r.Phases[0]
	got, err := r.Program(p, "ipu", "fp16.32", 1001, 5)
	if err != nil {
		t.Fatal(err)
	}
	if got.Model.VocabSize != 1008 || got.Model.HiddenDropoutProb != 0.25 || got.Model.NumHiddenLayers != 24 {
		t.Errorf("the model is %+v", got.Model)
	}
	if got.Head != (bert.Head{Task: bert.Pretraining}) || got.Precision != "fp16.32" || got.Seed != 5 || got.Length != 128 {
		t.Errorf("head %+v, precision %s, seed %d, length %d", got.Head, got.Precision, got.Seed, got.Length)
	}
	if got.SequencesPerPack != 3 || got.MaxPredictions != p.MaxPredictions+2 {
		t.Errorf("%d sequences a row with %d predictions, want 3 with %d", got.SequencesPerPack, got.MaxPredictions, p.MaxPredictions+2)
	}
	if got.MicroBatch != 4 || got.Replicas != 1 || got.GlobalBatch() != p.GlobalBatch {
		t.Errorf("micro_batch %d x accumulation %d x replicas %d, want 4 x %d x 1", got.MicroBatch, got.Accumulation, got.Replicas,
			p.GlobalBatch/4)
	}
	if got.Options["loss_scale"] != "7" || got.Options["pipeline"] != r.Backends["ipu"].Options["pipeline"] {
		t.Errorf("options are %v", got.Options)
	}
}

// TestProgramErrors: an error names the phase once.
func TestProgramErrors(t *testing.T) {
	for want, r := range map[string]*Recipe{
		"the vocabulary has 100000 entries":    parsed(t, small, "model.vocab_size=1000"),
		"phase one: the backend's cut: global": parsed(t, small, "backends.x={micro_batch: 1, accumulation: 1, replicas: 32}"),
	} {
		if strings.HasPrefix(want, "phase") {
			r.Phases[0].GlobalBatch++
		}
		_, err := r.Program(&r.Phases[0], "x", "", 100000, 1)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "phase one") > 1 {
			t.Errorf("error is %v, want in it %s", err, want)
		}
	}
}
