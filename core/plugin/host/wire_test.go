package host_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"harness.invalid/core/agreement"
	"harness.invalid/core/arena"
	"harness.invalid/core/backend"
	"harness.invalid/core/backend/backendtest"
	"harness.invalid/core/bert"
	"harness.invalid/core/internal/reference"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/optimizer/optimizertest"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
)

// TestOptimizers runs the conformance suite and the oracle through processes, over both transports.
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
				file := reference.Path(t, "golden", "optimizers.safetensors")
				rows, err := optimizertest.Oracle(t.Context(), p.Optimizer(), name, file)
				if err != nil || !agreement.Passed(rows) {
					t.Errorf("oracle: passed %v, error %v", agreement.Passed(rows), err)
				}
				// The same numbers as without a process, digit by digit.
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

// TestBackends runs the conformance suite through processes, over each transport once. Without a process both
// backends pass it in core/backend/backendtest, and TestEqualBits holds either against that over both transports.
func TestBackends(t *testing.T) {
	for name, transport := range map[string]host.Transport{"ipu": host.Memory, "gpu-ref": host.Stream} {
		t.Run(name+"/"+string(transport), func(t *testing.T) {
			p := start(t, spec(t, plugin.Backend, name, transport))
			for _, r := range backendtest.Conformance(t.Context(), p.Backend()) {
				if r.Err != nil {
					t.Errorf("%s: %v", r.Name, r.Err)
				}
			}
		})
	}
}

// program is a small pre-training.
func program() backend.Program {
	model := bert.Defaults()
	model.VocabSize, model.HiddenSize, model.NumHiddenLayers, model.NumAttentionHeads, model.IntermediateSize = 97, 32, 2, 2, 64
	model.MaxPositionEmbeddings = 32
	return backend.Program{
		Model: model, Head: bert.Head{Task: bert.Pretraining}, Precision: "fp16", Seed: 3,
		Length: 16, MaxPredictions: 3, MicroBatch: 2, Accumulation: 2, Replicas: 1,
	}
}

// batches are the micro-batches of a step.
func batches(p backend.Program, step int) iter.Seq2[*bert.Batch, error] {
	return func(yield func(*bert.Batch, error) bool) {
		for i := range p.Accumulation * p.Replicas {
			if !yield(batch(p, step, i*p.MicroBatch, p.MicroBatch), nil) {
				return
			}
		}
	}
}

func batch(p backend.Program, step, sample, size int) *bert.Batch {
	ids := func(n, limit, salt int) []int32 {
		v := make([]int32, n)
		for i := range v {
			v[i] = int32((i*7 + sample*31 + step*13 + salt) % limit)
		}
		return v
	}
	b := &bert.Batch{
		Size: size, Length: p.Length, Sample: sample, Predictions: p.MaxPredictions,
		InputIDs: ids(size*p.Length, p.Model.VocabSize, 1), TokenTypeIDs: ids(size*p.Length, 2, 2), AttentionMask: make([]int32, size*p.Length),
		MaskedLMPositions: ids(size*p.MaxPredictions, p.Length, 3), MaskedLMIDs: ids(size*p.MaxPredictions, p.Model.VocabSize, 4),
		MaskedLMWeights: make([]float32, size*p.MaxPredictions), NextSentenceLabels: ids(size, 2, 5),
	}
	for i := range b.AttentionMask {
		b.AttentionMask[i] = 1
	}
	for i := range b.MaskedLMWeights {
		b.MaskedLMWeights[i] = 1
	}
	return b
}

func stepOf(p backend.Program, step int) backend.Step {
	n := p.GlobalBatch()
	return backend.Step{Step: step, Sequences: n, MaskedWeight: float64(n * p.MaxPredictions)}
}

// trained is what a run leaves behind.
type trained struct {
	params, m, v, logits []float32
	losses               []float64
	state                []byte
}

// TestGradientNorm: the host takes the norm of the gradients that a backend's plugin left, and an optimizer's
// plugin goes by the one that it is told.
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

// train runs a few steps of a backend and an optimizer over memory that both have.
func train(t *testing.T, b backend.Backend, o optimizer.Optimizer, p backend.Program, r *arena.Region) (out trained) {
	t.Helper()
	ctx := t.Context()
	bert.Initialize(p.Model, r.Layout(), r.Params(), p.Seed)
	session, err := b.Open(ctx, p, backend.Memory{Layout: r.Layout(), Params: r.Params(), Grads: r.Grads()})
	if err != nil {
		t.Fatal(err)
	}
	updates, err := o.Open(ctx, map[string]string{"max_grad_norm": "1"}, optimizer.Memory{Layout: r.Layout(), Params: r.Params(), Grads: r.Grads(), Slots: r.Slots()})
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
	_, err = session.Evaluate(ctx, backend.Evaluation{Outputs: []string{"mlm_logits"}, Labels: true}, batches(p, 5), func(o backend.Outputs) error {
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

// TestEqualBits trains without processes, with both plugins over one arena, over arenas of their own, and over
// streams: all must end with the same bits.
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
		t.Fatalf("losses %v, %d logits: the run to compare with is none", want.losses, len(want.logits))
	}

	shared, err := arena.New()
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	b, o := spec(t, plugin.Backend, "gpu-ref", host.Memory), spec(t, plugin.Optimizer, "adamw", host.Memory)
	b.Arena, o.Arena = shared, shared
	pb, po := start(t, b), start(t, o)
	// A recipe's phases open one after the other in the same processes, with memory of other sizes in between.
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

// TestRestart kills both plugins in the middle of a run and goes on with others over the same arena: what the host
// holds is all there is.
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
		updates, err := po.Optimizer().Open(t.Context(), map[string]string{"max_grad_norm": "1"}, optimizer.Memory{Layout: layout, Params: r.Params(), Grads: r.Grads(), Slots: r.Slots()})
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

// TestForeignMemory must not be copied in silence when the host said which arena it uses.
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

// TestLargeMessages sends a batch and outputs that no single message could carry.
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
			b.Predictions, b.MaskedLMPositions, b.MaskedLMIDs, b.MaskedLMWeights = 1, b.MaskedLMPositions[:size], b.MaskedLMIDs[:size], b.MaskedLMWeights[:size]
			yield(b, nil)
		}
		losses, err = s.Evaluate(t.Context(), backend.Evaluation{Outputs: []string{"sequence_output"}, Labels: true}, few, func(o backend.Outputs) error {
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

// TestErrorsOfTheHost: what the host's own iterators and callbacks return comes back, and the session goes on.
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
