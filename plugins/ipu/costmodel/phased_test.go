package costmodel

import (
	"math"
	"testing"

	"harness.invalid/core/backend"
)

// TestPhased: one IPU goes through a model whose weights alone are two thirds of its memory. Micro-batches that are
// as large as memory allows share the transfer of the weights; accumulated ones pay for it each.
func TestPhased(t *testing.T) {
	p := with(large(t), "pipeline", "all", "execution", "phased")
	p.MicroBatch, p.Accumulation, p.Replicas = 4, 1, 16
	of := func(p backend.Program) backend.Estimate {
		t.Helper()
		e := modelled(t, p, "bow-pod16")
		sums(t, &e)
		inCycles := 0.
		for _, st := range e.Pipeline.Stages {
			inCycles += seconds(st.Parts)
		}
		if math.Abs(inCycles/e.Pipeline.CycleSeconds-1) > 1e-12 {
			t.Errorf("the phases take %g s, a micro-batch %g s", inCycles, e.Pipeline.CycleSeconds)
		}
		return e
	}
	small := of(p)
	if err := small.Err(); err != nil || len(small.Memory) != 1 || len(small.Pipeline.Stages) != 2*14-1 {
		t.Errorf("%v, %d IPUs, %d visits, want 14 phases forward and back", err, len(small.Memory), len(small.Pipeline.Stages))
	}
	q := p
	q.MicroBatch = 16
	if large := of(q); large.SequencesPerSecond < 3*small.SequencesPerSecond || !large.Fits() {
		t.Errorf("micro-batches of 16: %g sequences/s, of 4: %g", large.SequencesPerSecond, small.SequencesPerSecond)
	}
	q = p
	q.Accumulation = 4
	if added := of(q); added.SequencesPerSecond > small.SequencesPerSecond {
		t.Errorf("4 micro-batches added up: %g sequences/s, one: %g", added.SequencesPerSecond, small.SequencesPerSecond)
	}
	if long := of(with(p, "layers_per_phase", "12")); long.Memory[0].Total() <= small.Memory[0].Total() || long.Fits() {
		t.Errorf("phases of 12 layers need %d bytes, of 2 %d", long.Memory[0].Total(), small.Memory[0].Total())
	}
	// Without shares every replica reads all weights and all of the state by itself.
	if whole := of(with(p, "replicated_tensor_sharding", "false")); whole.StepSeconds < 4*small.StepSeconds {
		t.Errorf("unsharded: %g s a step, sharded %g", whole.StepSeconds, small.StepSeconds)
	}
	if whole := of(with(p, "execution", "pipelined")); whole.Fits() {
		t.Error("BERT-Large fits on one IPU without phases")
	}
}
