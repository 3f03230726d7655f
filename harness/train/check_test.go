package train_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/optimizer"
	"harness.invalid/harness/train"
)

// liar is a backend whose steps are those of a test.
type liar struct {
	backend.Backend
	step liarStep
}

type (
	batchSeq = iter.Seq2[*bert.Batch, error]
	liarStep func(s *liarSession, ctx context.Context, step backend.Step, b batchSeq) (backend.StepResult, error)
	session  = optimizer.Session
	updated  = optimizer.StepResult
	lazyStep func(s session, m optimizer.Memory, ctx context.Context, step optimizer.Step) (updated, error)
)

type liarSession struct {
	backend.Session
	memory backend.Memory
	step   liarStep
	last   backend.StepResult
	kept   []float32
}

func (l liar) Open(ctx context.Context, p backend.Program, m backend.Memory) (backend.Session, error) {
	s, err := l.Backend.Open(ctx, p, m)
	return &liarSession{Session: s, memory: m, step: l.step}, err
}

func (s *liarSession) Step(ctx context.Context, step backend.Step, batches batchSeq) (backend.StepResult, error) {
	return s.step(s, ctx, step, batches)
}

// lazyRule is an optimizer whose steps are those of a test.
type lazyRule struct {
	optimizer.Optimizer
	step lazyStep
}

type lazySession struct {
	optimizer.Session
	memory optimizer.Memory
	of     lazyRule
}

func (l lazyRule) Open(ctx context.Context, options map[string]string, m optimizer.Memory) (optimizer.Session, error) {
	s, err := l.Optimizer.Open(ctx, options, m)
	return lazySession{s, m, l}, err
}

func (s lazySession) Step(ctx context.Context, step optimizer.Step) (optimizer.StepResult, error) {
	return s.of.step(s.Session, s.memory, ctx, step)
}

// withRule has an optimizer in place of that of the plugins.
type withRule struct {
	plugins
	rule func(optimizer.Optimizer) optimizer.Optimizer
}

func (p withRule) Optimizer(ctx context.Context, name string) (optimizer.Optimizer, error) {
	o, err := p.plugins.Optimizer(ctx, name)
	return p.rule(o), err
}

// honest is what a backend does that does not lie.
func honest(s *liarSession, ctx context.Context, step backend.Step, batches batchSeq) (backend.StepResult, error) {
	return s.Session.Step(ctx, step, batches)
}

func drain(batches batchSeq) {
	for range batches {
	}
}

// TestLiars: a plugin that answers without doing its work ends the run at once, with an error that names it and says what
// it did. The same plugin without the lie trains.
func TestLiars(t *testing.T) {
	e := load(t, "phases.phase1.steps=6", "phases.phase2.steps=1", "phases.squad.steps=1", "phases.*.schedule.warmup_steps=0")
	// after is a backend that is honest for two steps.
	after := func(lie liarStep) liarStep {
		return func(s *liarSession, ctx context.Context, step backend.Step, b batchSeq) (backend.StepResult, error) {
			if step.Step <= 2 {
				r, err := honest(s, ctx, step, b)
				s.last, s.kept = r, append(s.kept[:0], s.memory.Grads...)
				return r, err
			}
			return lie(s, ctx, step, b)
		}
	}
	for name, c := range map[string]struct {
		step liarStep
		want string // "": it is no lie
	}{
		"honest": {honest, ""},
		"computes nothing": {after(func(s *liarSession, _ context.Context, _ backend.Step, b batchSeq) (backend.StepResult, error) {
			drain(b)
			return s.last, nil
		}), "step 3: backend gpu-ref: "},
		"computes nothing at first": {func(_ *liarSession, _ context.Context, st backend.Step, b batchSeq) (backend.StepResult, error) {
			drain(b)
			return backend.StepResult{Finite: true, Losses: bert.Losses{MaskedLM: bert.Loss{Weight: st.MaskedWeight}}}, nil
		}, "it left the gradients of"},
		"old gradients": {after(func(s *liarSession, ctx context.Context, st backend.Step, b batchSeq) (backend.StepResult, error) {
			r, err := honest(s, ctx, st, b)
			copy(s.memory.Grads, s.kept)
			return r, err
		}), "it left the gradients of the step before, or none"},
		"zero gradients": {func(s *liarSession, ctx context.Context, st backend.Step, b batchSeq) (backend.StepResult, error) {
			r, err := honest(s, ctx, st, b)
			clear(s.memory.Grads)
			return r, err
		}, "it left the gradients of the step before, or none"},
		"one tensor unset": {after(func(s *liarSession, ctx context.Context, st backend.Step, b batchSeq) (backend.StepResult, error) {
			tensors := s.memory.Layout.Tensors()
			g := tensors[len(tensors)-1].Of(s.memory.Grads)
			before := append([]float32(nil), g...)
			r, err := honest(s, ctx, st, b)
			copy(g, before)
			return r, err
		}), "it left the gradients of cls."},
		"reads no batch": {after(func(s *liarSession, _ context.Context, _ backend.Step, _ batchSeq) (backend.StepResult, error) {
			return s.last, nil
		}), "it answered after 0 micro-batches, before the last one"},
		"reads one batch": {after(func(s *liarSession, _ context.Context, _ backend.Step, b batchSeq) (backend.StepResult, error) {
			for range b {
				break
			}
			return s.last, nil
		}), "it answered after 1 micro-batches, before the last one"},
		"skips a micro-batch": {after(func(s *liarSession, ctx context.Context, st backend.Step, b batchSeq) (backend.StepResult, error) {
			r, err := honest(s, ctx, st, b)
			r.Losses.MaskedLM.Weight /= 2
			return r, err
		}), "its loss is over masked tokens of weight"},
		"changes parameters": {after(func(s *liarSession, ctx context.Context, st backend.Step, b batchSeq) (backend.StepResult, error) {
			r, err := honest(s, ctx, st, b)
			for i := range s.memory.Params {
				s.memory.Params[i] *= 1.5
			}
			return r, err
		}), "it changed the parameters of"},
		"false norm": {after(func(s *liarSession, ctx context.Context, st backend.Step, b batchSeq) (backend.StepResult, error) {
			r, err := honest(s, ctx, st, b)
			r.GradientNorm = 1e-9
			return r, err
		}), "it reports a gradient norm of 1e-09"},
	} {
		j := e.job("gpu-ref", t.TempDir())
		j.Plugins = plugins{backend: liar{builtIn("gpu-ref"), c.step}}
		expect(t, name, j, c.want)
	}
}

// expect trains a job whose plugin lies.
func expect(t *testing.T, name string, j train.Job, want string) {
	t.Helper()
	_, err := train.Run(t.Context(), j)
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: %v", name, err)
	case want != "" && (!errors.Is(err, train.ErrContract) || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: error is %v, want %q", name, err, want)
	}
}

// TestLazyRules is TestLiars for optimizers.
func TestLazyRules(t *testing.T) {
	e := load(t, "phases.phase1.steps=8", "phases.phase2.steps=1", "phases.squad.steps=1")
	norm := func(m optimizer.Memory) float64 { return optimizer.Norm(optimizer.Blocks(m.Layout), m.Grads) }
	for name, c := range map[string]struct {
		step lazyStep
		want string
	}{
		"honest": {func(s session, _ optimizer.Memory, ctx context.Context, step optimizer.Step) (updated, error) {
			return s.Step(ctx, step)
		}, ""},
		"does nothing": {func(_ session, m optimizer.Memory, _ context.Context, _ optimizer.Step) (updated, error) {
			return optimizer.StepResult{GradientNorm: norm(m)}, nil
		}, "optimizer adamw: 3 updates in a row changed nothing"},
		"norm too small": {func(s session, _ optimizer.Memory, ctx context.Context, step optimizer.Step) (updated, error) {
			r, err := s.Step(ctx, step)
			r.GradientNorm /= 1e6
			return r, err
		}, "it reports a gradient norm of"},
		"a slot that is not a number": {func(s session, m optimizer.Memory, ctx context.Context, step optimizer.Step) (updated, error) {
			r, err := s.Step(ctx, step)
			zero := float32(0)
			for i := range m.Slots[1] {
				m.Slots[1][i] /= zero
			}
			return r, err
		}, "in slot 2 of"},
	} {
		j := e.job("gpu-ref", t.TempDir())
		rule := func(o optimizer.Optimizer) optimizer.Optimizer { return lazyRule{o, c.step} }
		j.Plugins = withRule{plugins{backend: builtIn("gpu-ref")}, rule}
		expect(t, name, j, c.want)
	}
}

// BenchmarkCheck is what the checks of a step of BERT-Mini cost, with two slots.
func BenchmarkCheck(b *testing.B) {
	config := bert.Config{VocabSize: 30522, HiddenSize: 256, NumHiddenLayers: 4, NumAttentionHeads: 4, IntermediateSize: 1024,
		HiddenAct: bert.GELU, MaxPositionEmbeddings: 512, TypeVocabSize: 2, InitializerRange: 0.02, LayerNormEps: 1e-12, AttentionMask: -10000}
	layout, err := bert.Parameters(config, bert.Head{Task: bert.Pretraining})
	if err != nil {
		b.Fatal(err)
	}
	m, err := plugins{}.Allocate(layout, 2)
	if err != nil {
		b.Fatal(err)
	}
	step := train.CheckStep(m)
	for b.Loop() {
		step()
	}
}
