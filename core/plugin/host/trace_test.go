package host_test

import (
	"context"
	"errors"
	"iter"
	"reflect"
	"slices"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
	gpuref "harness.invalid/plugins/gpu-ref"
)

// badTraces are plugins whose traces have one fault each.
var badTraces = map[string]func(){
	"trace-unknown":  badTrace(func(t *backend.Traced) { t.Operator = "bert.decoder" }),
	"trace-shape":    badTrace(func(t *backend.Traced) { t.Shape = []int{1, len(t.Values)} }),
	"trace-scale":    badTrace(func(t *backend.Traced) { t.Scale = 0 }),
	"trace-twice":    badTrace(func(t *backend.Traced) { t.Operator, t.Gradient = "bert.embeddings", false }),
	"trace-in-step":  func() { plugin.ServeBackend(faultyTraces{gpuref.New(), nil}) },
	"trace-too-much": badTrace(func(t *backend.Traced) { t.Values = append(slices.Clone(t.Values), 1) }),
}

func badTrace(fault func(*backend.Traced)) func() {
	return func() { plugin.ServeBackend(faultyTraces{gpuref.New(), fault}) }
}

// faultyTraces is gpu-ref with changed traces, or without any.
type faultyTraces struct {
	backend.Backend
	fault func(*backend.Traced)
}

func (f faultyTraces) Open(ctx context.Context, p backend.Program, m backend.Memory) (backend.Session, error) {
	s, err := f.Backend.Open(ctx, p, m)
	if f.fault == nil {
		return struct{ backend.Session }{s}, err
	}
	return faultyTracer{s, f.fault}, err
}

type faultyTracer struct {
	backend.Session
	fault func(*backend.Traced)
}

func (s faultyTracer) Trace(
	ctx context.Context, step backend.Step, batches iter.Seq2[*bert.Batch, error], yield func(backend.Traced) error,
) (backend.StepResult, error) {
	return s.Session.(backend.Tracer).Trace(ctx, step, batches, func(t backend.Traced) error {
		s.fault(&t)
		return yield(t)
	})
}

// traced traces one step of a backend.
func traced(t *testing.T, b backend.Backend, p backend.Program) (all []backend.Traced, grads []float32, err error) {
	t.Helper()
	l, err := bert.Parameters(p.Model, p.Head)
	if err != nil {
		t.Fatal(err)
	}
	m := backend.Memory{Layout: l, Params: make([]float32, l.Len()), Grads: make([]float32, l.Len())}
	bert.Initialize(p.Model, l, m.Params, 1)
	s, err := b.Open(t.Context(), p, m)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Commit(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	_, err = s.(backend.Tracer).Trace(t.Context(), stepOf(p, 1), batches(p, 1), func(v backend.Traced) error {
		v.Values = slices.Clone(v.Values)
		all = append(all, v)
		return nil
	})
	return all, m.Grads, err
}

// TestTrace: a trace is the same through a process, over both transports, also if a tensor takes several messages.
func TestTrace(t *testing.T) {
	p := program()
	p.Model.VocabSize, p.MicroBatch, p.MaxPredictions = 30000, 4, 12 // logits of 5.5 MiB
	want, wantGrads, err := traced(t, gpuref.New(), p)
	if err != nil {
		t.Fatal(err)
	}
	if n := 2 * len(bert.Operators(p.Model, p.Head)); len(want) != n {
		t.Fatalf("%d tensors are traced, want %d", len(want), n)
	}
	for _, transport := range transports {
		got, grads, err := traced(t, start(t, spec(t, plugin.Backend, "gpu-ref", transport)).Backend(), p)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%s: %d tensors, error %v, want %d", transport, len(got), err, len(want))
		}
		sameBits(t, "gradients", grads, wantGrads)
		for i, w := range want {
			g := got[i]
			sameBits(t, w.Operator, g.Values, w.Values)
			g.Values, w.Values = nil, nil
			if !reflect.DeepEqual(g, w) {
				t.Fatalf("%s: tensor %d is %+v, want %+v", transport, i, g, w)
			}
		}
	}
}

// TestBadTraces: traces are checked against the model, and a plugin that has none says so.
func TestBadTraces(t *testing.T) {
	for role, texts := range map[string][]string{
		"trace-unknown":  {`it sent the result of an operator "bert.decoder" that the model does not have`},
		"trace-shape":    {"it sent the result of bert.embeddings with shape [1 1024], want [32 32]"},
		"trace-scale":    {"it sent the result of bert.embeddings with scale 0, want a positive number"},
		"trace-twice":    {"it sent the result of bert.embeddings twice"},
		"trace-too-much": {"operator bert.embeddings has 1025 values for its shape [32 32]"},
		"trace-in-step":  {"can't show what its operators store"},
	} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			_, _, err := traced(t, start(t, spec(t, plugin.Backend, role, host.Memory)).Backend(), program())
			wants(t, err, append(texts, "backend "+role+": trace of step 1")...)
			if unsupported := role == "trace-in-step"; errors.Is(err, backend.ErrUnsupported) != unsupported {
				t.Errorf("%v is ErrUnsupported: %v, want %v", err, !unsupported, unsupported)
			}
		})
	}
}
