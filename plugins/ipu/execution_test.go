package ipu

import (
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/bert"
)

// TestExecution: whatever places and schedules the model, and whatever is recomputed, leaves the bits alone, and the
// schedule tells of it.
func TestExecution(t *testing.T) {
	want, r := gradients(t, program("fp16.16", 4, 1, nil), 1)
	if r.Schedule != nil {
		t.Errorf("one IPU tells a schedule: %+v", r.Schedule)
	}
	for _, options := range []map[string]string{
		{"pipeline": "0.5,0.5"}, {"pipeline": "0.5,0.5", "schedule": "interleaved", "recomputation": "stage"},
		{"pipeline": "0,1", "schedule": "sequential"}, {"pipeline": "published", "recomputation": "auto"},
		{"execution": "phased", "layers_per_phase": "1", "recomputation": "stage"}, {"recomputation": "layer"},
		{"replicated_tensor_sharding": "true", "optimizer_state": "offchip", "available_memory_proportion": "0.15"},
	} {
		got, r := gradients(t, program("fp16.16", 4, 1, options), 1)
		if !slices.Equal(got, want) {
			t.Errorf("%v changes the gradient", options)
		}
		if pipeline := options["pipeline"]; strings.Contains(pipeline, ",") && r.Schedule == nil {
			t.Errorf("%v: no schedule", options)
		}
	}
	_, _, err := start(t, program("fp16.16", 2, 2, map[string]string{"pipeline": "0.5,0.5"}))
	if err == nil || !strings.Contains(err.Error(), "the smallest accumulation is 3") {
		t.Errorf("accumulation 2 in a pipeline of 2 IPUs: %v, want an error that says 3", err)
	}
}

// TestSerialization: a decoder in slices of the vocabulary has another gradient in FP16, and near enough the same in
// FP32.
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
