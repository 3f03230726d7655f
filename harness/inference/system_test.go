package inference_test

import (
	"math"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/harness/bench"
	"harness.invalid/harness/inference"
	gpuref "harness.invalid/plugins/gpu-ref"
	"harness.invalid/plugins/ipu"
)

// TestForwardOnly: answering touches no gradient and no parameter, whatever the batch, and an answer does not depend
// on the batch.
func TestForwardOnly(t *testing.T) {
	for _, b := range []struct {
		name    string
		backend backend.Backend
	}{{"gpu-ref", gpuref.New()}, {"ipu", ipu.New()}} {
		o := bench.StepOptions{Size: "tiny", Task: bert.QuestionAnswering, Length: 16, Fill: 0.5}
		config, err := o.Config()
		if err != nil {
			t.Fatal(err)
		}
		config.VocabSize, config.NumHiddenLayers = 50, 1
		p := backend.Program{Model: config, Head: bert.Head{Task: o.Task}, Seed: 1, Length: 16, MicroBatch: 4, Accumulation: 1, Replicas: 1}
		l, err := bert.Parameters(p.Model, p.Head)
		if err != nil {
			t.Fatal(err)
		}
		params, grads := make([]float32, l.Len()), make([]float32, l.Len())
		bert.Initialize(p.Model, l, params, 1)
		s, err := b.backend.Open(t.Context(), p, backend.Memory{Layout: l, Params: params, Grads: grads})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		for i := range grads {
			grads[i] = float32(math.Inf(1)) // which no gradient is
		}
		kept := append([]float32(nil), params...)
		m := &inference.Model{Session: s, Inputs: o.Inputs(&p, 9), Outputs: inference.OutputsOf(o.Task)}
		for _, samples := range [][]int{{3}, {0, 8, 3, 3}, {1, 2}} {
			if err := m.Answer(t.Context(), samples); err != nil {
				t.Fatal(err)
			}
		}
		for i := range grads {
			if !math.IsInf(float64(grads[i]), 1) || params[i] != kept[i] {
				t.Fatalf("%s: gradient %d is %g, parameter %g, was %g: answers changed them", b.name, i, grads[i], params[i], kept[i])
			}
		}
		if err := m.Answer(t.Context(), nil); err == nil {
			t.Errorf("%s: an empty batch gives no error", b.name)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
