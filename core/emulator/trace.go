package emulator

import (
	"slices"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/numerics"
)

// tracing shows what the operators of a step's first micro-batch store.
type tracing struct {
	device    bert.Device // computes the micro-batch
	yield     func(backend.Traced) error
	operators map[bert.Site]bert.Operator
	normed    map[string]bool // names of the operators whose result a layer norm reads
	policy    *Policy
	head      bert.Head
	batch     *bert.Batch
	scale     float64   // of the loss
	err       error     // of yield
	rows      []float32 // of all tokens, where not all are computed, in order
}

// Watch makes the next step show the operators of its first micro-batch, see backend.Tracer, until end is called.
// An error of yield becomes the step's.
func (t *Trainer) Watch(yield func(backend.Traced) error) (end func()) {
	w := &tracing{yield: yield, operators: map[bert.Site]bert.Operator{}, normed: map[string]bool{}, policy: &t.train.policy,
		head: t.model.Head}
	for _, o := range bert.Operators(t.model.Config, t.model.Head) {
		w.operators[o.Site] = o
		if o.Kind == bert.NormKind {
			w.normed[o.Reads[0]] = true
		}
	}
	w.device = bert.Watch(t.train, w.see)
	t.tracing = w
	return func() { t.tracing = nil }
}

func (t *tracing) see(s bert.Site, gradient bool, values []float32, tokens []int32) {
	o, ok := t.operators[s]
	if !ok || t.err != nil {
		return
	}
	format := t.policy.resultFormat(&o)
	if gradient {
		format = t.policy.gradientFormat(&o, t.normed[o.Name])
	}
	traced := backend.Traced{Operator: o.Name, Gradient: gradient, Scale: 1, Format: format.String(), Values: values}
	traced.Shape = o.Shape(bert.Shape{Size: t.batch.Size, Length: t.batch.Length, Predictions: t.batch.Predictions,
		Sequences: t.batch.Sequences})
	if gradient {
		traced.Scale = t.scale
	}
	all := traced.Shape.Len()
	if len(values) < all && tokens == nil {
		tokens = t.batch.ReadTokens(t.head)
	}
	if tokens != nil {
		t.rows = slices.Grow(t.rows[:0], all)[:all]
		t.device.Scatter(nil, &bert.Gather{Width: o.Width, Rows: tokens}, values, t.rows)
		traced.Values = t.rows
	}
	t.err = t.yield(traced)
}

// resultFormat is the format of an operator's result, before dropout.
func (p *Policy) resultFormat(o *bert.Operator) numerics.Format {
	switch {
	case o.Kind == bert.EmbedKind || o.Kind == bert.NormKind:
		return p.Norm.Out.Format
	case o.Residual != "":
		return p.Residual.Out.Format
	case o.Activation != bert.NoActivation:
		return p.Pointwise.Out.Format
	}
	return p.Linear.Out.Format
}

// gradientFormat is the format of the gradient of an operator's result, once its parts are added up. normed says
// that a layer norm reads the result.
func (p *Policy) gradientFormat(o *bert.Operator, normed bool) numerics.Format {
	switch {
	case o.From == bert.LossName:
		return p.LossGrad.Format
	case o.Hidden:
		return p.Residual.Grad.Format
	case normed:
		return p.Norm.Grad.Format
	}
	return p.Linear.Grad.Format
}
