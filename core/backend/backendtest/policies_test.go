package backendtest_test

import (
	"context"
	"maps"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/backend/backendtest"
	"harness.invalid/core/emulator"
	gpuref "harness.invalid/plugins/gpu-ref"
	"harness.invalid/plugins/ipu"
)

// narrowed is a backend with one precision, and options that are no defaults.
type narrowed struct {
	backend.Backend
	precision string
	options   map[string]string
}

func (b narrowed) Describe(ctx context.Context) (backend.Info, error) {
	info, err := b.Backend.Describe(ctx)
	// The first step of delayed scaling has scales of 1, whose error is of the size of small values: tolerances test
	// nothing here.
	info.Precisions = []backend.Precision{{Name: b.precision, OutputTolerance: 1, GradientTolerance: 1, Reason: "bits are tested"}}
	return info, err
}

func (b narrowed) Open(ctx context.Context, p backend.Program, m backend.Memory) (backend.Session, error) {
	if p.Precision == b.precision {
		options := maps.Clone(b.options)
		maps.Copy(options, p.Options)
		p.Options = options
	}
	return b.Backend.Open(ctx, p, m)
}

// TestNarrow: with delayed scaling, whose state goes on from step to step, and with stochastic gradients behind a
// Hadamard transform, a session keeps the contract. It goes on from a saved state bit for bit.
func TestNarrow(t *testing.T) {
	policy := func(name string) map[string]string {
		text, err := emulator.PolicyText(name)
		if err != nil {
			t.Fatal(err)
		}
		return map[string]string{backend.PolicyOption: string(text)}
	}
	for _, b := range []narrowed{
		{gpuref.New(), "delayed", policy("fp8")}, {gpuref.New(), "nvfp4", policy("nvfp4")},
		{ipu.New(), "fp8", map[string]string{"fp8_history": "3", "loss_scale": "auto", "initial_loss_scale": "4096"}},
	} {
		for _, r := range backendtest.Conformance(t.Context(), b) {
			if r.Err != nil {
				t.Errorf("%s: %v", r.Name, r.Err)
			}
		}
	}
}
