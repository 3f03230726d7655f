package ipu

import (
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/emulator"
)

// TestPlacement: the published placements of BERT-Large and Base.
func TestPlacement(t *testing.T) {
	large, err := bert.Defaults().Size("large")
	if err != nil {
		t.Fatal(err)
	}
	base := bert.Defaults()
	pretraining, answering := bert.Head{Task: bert.Pretraining}, bert.Head{Task: bert.QuestionAnswering}
	type stages = [][3]int // first unit, end, IPU
	for _, c := range []struct {
		pipeline string
		config   bert.Config
		head     bert.Head
		want     stages
	}{
		// Graphcore: embedding, 3 layers and all heads on IPU 0.
		{"3,7,7,7", large, pretraining, stages{{0, 7, 0}, {7, 21, 1}, {21, 35, 2}, {35, 49, 3}, {49, 50, 0}}},
		{"3,7,7,7", large, answering, stages{{0, 7, 0}, {7, 21, 1}, {21, 35, 2}, {35, 50, 3}}},
		{"0,4,4,4", base, pretraining, stages{{0, 1, 0}, {1, 9, 1}, {9, 17, 2}, {17, 25, 3}, {25, 26, 0}}},
		{"6, 6", base, answering, stages{{0, 13, 0}, {13, 26, 1}}},
		{"12", base, pretraining, stages{{0, 26, 0}}},
		// Attention and feed-forward of the layer between on two IPUs.
		{"5.5,6.5", base, answering, stages{{0, 12, 0}, {12, 26, 1}}},
		{"2,3,3,3,3,3,3,4", large, answering, stages{{0, 5, 0}, {5, 11, 1}, {11, 17, 2}, {17, 23, 3}, {23, 29, 4}, {29, 35, 5}, {35, 41, 6}, {41, 50, 7}}},
	} {
		got, err := placement(c.pipeline, &c.config, c.head)
		var units stages
		for _, s := range got {
			units = append(units, [3]int{s.First, s.End, s.Device})
		}
		if err != nil || !slices.Equal(units, c.want) {
			t.Errorf("%s for %s: %v, %v, want %v", c.pipeline, c.head.Task, units, err, c.want)
		}
	}
	fourteen, err := placement("1.5,1.5,2,2,2,2,2,2,2,2,2,2,1,0.0", &large, pretraining)
	if err == nil {
		t.Errorf("an IPU without layers was placed: %v", fourteen)
	}
	if fourteen, err = placement("0,2,2,2,2,2,2,2,2,2,2,1.5,1.5,1", &large, pretraining); err != nil || len(fourteen) != 15 {
		t.Errorf("14 IPUs: %d stages, %v, want 15", len(fourteen), err)
	}
	for pipeline, want := range map[string]string{
		"3,7,7": "that is 17 layers, the model has 24", "3,7,7,8": "that is 25 layers", "3,,7,14": `IPU 1 has ""`, "12,0,12": `IPU 1 has "0"`, "2.25,21.75": "whole or half layers",
		"x": `IPU 0 has "x"`, "-1,25": `IPU 0 has "-1"`, "": `IPU 0 has ""`, "1e9": `IPU 0 has "1e9"`, "NaN": `IPU 0 has "NaN"`,
	} {
		if _, err := placement(pipeline, &large, pretraining); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", pipeline, err, want)
		}
	}
	if got := phases(&large, 7); len(got) != 6 || got[1] != (emulator.Stage{First: 1, End: 15}) || got[4] != (emulator.Stage{First: 43, End: 49}) || got[5].End != 50 {
		t.Errorf("phases of 7 layers are %v", got)
	}
}

// TestExecution: whatever places and schedules the model, and whatever is recomputed, leaves the bits alone, and the schedule tells of it.
func TestExecution(t *testing.T) {
	want, r := gradients(t, program("fp16.16", 4, 1, nil), 1)
	if r.Schedule != nil {
		t.Errorf("one IPU tells a schedule: %+v", r.Schedule)
	}
	for _, options := range []map[string]string{
		{"pipeline": "0.5,0.5"}, {"pipeline": "0.5,0.5", "schedule": "interleaved", "recomputation": "stage"}, {"pipeline": "0,1", "schedule": "sequential"},
		{"execution": "phased", "layers_per_phase": "1", "recomputation": "stage"}, {"recomputation": "layer"},
		{"replicated_tensor_sharding": "true", "optimizer_state": "offchip", "available_memory_proportion": "0.15,0.25"},
	} {
		got, r := gradients(t, program("fp16.16", 4, 1, options), 1)
		if !slices.Equal(got, want) {
			t.Errorf("%v changes the gradient", options)
		}
		if _, pipelined := options["pipeline"]; pipelined && r.Schedule == nil {
			t.Errorf("%v: no schedule", options)
		}
	}
	if _, _, err := start(t, program("fp16.16", 2, 2, map[string]string{"pipeline": "0.5,0.5"})); err == nil || !strings.Contains(err.Error(), "the smallest accumulation is 3") {
		t.Errorf("accumulation 2 in a pipeline of 2 IPUs: %v, want an error that says 3", err)
	}
}

// TestSerialization: a decoder in slices of the vocabulary has another gradient in FP16, and near enough the same in FP32.
func TestSerialization(t *testing.T) {
	pretraining := func(precision, slices string) []float32 {
		p := program(precision, 1, 1, map[string]string{"embedding_serialization": slices, "stochastic_rounding": "false"})
		p.Head = bert.Head{Task: bert.Pretraining}
		p.MaxPredictions = 2
		return pretrainingGradients(t, p)
	}
	if e := distance(pretraining("fp32", "5"), pretraining("fp32", "1")); e > 1e-6 {
		t.Errorf("in FP32 five slices change the gradient by %.2g", e)
	}
	whole, cut := pretraining("fp16.16", "1"), pretraining("fp16.16", "5")
	if e := distance(cut, whole); e == 0 || e > 0.02 {
		t.Errorf("in FP16 five slices change the gradient by %.2g, want more than 0 and at most 0.02", e)
	}
}
