package host_test

import (
	"context"
	"errors"
	"testing"

	"harness.invalid/core/arena"
	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
)

// TestForeignMemory: memory outside of the arena that the host named is an error, not a silent copy.
func TestForeignMemory(t *testing.T) {
	shared, err := arena.New()
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	s := spec(t, plugin.Optimizer, "sgd", host.Memory)
	s.Arena = shared
	p := start(t, s)
	if p.Transport() != host.Memory {
		t.Skip("memory is not shared on this system")
	}
	layout, err := bert.Parameters(program().Model, program().Head)
	if err != nil {
		t.Fatal(err)
	}
	r, err := arena.NewRegion(layout, 2)
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Optimizer().Open(t.Context(), nil, optimizer.Memory{Layout: layout, Params: r.Params(), Grads: r.Grads()})
	wants(t, err, "optimizer sgd: open", "does not lie in the arena")
}

// TestLargeMessages sends a batch and outputs that are too large for a single message.
func TestLargeMessages(t *testing.T) {
	p := program()
	p.Precision, p.Length, p.Model.NumHiddenLayers, p.Model.IntermediateSize = "fp32", 32, 1, 16
	layout, err := bert.Parameters(p.Model, p.Head)
	if err != nil {
		t.Fatal(err)
	}
	const size = 4200 // sequences of 32 tokens: two messages out, and 17 MB of hidden states back
	evaluate := func(b backend.Backend) (losses bert.Losses, pooled []float32) {
		r, err := arena.NewRegion(layout, 2)
		if err != nil {
			t.Fatal(err)
		}
		bert.Initialize(p.Model, layout, r.Params(), p.Seed)
		s, err := b.Open(t.Context(), p, backend.Memory{Layout: layout, Params: r.Params(), Grads: r.Grads()})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.Commit(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		few := func(yield func(*bert.Batch, error) bool) {
			b := batch(p, 1, 0, size)
			b.Predictions, b.MaskedLMPositions = 1, b.MaskedLMPositions[:size]
			b.MaskedLMIDs, b.MaskedLMWeights = b.MaskedLMIDs[:size], b.MaskedLMWeights[:size]
			yield(b, nil)
		}
		ask := backend.Evaluation{Outputs: []string{"sequence_output"}, Labels: true}
		losses, err = s.Evaluate(t.Context(), ask, few, func(o backend.Outputs) error {
			pooled = o["sequence_output"].Values
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return losses, pooled
	}
	if testing.Short() {
		t.Skip("computes 4200 sequences twice")
	}
	process := start(t, spec(t, plugin.Backend, "gpu-ref", host.Memory))
	losses, outputs := evaluate(process.Backend())
	wantLosses, wantOutputs := evaluate(builtin.backends["gpu-ref"])
	sameBits(t, "17 MB of sequence_output", outputs, wantOutputs)
	if losses != wantLosses {
		t.Errorf("losses %+v, want %+v", losses, wantLosses)
	}
}

// TestErrorsOfTheHost: errors of the host's own iterators and callbacks come back, and the session remains usable.
func TestErrorsOfTheHost(t *testing.T) {
	p := program()
	layout, err := bert.Parameters(p.Model, p.Head)
	if err != nil {
		t.Fatal(err)
	}
	process := start(t, spec(t, plugin.Backend, "gpu-ref", host.Stream))
	r, err := arena.NewRegion(layout, 2)
	if err != nil {
		t.Fatal(err)
	}
	bert.Initialize(p.Model, layout, r.Params(), p.Seed)
	s, err := process.Backend().Open(t.Context(), p, backend.Memory{Layout: layout, Params: r.Params(), Grads: r.Grads()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Commit(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the corpus is gone")
	half := func(yield func(*bert.Batch, error) bool) {
		if yield(batch(p, 1, 0, p.MicroBatch), nil) {
			yield(nil, broken)
		}
	}
	ask := backend.Evaluation{Outputs: []string{"pooler_output"}}
	ignore := func(backend.Outputs) error { return nil }
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		call func() error
		want error
	}{
		"step":     {func() error { _, err := s.Step(t.Context(), stepOf(p, 1), half); return err }, broken},
		"evaluate": {func() error { _, err := s.Evaluate(t.Context(), ask, half, ignore); return err }, broken},
		"yield": {func() error {
			_, err := s.Evaluate(t.Context(), ask, batches(p, 1), func(backend.Outputs) error { return broken })
			return err
		}, broken},
		"trace": {func() error {
			_, err := s.(backend.Tracer).Trace(t.Context(), stepOf(p, 1), half, func(backend.Traced) error { return nil })
			return err
		}, broken},
		"yield of a trace": {func() error {
			_, err := s.(backend.Tracer).Trace(t.Context(), stepOf(p, 1), batches(p, 1), func(backend.Traced) error { return broken })
			return err
		}, broken},
		"cancelled step":       {func() error { _, err := s.Step(cancelled, stepOf(p, 1), batches(p, 1)); return err }, context.Canceled},
		"cancelled evaluation": {func() error { _, err := s.Evaluate(cancelled, ask, batches(p, 1), ignore); return err }, context.Canceled},
		"cancelled commit":     {func() error { return s.Commit(cancelled, 1) }, context.Canceled},
	} {
		if err := test.call(); !errors.Is(err, test.want) {
			t.Errorf("%s: error %v, want %v", name, err, test.want)
		}
		if _, err := s.Step(t.Context(), stepOf(p, 1), batches(p, 1)); err != nil {
			t.Fatalf("after %s a sound step fails: %v", name, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = s.Step(t.Context(), stepOf(p, 1), batches(p, 1))
	wants(t, err, "backend gpu-ref: step 1", "closed")
}
