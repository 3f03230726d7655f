package emulator

import (
	"slices"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/numerics"
)

// tracing shows what the operators of a step's first micro-batch store.
type tracing struct {
	device    bert.Device // that the micro-batch is computed on
	yield     func(backend.Traced) error
	operators map[bert.Site]bert.Operator
	policy    *Policy
	head      bert.Head
	batch     *bert.Batch
	scale     float64   // of the loss
	err       error     // of yield
	rows      []float32 // of all tokens, where some have none
}

// Watch makes the next step show the operators of its first micro-batch, see backend.Tracer; end ends that. An error of yield becomes the step's.
func (t *Trainer) Watch(yield func(backend.Traced) error) (end func()) {
	w := &tracing{yield: yield, operators: map[bert.Site]bert.Operator{}, policy: &t.train.policy, head: t.model.Head}
	for _, o := range bert.Operators(t.model.Config, t.model.Head) {
		w.operators[o.Site] = o
	}
	w.device = bert.Watch(t.train, w.see)
	t.tracing = w
	return func() { t.tracing = nil }
}

func (t *tracing) see(s bert.Site, gradient bool, values []float32) {
	o, ok := t.operators[s]
	if !ok || t.err != nil {
		return
	}
	traced := backend.Traced{Operator: o.Name, Gradient: gradient, Scale: 1, Format: t.policy.storedAs(s, gradient).String(), Values: values}
	traced.Shape = o.Shape(bert.Shape{Size: t.batch.Size, Length: t.batch.Length, Predictions: t.batch.Predictions, Sequences: t.batch.Sequences})
	if gradient {
		traced.Scale = t.scale
	}
	if all := traced.Shape.Len(); len(values) < all {
		t.rows = slices.Grow(t.rows[:0], all)[:all]
		t.device.Scatter(&bert.Pass{Size: t.batch.Size}, &bert.Gather{Width: o.Width, Rows: t.batch.Read(t.head)}, values, t.rows)
		traced.Values = t.rows
	}
	t.err = t.yield(traced)
}

// storedAs is the format of an operator's result without dropout, or of the gradient of that result where all of its parts have met.
func (p *Policy) storedAs(s bert.Site, gradient bool) numerics.Format {
	if gradient {
		switch s.Op {
		case bert.OpDecoder, bert.OpNextSentence, bert.OpSpan, bert.OpClassifier:
			return p.LossGrad.Format
		case bert.OpAttentionOutput, bert.OpOutput, bert.OpTransform:
			return p.Norm.Grad.Format
		case bert.OpEmbeddings, bert.OpAttentionNorm, bert.OpOutputNorm:
			return p.Residual.Grad.Format
		}
		return p.Linear.Grad.Format
	}
	switch s.Op {
	case bert.OpEmbeddings, bert.OpAttentionNorm, bert.OpOutputNorm, bert.OpTransformNorm:
		return p.Norm.Out.Format
	case bert.OpAttentionOutput, bert.OpOutput:
		return p.Residual.Out.Format
	case bert.OpIntermediate, bert.OpPooler, bert.OpTransform:
		return p.Pointwise.Out.Format
	}
	return p.Linear.Out.Format
}
