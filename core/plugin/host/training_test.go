package host_test

import (
	"errors"
	"testing"

	"harness.invalid/core/arena"
	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
)

// trained is what a run leaves behind.
type trained struct {
	params, m, v, logits []float32
	losses               []float64
	state                []byte
}

// train runs a few steps of a backend and an optimizer on the same memory.
func train(t *testing.T, b backend.Backend, o optimizer.Optimizer, p backend.Program, r *arena.Region) (out trained) {
	t.Helper()
	ctx := t.Context()
	bert.Initialize(p.Model, r.Layout(), r.Params(), p.Seed)
	session, err := b.Open(ctx, p, backend.Memory{Layout: r.Layout(), Params: r.Params(), Grads: r.Grads()})
	if err != nil {
		t.Fatal(err)
	}
	state := optimizer.Memory{Layout: r.Layout(), Params: r.Params(), Grads: r.Grads(), Slots: r.Slots()}
	updates, err := o.Open(ctx, map[string]string{"max_grad_norm": "1"}, state)
	if err != nil {
		t.Fatal(err)
	}
	if err := session.Commit(ctx, 0); err != nil {
		t.Fatal(err)
	}
	for step := 1; step <= 4; step++ {
		result, err := session.Step(ctx, stepOf(p, step), batches(p, step))
		if err != nil {
			t.Fatal(err)
		}
		out.losses = append(out.losses, result.Losses.Total())
		if !result.Finite {
			continue
		}
		if _, err := updates.Step(ctx, optimizer.Step{Step: step, LR: 1e-3, GradientNorm: result.GradientNorm}); err != nil {
			t.Fatal(err)
		}
		if err := session.Commit(ctx, step); err != nil {
			t.Fatal(err)
		}
	}
	ask := backend.Evaluation{Outputs: []string{"mlm_logits"}, Labels: true}
	_, err = session.Evaluate(ctx, ask, batches(p, 5), func(o backend.Outputs) error {
		out.logits = append(out.logits, o["mlm_logits"].Values...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if out.state, err = session.Save(ctx); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(session.Close(), updates.Close()); err != nil {
		t.Fatal(err)
	}
	out.params = append(out.params, r.Params()...)
	out.m, out.v = append(out.m, r.Slots()[0]...), append(out.v, r.Slots()[1]...)
	return out
}

func (got trained) compare(t *testing.T, what string, want trained) {
	t.Helper()
	sameBits(t, what+": params", got.params, want.params)
	sameBits(t, what+": m", got.m, want.m)
	sameBits(t, what+": v", got.v, want.v)
	sameBits(t, what+": logits", got.logits, want.logits)
	if string(got.state) != string(want.state) {
		t.Errorf("%s: state %q, want %q", what, got.state, want.state)
	}
	for i := range want.losses {
		if got.losses[i] != want.losses[i] {
			t.Errorf("%s: loss %d is %v, want %v", what, i+1, got.losses[i], want.losses[i])
		}
	}
}

// TestEqualBits trains without processes, with both plugins on one arena, on arenas of their own, and over streams:
// all must end with the same bits.
func TestEqualBits(t *testing.T) {
	p := program()
	layout, err := bert.Parameters(p.Model, p.Head)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := arena.NewRegion(layout, 4)
	if err != nil {
		t.Fatal(err)
	}
	want := train(t, builtin.backends["gpu-ref"], builtin.optimizers["adamw"], p, plain)
	if want.losses[3] >= want.losses[0]+1 || len(want.logits) == 0 {
		t.Fatalf("losses %v, %d logits: the run to compare with did not train", want.losses, len(want.logits))
	}

	shared, err := arena.New()
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	b, o := spec(t, plugin.Backend, "gpu-ref", host.Memory), spec(t, plugin.Optimizer, "adamw", host.Memory)
	b.Arena, o.Arena = shared, shared
	pb, po := start(t, b), start(t, o)
	// The phases of a recipe are opened in the same processes, one after the other, with memory of another size in
	// between.
	for phase := range 3 {
		q := p
		if phase == 1 {
			q.Model.VocabSize, q.Model.HiddenSize = 200, 64
		}
		l, err := bert.Parameters(q.Model, q.Head)
		if err != nil {
			t.Fatal(err)
		}
		r, err := shared.Allocate(l, 4)
		if err != nil {
			t.Fatal(err)
		}
		got := train(t, pb.Backend(), po.Optimizer(), q, r)
		if phase != 1 {
			got.compare(t, "shared arena", want)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, transport := range transports {
		pb, po := start(t, spec(t, plugin.Backend, "gpu-ref", transport)), start(t, spec(t, plugin.Optimizer, "adamw", transport))
		r, err := arena.NewRegion(layout, 4)
		if err != nil {
			t.Fatal(err)
		}
		train(t, pb.Backend(), po.Optimizer(), p, r).compare(t, "own memory over "+string(transport), want)
	}
}

// TestRestart kills both plugins in the middle of a run and continues with others on the same arena: the host holds
// all state.
func TestRestart(t *testing.T) {
	p := program()
	layout, err := bert.Parameters(p.Model, p.Head)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := arena.NewRegion(layout, 4)
	if err != nil {
		t.Fatal(err)
	}
	want := train(t, builtin.backends["gpu-ref"], builtin.optimizers["adamw"], p, plain)
	shared, err := arena.New()
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	r, err := shared.Allocate(layout, 4)
	if err != nil {
		t.Fatal(err)
	}
	bert.Initialize(p.Model, layout, r.Params(), p.Seed)
	var state []byte
	for first := 1; first <= 3; first += 2 {
		b, o := spec(t, plugin.Backend, "gpu-ref", host.Memory), spec(t, plugin.Optimizer, "adamw", host.Memory)
		b.Arena, o.Arena = shared, shared
		pb, po := start(t, b), start(t, o)
		session, err := pb.Backend().Open(t.Context(), p, backend.Memory{Layout: layout, Params: r.Params(), Grads: r.Grads()})
		if err != nil {
			t.Fatal(err)
		}
		memory := optimizer.Memory{Layout: layout, Params: r.Params(), Grads: r.Grads(), Slots: r.Slots()}
		updates, err := po.Optimizer().Open(t.Context(), map[string]string{"max_grad_norm": "1"}, memory)
		if err != nil {
			t.Fatal(err)
		}
		if state != nil {
			if err := session.Load(t.Context(), state); err != nil {
				t.Fatal(err)
			}
		}
		if err := session.Commit(t.Context(), first-1); err != nil {
			t.Fatal(err)
		}
		for step := first; step < first+2; step++ {
			result, err := session.Step(t.Context(), stepOf(p, step), batches(p, step))
			if err != nil {
				t.Fatal(err)
			}
			if result.Finite {
				if _, err := updates.Step(t.Context(), optimizer.Step{Step: step, LR: 1e-3}); err != nil {
					t.Fatal(err)
				}
				if err := session.Commit(t.Context(), step); err != nil {
					t.Fatal(err)
				}
			}
		}
		if state, err = session.Save(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, process := range []*host.Process{pb, po} {
			process.Kill()
			if got := process.ExitStatus(); got != "signal: killed" {
				t.Errorf("exit status %q, want signal: killed", got)
			}
		}
		if err := errors.Join(session.Close(), updates.Close()); err != nil {
			t.Errorf("close of sessions in processes that are gone: %v", err)
		}
	}
	sameBits(t, "params", r.Params(), want.params)
	sameBits(t, "m", r.Slots()[0], want.m)
	sameBits(t, "v", r.Slots()[1], want.v)
	if string(state) != string(want.state) {
		t.Errorf("state %q, want %q", state, want.state)
	}
}
