package emulator_test

import (
	"runtime"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/emulator"
)

// TestSteadyAllocation: once its buffers are there, a step allocates no more later than earlier, and no more for a
// larger model: no tensors.
func TestSteadyAllocation(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector allocates, too")
	}
	// Each further worker allocates its scratch memory when it is first needed.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	wide := small
	wide.HiddenSize = 192
	perStep := func(c bert.Config, policy emulator.Policy) (early, late uint64) {
		b := newBench(t, c, bert.Pretraining, 4)
		p := backend.Program{
			Model: c, Head: b.model.Head, Seed: 3, Length: b.limit.Length, MaxPredictions: b.limit.Predictions,
			MicroBatch: 2, Accumulation: 2, Replicas: 1,
		}
		m := backend.Memory{Layout: b.model.Layout, Params: b.params, Grads: b.grads}
		s, err := emulator.NewTrainer(p, m, policy, emulator.Plan{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		batches := func(yield func(*bert.Batch, error) bool) {
			_ = yield(b.batch.Slice(0, 2), nil) && yield(b.batch.Slice(2, 4), nil)
		}
		done := 0
		steps := func(n int) uint64 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range n {
				done++
				step := backend.Step{Step: done, Sequences: 4, MaskedWeight: b.batch.MaskedWeight()}
				if _, err := s.Step(t.Context(), step, batches, 64); err != nil {
					t.Fatal(err)
				}
			}
			runtime.ReadMemStats(&after)
			return (after.TotalAlloc - before.TotalAlloc) / uint64(n)
		}
		steps(2)
		return steps(3), steps(3)
	}
	for name, policy := range map[string]emulator.Policy{"fp32": {}, "fp16": half(true)} {
		early, late := perStep(small, policy)
		large, _ := perStep(wide, policy)
		// Of the runtime. The smallest tensor of the larger model, the hidden states of the read tokens, has 6 KB.
		const slack = 2 << 10
		if late > early+slack || large > early+slack {
			t.Errorf("%s: a step allocates %d bytes, later %d, in a large model %d", name, early, late, large)
		}
	}
}
