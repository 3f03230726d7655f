package host_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"harness.invalid/core/arena"
	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
	"harness.invalid/core/plugin/python"
)

// idle is a backend that receives batches and computes nothing: what is left of a step is the wire.
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
func (idleSession) Evaluate(
	context.Context, backend.Evaluation, iter.Seq2[*bert.Batch, error], func(backend.Outputs) error,
) (l bert.Losses, err error) {
	return l, backend.ErrUnsupported
}
func (idleSession) Save(context.Context) ([]byte, error) { return nil, nil }
func (idleSession) Load(context.Context, []byte) error   { return nil }
func (idleSession) Close() error                         { return nil }

// BenchmarkStep is what a process adds to a step of pre-training, in Go and in Python: the batch goes there,
// gradients come back, an update's parameters go there and back. The batch is BERT's of phase 1, 32 sequences of
// 128 tokens, and the model has BERT-Tiny's size. Besides wall time it reports the CPU time of this process and of
// the plugin, which other load changes little. docs/plugins.md has the figures.
func BenchmarkStep(b *testing.B) {
	model, err := bert.Defaults().Size("tiny")
	if err != nil {
		b.Fatal(err)
	}
	p := backend.Program{
		Model: model, Head: bert.Head{Task: bert.Pretraining},
		Length: 128, MaxPredictions: 20, MicroBatch: 32, Accumulation: 1, Replicas: 1,
	}
	l, err := bert.Parameters(p.Model, p.Head)
	if err != nil {
		b.Fatal(err)
	}
	batch := batch(p, 1, 0, p.MicroBatch)
	given := func(yield func(*bert.Batch, error) bool) { yield(batch, nil) }
	for _, language := range []string{"go", "python"} {
		for _, transport := range transports {
			b.Run(fmt.Sprintf("%s/%s", language, transport), func(b *testing.B) {
				s := spec(b, plugin.Backend, "idle", transport)
				if language == "python" {
					s.Path, s.Env, s.Args = pythonFor(b), []string{"PYTHONPATH=../python"}, []string{"-B", "../python/testdata/idle.py"}
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
				s.Arena = shared
				process := start(b, s)
				session, err := process.Backend().Open(b.Context(), p, backend.Memory{Layout: l, Params: r.Params(), Grads: r.Grads()})
				if err != nil {
					b.Fatal(err)
				}
				defer session.Close()
				step := 0
				host, other := cpuTime(b, os.Getpid()), cpuTime(b, process.PID())
				for b.Loop() {
					step++
					r.Params()[0]++ // as an optimizer does, so that the parameters have to be sent
					if err := session.Commit(b.Context(), step); err != nil {
						b.Fatal(err)
					}
					if _, err := session.Step(b.Context(), stepOf(p, step), given); err != nil {
						b.Fatal(err)
					}
				}
				perStep := func(pid int, before time.Duration) float64 {
					return float64((cpuTime(b, pid) - before).Microseconds()) / 1e3 / float64(step)
				}
				b.ReportMetric(perStep(os.Getpid(), host), "host-cpu-ms/op")
				b.ReportMetric(perStep(process.PID(), other), "plugin-cpu-ms/op")
			})
		}
	}
}

// pythonFor is an interpreter that has what the SDK imports.
func pythonFor(b *testing.B) string {
	path, err := python.Interpreter(b.Context(), python.Modules)
	if errors.Is(err, python.ErrMissing) {
		b.Skip(err)
	}
	if err != nil {
		b.Fatal(err)
	}
	return path
}

// cpuTime is the CPU time that a process has used, 0 if the system does not say.
func cpuTime(b *testing.B, pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	var ticks int
	for _, f := range strings.Fields(rest)[11:13] { // utime and stime, in hundredths of a second
		n, err := strconv.Atoi(f)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// BenchmarkCall is one round trip.
func BenchmarkCall(b *testing.B) {
	p := start(b, spec(b, plugin.Backend, "idle", host.Memory))
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
	for _, transport := range append([]host.Transport{"none"}, transports...) {
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
	s := spec(b, plugin.Backend, "idle", host.Memory)
	for b.Loop() {
		p, err := host.Launch(b.Context(), s)
		if err != nil {
			b.Fatal(err)
		}
		if err := p.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
