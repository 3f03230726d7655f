package host_test

import (
	"testing"

	"harness.invalid/core/agreement"
	"harness.invalid/core/backend"
	"harness.invalid/core/backend/backendtest"
	"harness.invalid/core/bert"
	"harness.invalid/core/internal/reference"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/optimizer/optimizertest"
	"harness.invalid/core/plugin"
)

// TestOptimizers runs the conformance suite and the golden vectors through processes, over both transports.
func TestOptimizers(t *testing.T) {
	for name, direct := range builtin.optimizers {
		for _, transport := range transports {
			t.Run(name+"/"+string(transport), func(t *testing.T) {
				p := start(t, spec(t, plugin.Optimizer, name, transport))
				for _, r := range optimizertest.Conformance(t.Context(), p.Optimizer()) {
					if r.Err != nil {
						t.Errorf("%s: %v", r.Name, r.Err)
					}
				}
				file := reference.PathOrExcerpt(t, "golden", "optimizers.safetensors")
				rows, err := optimizertest.Oracle(t.Context(), p.Optimizer(), name, file)
				if err != nil || !agreement.Passed(rows) {
					t.Errorf("oracle: passed %v, error %v", agreement.Passed(rows), err)
				}
				// The numbers are exactly those without a process.
				want, err := optimizertest.Oracle(t.Context(), direct, name, file)
				if err != nil {
					t.Fatal(err)
				}
				for i := range want {
					if i >= len(rows) || rows[i] != want[i] {
						t.Fatalf("row %d differs from that without a process: want %+v", i, want[i])
					}
				}
			})
		}
	}
}

// TestBackends runs the conformance suite through processes, over each transport once. core/backend/backendtest
// runs it without processes on both backends, and TestEqualBits shows that processes change no bit.
func TestBackends(t *testing.T) {
	for _, transport := range transports {
		t.Run(string(transport), func(t *testing.T) {
			p := start(t, spec(t, plugin.Backend, "ipu", transport)) // which has fewer precisions than gpu-ref
			for _, r := range backendtest.Conformance(t.Context(), p.Backend()) {
				if r.Err != nil {
					t.Errorf("%s: %v", r.Name, r.Err)
				}
			}
		})
	}
}

// TestGradientNorm: the host computes the norm of the gradients that a backend's plugin left, and an optimizer's
// plugin uses the one that it is given.
func TestGradientNorm(t *testing.T) {
	p := program()
	l, err := bert.Parameters(p.Model, p.Head)
	if err != nil {
		t.Fatal(err)
	}
	m := backend.Memory{Layout: l, Params: make([]float32, l.Len()), Grads: make([]float32, l.Len())}
	bert.Initialize(p.Model, l, m.Params, 1)
	for _, transport := range transports {
		s, err := start(t, spec(t, plugin.Backend, "gpu-ref", transport)).Backend().Open(t.Context(), p, m)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.Commit(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		r, err := s.Step(t.Context(), stepOf(p, 1), batches(p, 1))
		if want := optimizer.Norm(optimizer.Blocks(l), m.Grads); err != nil || r.GradientNorm != want || want == 0 {
			t.Errorf("%s: norm %g of gradients with norm %g (error %v)", transport, r.GradientNorm, want, err)
		}
		u, err := start(t, spec(t, plugin.Optimizer, "sgd", transport)).Optimizer().Open(t.Context(), map[string]string{"momentum": "0"},
			optimizer.Memory{Layout: l, Params: m.Params, Grads: m.Grads})
		if err != nil {
			t.Fatal(err)
		}
		defer u.Close()
		if r, err := u.Step(t.Context(), optimizer.Step{Step: 1, LR: 0, GradientNorm: 7}); err != nil || r.GradientNorm != 7 {
			t.Errorf("%s: told a norm of 7, the optimizer reports %g (error %v)", transport, r.GradientNorm, err)
		}
	}
}
