package host_test

import (
	"errors"
	"testing"
	"time"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
)

// TestHangEvaluating: the same within an evaluation, by the batches that it has answered.
func TestHangEvaluating(t *testing.T) {
	p := program()
	l, err := bert.Parameters(p.Model, p.Head)
	if err != nil {
		t.Fatal(err)
	}
	for _, transport := range transports {
		s := spec(t, plugin.Backend, "hang-evaluating", transport)
		s.Timeouts.Step, s.Timeouts.Floor = time.Hour, 400*time.Millisecond
		m := backend.Memory{Layout: l, Params: make([]float32, l.Len()), Grads: make([]float32, l.Len())}
		bert.Initialize(p.Model, l, m.Params, 1)
		session, err := start(t, s).Backend().Open(t.Context(), p, m)
		if err != nil {
			t.Fatal(err)
		}
		if err := session.Commit(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		six := func(yield func(*bert.Batch, error) bool) {
			for i := range 6 {
				if !yield(batch(p, 1, i*p.MicroBatch, p.MicroBatch), nil) {
					return
				}
			}
		}
		answered := 0
		ask := backend.Evaluation{Outputs: []string{"pooler_output"}}
		_, err = session.Evaluate(t.Context(), ask, six, func(backend.Outputs) error { answered++; return nil })
		if !errors.Is(err, host.ErrDied) || answered != 4 {
			t.Errorf("%s: error is %v after %d batches, want %v after 4", transport, err, answered, host.ErrDied)
		}
		wants(t, err, "backend hang-evaluating: evaluate: no answer within ", "was killed")
	}
}

// TestHangLater: a call that takes far longer than those before it counts as hung, however long a first call may take.
func TestHangLater(t *testing.T) {
	for _, transport := range transports {
		s := spec(t, plugin.Optimizer, "hang-later", transport)
		s.Timeouts.Step, s.Timeouts.Floor = time.Hour, 400*time.Millisecond
		p := start(t, s)
		u, _ := updates(t, p)
		for n := 1; n < 5; n++ {
			if _, err := u.Step(t.Context(), optimizer.Step{Step: n, LR: 0.1}); err != nil {
				t.Fatal(err)
			}
		}
		_, err := u.Step(t.Context(), optimizer.Step{Step: 5, LR: 0.1})
		if !errors.Is(err, host.ErrDied) {
			t.Errorf("%s: error is %v, want %v", transport, err, host.ErrDied)
		}
		wants(t, err, "optimizer hang-later: step 5: no answer within ", "was killed")
	}
}
