package plugin_test

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"harness.invalid/core/arena"
	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/plugin"
)

// idle is a backend that takes batches and computes nothing: what is left of a step is the wire.
type idle struct{}

func (idle) Describe(context.Context) (backend.Info, error) {
	return backend.Info{Name: "idle", Version: "1", Doc: "computes nothing", Precisions: []backend.Precision{{Name: "fp32"}}}, nil
}

func (idle) Open(context.Context, backend.Program, backend.Memory) (backend.Session, error) {
	return idleSession{}, nil
}

type idleSession struct{}

func (idleSession) Step(_ context.Context, _ backend.Step, batches iter.Seq2[*bert.Batch, error]) (r backend.StepResult, err error) {
	for _, err := range batches {
		if err != nil {
			return r, err
		}
	}
	return backend.StepResult{Finite: true}, nil
}
func (idleSession) Commit(context.Context, int) error { return nil }
func (idleSession) Evaluate(context.Context, backend.Evaluation, iter.Seq2[*bert.Batch, error], func(backend.Outputs) error) (l bert.Losses, err error) {
	return l, backend.ErrUnsupported
}
func (idleSession) Save(context.Context) ([]byte, error) { return nil, nil }
func (idleSession) Load(context.Context, []byte) error   { return nil }
func (idleSession) Close() error                         { return nil }

// BenchmarkStep is what a process costs a step of pre-training: batches there, gradients back, an update's parameters there and back. The batch is
// BERT's of phase 1, 32 sequences of 128 tokens; the models are of BERT-Tiny's and BERT-Mini's size.
func BenchmarkStep(b *testing.B) {
	for _, size := range []string{"tiny", "mini"} {
		for _, transport := range transports {
			b.Run(fmt.Sprintf("%s/%s", size, transport), func(b *testing.B) {
				model, err := bert.Defaults().Size(size)
				if err != nil {
					b.Fatal(err)
				}
				p := backend.Program{Model: model, Head: bert.Head{Task: bert.Pretraining}, Length: 128, MaxPredictions: 20, MicroBatch: 8, Accumulation: 4, Replicas: 1}
				l, err := bert.Parameters(p.Model, p.Head)
				if err != nil {
					b.Fatal(err)
				}
				shared, err := arena.New()
				if err != nil {
					b.Fatal(err)
				}
				defer shared.Close()
				r, err := shared.Allocate(l, 2)
				if err != nil {
					b.Fatal(err)
				}
				s := spec(b, plugin.Backend, "idle", transport)
				s.Arena = shared
				session, err := start(b, s).Backend().Open(b.Context(), p, backend.Memory{Layout: l, Params: r.Params(), Grads: r.Grads()})
				if err != nil {
					b.Fatal(err)
				}
				defer session.Close()
				step := 0
				for b.Loop() {
					step++
					r.Params()[0]++ // as an optimizer does, so that they have to be sent
					if err := session.Commit(b.Context(), step); err != nil {
						b.Fatal(err)
					}
					if _, err := session.Step(b.Context(), stepOf(p, step), batches(p, step)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkCall is one round trip.
func BenchmarkCall(b *testing.B) {
	p := start(b, spec(b, plugin.Backend, "idle", plugin.Memory))
	for b.Loop() {
		if _, err := p.Backend().Describe(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkUpdate is AdamW on BERT-Mini's parameters through a process.
func BenchmarkUpdate(b *testing.B) {
	model, err := bert.Defaults().Size("mini")
	if err != nil {
		b.Fatal(err)
	}
	l, err := bert.Parameters(model, bert.Head{Task: bert.Pretraining})
	if err != nil {
		b.Fatal(err)
	}
	for _, transport := range append([]plugin.Transport{"none"}, transports...) {
		b.Run(string(transport), func(b *testing.B) {
			shared, err := arena.New()
			if err != nil {
				b.Fatal(err)
			}
			defer shared.Close()
			r, err := shared.Allocate(l, 4)
			if err != nil {
				b.Fatal(err)
			}
			o := builtin.optimizers["adamw"]
			if transport != "none" {
				s := spec(b, plugin.Optimizer, "adamw", transport)
				s.Arena = shared
				o = start(b, s).Optimizer()
			}
			session, err := o.Open(b.Context(), nil, optimizer.Memory{Layout: l, Params: r.Params(), Grads: r.Grads(), Slots: r.Slots()})
			if err != nil {
				b.Fatal(err)
			}
			defer session.Close()
			step := 0
			for b.Loop() {
				step++
				r.Grads()[step%l.Len()] = 1
				if _, err := session.Step(b.Context(), optimizer.Step{Step: step, LR: 1e-3}); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(28 * l.Len()))
		})
	}
}

// BenchmarkLaunch is the start of a process, its first call, and its end.
func BenchmarkLaunch(b *testing.B) {
	s := spec(b, plugin.Backend, "idle", plugin.Memory)
	for b.Loop() {
		p, err := plugin.Launch(b.Context(), s)
		if err != nil {
			b.Fatal(err)
		}
		if err := p.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
