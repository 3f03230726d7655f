package backendtest_test

import (
	"context"
	"iter"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/backend/backendtest"
	"harness.invalid/core/bert"
	gpuref "harness.invalid/plugins/gpu-ref"
)

// broken is a correct FP32 backend with one fault.
type broken struct {
	backend.Backend
	fault string
}

func (b broken) Describe(ctx context.Context) (backend.Info, error) {
	info, err := b.Backend.Describe(ctx)
	info.Precisions = info.Precisions[:1]
	return info, err
}

func (b broken) Open(ctx context.Context, p backend.Program, m backend.Memory) (backend.Session, error) {
	if b.fault == "ignores options" {
		p.Options = nil
	}
	s, err := b.Backend.Open(ctx, p, m)
	return &brokenSession{Session: s, memory: m, fault: b.fault}, err
}

type brokenSession struct {
	backend.Session
	memory backend.Memory
	fault  string
	steps  int
	last   int // number of the step before
}

func (s *brokenSession) Step(ctx context.Context, step backend.Step, batches iter.Seq2[*bert.Batch, error]) (backend.StepResult, error) {
	last := s.memory.Grads[len(s.memory.Grads)-20]
	if s.fault == "ignores cancellation" {
		ctx = context.WithoutCancel(ctx)
	}
	if s.fault == "uses one mask" {
		step.Step = 1
	}
	if s.fault == "sees across sequences" {
		batches = unnumbered(batches)
	}
	r, err := s.Session.Step(ctx, step, batches)
	s.steps++
	defer func() { s.last = step.Step }()
	switch {
	case err != nil:
		if s.fault == "hides errors" {
			err = nil
		}
	case s.fault == "leaves an element":
		s.memory.Grads[len(s.memory.Grads)-20] = last
	case s.fault == "moves parameters":
		s.memory.Params[3] += 1
	case s.fault == "points uphill":
		for i := range s.memory.Grads {
			s.memory.Grads[i] *= -1
		}
	case s.fault == "sums its steps" && step.Step == s.last:
		s.memory.Grads[0] *= 2
	case s.fault == "keeps a state":
		s.memory.Grads[0] += float32(s.steps)
	case s.fault == "loses losses":
		r.Losses.NextSentence.Weight--
	}
	return r, err
}

func (s *brokenSession) Trace(ctx context.Context, step backend.Step, batches iter.Seq2[*bert.Batch, error],
	yield func(backend.Traced) error) (backend.StepResult, error) {
	if s.fault == "traces another step" {
		step.Step++
	}
	return s.Session.(backend.Tracer).Trace(ctx, step, batches, func(t backend.Traced) error {
		switch {
		case s.fault == "forgets its loss scale" && t.Gradient:
			t.Scale *= 2
		case s.fault == "traces what it computes before the norm" && t.Operator == "bert.encoder.layer.1.output.LayerNorm" && !t.Gradient:
			t.Values[0] += 1
		case s.fault == "traces in a format of its own":
			t.Format = "fp17"
		case s.fault == "traces in heads":
			t.Shape = append(slices.Clone(t.Shape), 1)
		}
		return yield(t)
	})
}

// unnumbered assigns all tokens of a row to its first sequence.
func unnumbered(batches iter.Seq2[*bert.Batch, error]) iter.Seq2[*bert.Batch, error] {
	return func(yield func(*bert.Batch, error) bool) {
		for b, err := range batches {
			if b != nil && b.Sequences > 1 {
				one := *b
				one.AttentionMask = make([]int32, len(b.AttentionMask))
				for i, m := range b.AttentionMask {
					one.AttentionMask[i] = min(1, m)
				}
				b = &one
			}
			if !yield(b, err) {
				return
			}
		}
	}
}

func (s *brokenSession) Commit(ctx context.Context, step int) error {
	if s.fault == "drifts" {
		s.memory.Params[0] += 1e-3
	}
	return s.Session.Commit(ctx, step)
}

func (s *brokenSession) Evaluate(ctx context.Context, e backend.Evaluation, batches iter.Seq2[*bert.Batch, error],
	yield func(backend.Outputs) error) (bert.Losses, error) {
	return s.Session.Evaluate(ctx, e, batches, func(o backend.Outputs) error {
		for name, out := range o {
			if s.fault == "flattens outputs" {
				out.Shape = out.Shape[1:]
				o[name] = out
			}
		}
		if yield == nil {
			return nil
		}
		return yield(o)
	})
}

// TestConformanceFindsFaults: each fault breaks the rule that is about it.
func TestConformanceFindsFaults(t *testing.T) {
	for fault, rule := range map[string]string{
		"ignores options":      "refuses programs",
		"ignores cancellation": "ends when it is cancelled",
		"uses one mask":        "drops out",
		"hides errors":         "refuses wrong micro-batches",
		"leaves an element":    "sets every element",
		"moves parameters":     "leaves parameters alone",
		"points uphill":        "learns",
		"keeps a state":        "goes on from a saved state",
		"sums its steps":       "computes a step again",
		"loses losses":         "sets every element",
		"drifts":               "commits once",
		"flattens outputs":     "evaluates all outputs",

		"sees across sequences": "packs sequences",

		"traces another step":                     "traces its operators",
		"forgets its loss scale":                  "traces its operators",
		"traces what it computes before the norm": "traces its operators",
		"traces in a format of its own":           "traces its operators",
		"traces in heads":                         "traces its operators",
	} {
		found := false
		for _, r := range backendtest.Conformance(t.Context(), broken{gpuref.New(), fault}) {
			found = found || r.Err != nil && strings.Contains(r.Name, rule)
		}
		if !found {
			t.Errorf("a backend that %s keeps the rule %q", fault, rule)
		}
	}
	for _, r := range backendtest.Conformance(t.Context(), broken{gpuref.New(), ""}) {
		if r.Err != nil {
			t.Errorf("without a fault: %s: %v", r.Name, r.Err)
		}
	}
}
