package backendtest

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"harness.invalid/core/agreement"
	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/numerics"
)

// traced holds the tensors of a trace by operator: the result and its gradient.
type traced map[string][2]*backend.Traced

// trace traces step 1 of a fixture. ok is false if the backend can't trace.
func (f *fixture) trace(session backend.Session, b *bert.Batch) (seen traced, r backend.StepResult, ok bool, err error) {
	tracer, ok := session.(backend.Tracer)
	if !ok {
		return nil, r, false, nil
	}
	operators := f.operators()
	seen = traced{}
	r, err = tracer.Trace(f.suite.ctx, announce(1, b), cut(b, f.program.MicroBatch), func(t backend.Traced) error {
		i := slices.IndexFunc(operators, func(o bert.Operator) bool { return o.Name == t.Operator })
		if i < 0 {
			return fmt.Errorf("operator %q is traced, and the model has none of that name", t.Operator)
		}
		want := operators[i].Shape(bert.Shape{Size: f.program.MicroBatch, Length: b.Length, Predictions: b.Predictions})
		kind, pair := 0, seen[t.Operator]
		if t.Gradient {
			kind = 1
		}
		_, formatErr := numerics.ParseFormat(t.Format)
		switch {
		case pair[kind] != nil:
			return fmt.Errorf("operator %s is traced twice", t.Operator)
		case !slices.Equal(t.Shape, want) || len(t.Values) != want.Len():
			return fmt.Errorf("operator %s is traced with shape %v and %d values, want %v", t.Operator, t.Shape, len(t.Values), want)
		case !(t.Scale > 0) || !t.Gradient && t.Scale != 1:
			return fmt.Errorf("operator %s is traced with scale %g, want 1 for a result and a positive number for a gradient", t.Operator, t.Scale)
		case t.Format != "" && formatErr != nil:
			return fmt.Errorf("operator %s: %w", t.Operator, formatErr)
		}
		t.Values = slices.Clone(t.Values)
		pair[kind] = &t
		seen[t.Operator] = pair
		return nil
	})
	if errors.Is(err, backend.ErrUnsupported) {
		return nil, r, false, nil
	}
	return seen, r, true, err
}

// operators are those of the fixture's model.
func (f *fixture) operators() []bert.Operator { return bert.Operators(f.program.Model, f.program.Head) }

// traces compares what a trace shows with what is known otherwise: results with the outputs of an evaluation, and
// the gradient of a result, summed over rows, with the gradient of the operator's bias. Tracing is optional.
func (s *suite) traces() error {
	if err := s.tracesTheStep(); err != nil {
		return err
	}
	for _, head := range heads {
		f, err := s.fixtureOf(head)
		if err != nil {
			return err
		}
		f.program.Model.HiddenDropoutProb, f.program.Model.AttentionProbsDropoutProb = 0, 0
		f.program.MicroBatch, f.program.Accumulation, f.program.Replicas = 8, 1, 1
		if err := f.run(func(session backend.Session) error { return f.tracesTruly(session) }); err != nil {
			return fmt.Errorf("%s: %w", head.Task, err)
		}
	}
	return nil
}

// tracesTheStep: a traced step has the bits of an untraced one, with dropout, several micro-batches and replicas.
func (s *suite) tracesTheStep() error {
	var want []float32
	var plain backend.StepResult
	if err := s.with(bert.Pretraining, nil, func(f *fixture, session backend.Session) (err error) {
		plain, err = f.step(session, 1)
		want = slices.Clone(f.memory.Grads)
		return err
	}); err != nil {
		return err
	}
	return s.with(bert.Pretraining, nil, func(f *fixture, session backend.Session) error {
		_, r, ok, err := f.trace(session, f.batch(1, f.program.GlobalBatch()))
		if err != nil || !ok {
			return err
		}
		if r.Losses != plain.Losses || r.Finite != plain.Finite || r.LossScale != plain.LossScale {
			return fmt.Errorf("a traced step has losses %+v at scale %g, want %+v at %g as without the trace",
				r.Losses, r.LossScale, plain.Losses, plain.LossScale)
		}
		return sameBits("gradients of a traced step", f.memory.Grads, want)
	})
}

func (f *fixture) tracesTruly(session backend.Session) error {
	b := f.batch(1, f.program.GlobalBatch())
	var outputs backend.Outputs
	if _, err := session.Evaluate(f.suite.ctx, backend.Evaluation{Outputs: bert.OutputNames(f.program.Model, f.program.Head)}, cut(b, b.Size),
		func(o backend.Outputs) error { outputs = o; return nil }); err != nil {
		return err
	}
	seen, r, ok, err := f.trace(session, b)
	if err != nil || !ok {
		return err
	}
	if len(seen) == 0 {
		return errors.New("a trace shows no operator, want some, or an error that wraps ErrUnsupported")
	}
	operators := f.operators()
	for name, output := range outputs {
		i := slices.IndexFunc(operators, func(o bert.Operator) bool { return o.Output == name })
		if i < 0 {
			continue
		}
		o := operators[i]
		t := seen[o.Name][0]
		if t == nil {
			continue
		}
		got, want := o.Relevant(t.Values, f.program.Head, b), o.Relevant(output.Values, f.program.Head, b)
		// Training may round stochastically where evaluation rounds to nearest; both are within the tolerance of the truth.
		if e := agreement.RelError(got, float64s(want)); !(e <= 2*f.suite.precision.OutputTolerance) {
			return fmt.Errorf("operator %s is traced with results that differ by %.3g from output %s, want at most %g",
				t.Operator, e, name, 2*f.suite.precision.OutputTolerance)
		}
	}
	if !r.Finite {
		return nil // a dynamic loss scale is still too high
	}
	for _, o := range operators {
		g := seen[o.Name][1]
		if o.Bias == "" || g == nil || o.Activation != bert.NoActivation {
			continue // the sum of the result's gradient is the bias's only where no activation is between them
		}
		if err := f.biasFollows(o, g); err != nil {
			return err
		}
	}
	return nil
}

// biasFollows compares the gradient of an operator's bias with the traced gradient of its result, summed over rows.
// The difference is relative to the sum of magnitudes, since some gradients, such as those of a softmax, add up to
// zero except for rounding.
func (f *fixture) biasFollows(o bert.Operator, g *backend.Traced) error {
	p, _ := f.memory.Layout.Lookup(o.Bias)
	difference, terms := make([]float64, p.Len()), make([]float64, p.Len())
	for i, v := range g.Values {
		difference[i%p.Len()] -= float64(v) / g.Scale
		terms[i%p.Len()] += math.Abs(float64(v)) / g.Scale
	}
	for i, v := range p.Of(f.memory.Grads) {
		difference[i] += float64(v)
	}
	if e := norm(difference) / norm(terms); !(e <= f.suite.precision.GradientTolerance) {
		return fmt.Errorf("the gradient of %s differs by %.3g from the sum of the traced gradient of %s, want at most %g",
			p.Name, e, o.Name, f.suite.precision.GradientTolerance)
	}
	return nil
}

func float64s(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}
