package gpuref

import (
	"errors"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/emulator"
)

// TestEstimatePolicies: a policy that comes with the program is modelled, named or as its text, and no other.
func TestEstimatePolicies(t *testing.T) {
	config, err := bert.Defaults().Size("large")
	if err != nil {
		t.Fatal(err)
	}
	seconds := func(precision string, options map[string]string) (float64, error) {
		e, err := New().Estimate(t.Context(), backend.Program{
			Model: config, Head: bert.Head{Task: bert.Pretraining}, Precision: precision, Length: 128, MaxPredictions: 20,
			MicroBatch: 64, Accumulation: 8, Replicas: 1, Options: options,
		}, backend.Machine{System: "dgx-h100"})
		return e.StepSeconds, err
	}
	text, err := emulator.PolicyText("fp8")
	if err != nil {
		t.Fatal(err)
	}
	named, err := seconds("fp8", nil)
	if err != nil {
		t.Fatal(err)
	}
	given, err := seconds("fp8", map[string]string{backend.PolicyOption: string(text)})
	if err != nil || given != named {
		t.Errorf("fp8 with its text takes %g s (%v), by its name %g s", given, err, named)
	}
	if wide, err := seconds("bf16", nil); err != nil || wide <= named {
		t.Errorf("BF16 takes %g s (%v), FP8 %g s", wide, err, named)
	}
	for precision, policy := range map[string]string{"fp8": string(text) + "\n# changed\n", "mine.yaml": "inputs: bf16", "fp8-block": ""} {
		if _, err := seconds(precision, map[string]string{backend.PolicyOption: policy}); err == nil ||
			policy != "" && !errors.Is(err, backend.ErrUnsupported) {
			t.Errorf("%s: %v, want that the model does not know it", precision, err)
		}
	}
}
