package thismachine

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/optimizer"
)

// Estimator implements backend.Estimator for the backend torch.
type Estimator struct{}

var _ backend.Estimator = Estimator{}

// Systems implements backend.Estimator.
func (Estimator) Systems(context.Context) ([]backend.System, error) {
	doc := "not measured yet: harness bench machine"
	if s, err := Load(); err == nil {
		doc = s.Line()
	}
	return []backend.System{{Name: Name, Doc: doc}}, nil
}

// Variations implements backend.Estimator.
func (Estimator) Variations(context.Context, backend.Program, backend.Machine) ([]backend.Variation, error) {
	return nil, nil
}

// Estimate implements backend.Estimator.
func (Estimator) Estimate(_ context.Context, p backend.Program, on backend.Machine) (backend.Estimate, error) {
	var s *System
	var err error
	switch {
	case on.Description != "":
		s, err = Parse(on.Description)
	case on.System == "" || on.System == Name:
		s, err = Load()
	default:
		err = fmt.Errorf("no system of backend %s is named %q, want %s or the path of its file", Backend, on.System, Name)
	}
	if err != nil {
		return backend.Estimate{}, err
	}
	return s.Estimate(p, on.Update)
}

// Estimate models a step with an update.
func (s *System) Estimate(p backend.Program, update optimizer.Cost) (backend.Estimate, error) {
	e, err := s.step(p, update)
	if err == nil {
		e.Confidence = s.confidence(&p, e.SequencesPerSecond)
	}
	return e, err
}

// step models a step. Replicas are computed one after another, as the backend does.
func (s *System) step(p backend.Program, update optimizer.Cost) (backend.Estimate, error) {
	if got := cmp.Or(p.Precision, precision); got != precision {
		return backend.Estimate{}, fmt.Errorf("%s: measured in %s, the program has %s: %w", s.Name, precision, got, backend.ErrUnsupported)
	}
	layout, err := bert.Parameters(p.Model, p.Head)
	if err != nil {
		return backend.Estimate{}, err
	}
	w := work{System: s}
	w.model(&p)
	micro := float64(p.Accumulation * p.Replicas)
	params, tensors := float64(layout.Parameters()), float64(len(layout.Tensors()))
	var bytes, flops, state float64
	for i, t := range layout.Tensors() {
		if len(update.Tensors) > 0 {
			bytes += update.MovedBytes(i, t.Len(), fp32Bytes, fp32Bytes)
			flops += update.Tensors[i].Flops
			state += update.StateBytes(i, t.Len())
		}
	}
	g := s.Gradients
	e := backend.Estimate{System: s.Name, GlobalBatch: p.GlobalBatch(), Breakdown: []backend.Phase{
		{Name: "products", Seconds: micro * w.products},
		{Name: "attention", Seconds: micro * w.attention},
		{Name: "passes", Seconds: micro * w.passes},
		{Name: "operators", Seconds: micro * (w.operators + tensors*s.Operator.Backward)},
		// Set to zero and looked at once a step, added to for each micro-batch; the host reads them for their norm.
		{Name: "gradients", Seconds: params * (g["zero"] + g["sum"] + micro*g["add"] + fp32Bytes/s.MemoryBytesPerSecond)},
		{Name: "optimizer", Seconds: max(bytes/s.MemoryBytesPerSecond, flops/s.FMAFlops)},
		{Name: "calls", Seconds: callsPerStep * s.CallSeconds},
	}}
	for _, b := range e.Breakdown {
		e.StepSeconds += b.Seconds
	}
	e.SequencesPerSecond = float64(e.GlobalBatch) / e.StepSeconds
	e.PeakShare = 3 * w.flops * micro / (e.StepSeconds * s.FMAFlops)
	e.Memory = []backend.DeviceMemory{{Device: "host", Bytes: s.MemoryBytes, Parts: []backend.MemoryPart{
		{Name: "weights", Bytes: int64(params * fp32Bytes)}, {Name: "gradients", Bytes: int64(2 * params * fp32Bytes)},
		{Name: "activations", Bytes: int64(w.kept * fp32Bytes)}, {Name: "optimizer", Bytes: int64(state)},
	}}}
	if !e.Fits() {
		e.Advice = "smaller micro-batches"
	}
	const first = 4 // parts of the passes over the batch
	e.Pipeline = backend.Pipeline{
		Stages: []backend.Stage{{Name: "model", Parts: e.Breakdown[:first], Stash: 1}}, Cycles: 1, Update: e.Breakdown[first:],
	}
	for _, b := range e.Breakdown[:first] {
		e.Pipeline.CycleSeconds += b.Seconds
	}
	return e, nil
}

const (
	fp32Bytes    = 4
	callsPerStep = 3 // the backend's step, the optimizer's, and commit
)

// work is what a micro-batch takes, forward and backward, in seconds.
type work struct {
	*System
	products, attention, passes, operators float64
	flops                                  float64 // of products, forward
	kept                                   float64 // elements of activations
}

// operator counts calls.
func (w *work) operator(forward, backward float64) {
	w.operators += forward*w.Operator.Forward + backward*w.Operator.Backward
}

// linear is a dense layer; its backward pass has two products and the sum for the bias.
func (w *work) linear(rows, in, out float64) {
	flops := 2 * rows * in * out
	r := w.rate(min(in, out))
	w.products += flops/r.Forward + 2*flops/r.Backward
	w.flops += flops
	w.kept += rows * in
	w.operator(1, 3)
}

// rate of products, between the measured dimensions by their logarithms.
func (w *work) rate(dimension float64) Pair {
	list := w.Products
	first, last := list[0], list[len(list)-1]
	switch {
	case dimension <= float64(first.Dimension):
		return Pair{first.Forward, first.Backward}
	case dimension >= float64(last.Dimension):
		return Pair{last.Forward, last.Backward}
	}
	for i := 1; i < len(list); i++ {
		if a, b := list[i-1], list[i]; dimension <= float64(b.Dimension) {
			t := math.Log(dimension/float64(a.Dimension)) / math.Log(float64(b.Dimension)/float64(a.Dimension))
			between := func(x, y float64) float64 { return math.Exp((1-t)*math.Log(x) + t*math.Log(y)) }
			return Pair{between(a.Forward, b.Forward), between(a.Backward, b.Backward)}
		}
	}
	return Pair{last.Forward, last.Backward}
}

// heads are products of attention, scaled from the nearest measured length.
func (w *work) heads(n, length, size float64) {
	near := w.Attention[0]
	for _, a := range w.Attention {
		if math.Abs(math.Log(length/float64(a.Length))) < math.Abs(math.Log(length/float64(near.Length))) {
			near = a
		}
	}
	scale := n * size / 64 * length * length / float64(near.Length*near.Length)
	w.attention += scale * (near.Forward + near.Backward)
	w.flops += 2 * n * length * length * size
	w.operator(1, 2)
}

// pass is an operator on elements.
func (w *work) pass(name string, elements float64) {
	p := w.Passes[name]
	w.passes += elements * (p.Forward + p.Backward)
	w.kept += elements
	w.operator(1, 1)
}

// sum is an addition of gradients, where a tensor was read several times.
func (w *work) sum(elements float64) {
	w.passes += elements * w.Passes["add"].Forward
	w.operator(0, 1)
}

// block is dropout, residual sum and layer norm.
func (w *work) block(hidden, dropout float64) {
	w.drop(hidden, dropout)
	w.pass("add", hidden)
	w.pass("norm", hidden)
	w.sum(hidden)
}

func (w *work) drop(elements, probability float64) {
	if probability > 0 {
		w.pass("dropout", elements)
	}
}

// model counts the operators of plugins/torch/harness_torch/model.py.
func (w *work) model(p *backend.Program) {
	c := &p.Model
	B, S, H, I, V := float64(p.MicroBatch), float64(p.Length), float64(c.HiddenSize), float64(c.IntermediateSize), float64(c.VocabSize)
	A, rows := float64(c.NumAttentionHeads), B*S
	hidden, scores := rows*H, B*A*S*S
	w.pass("embedding", hidden) // words
	w.pass("embedding", hidden) // types
	w.pass("add", hidden)
	w.pass("add", hidden) // positions
	w.pass("norm", hidden)
	w.drop(hidden, c.HiddenDropoutProb)
	w.passes += V * H * (w.Gradients["zero"]) // the gradient of the words is as large as their table
	for range c.NumHiddenLayers {
		for range 3 {
			w.linear(rows, H, H)
			w.pass("copy", hidden)
		}
		w.sum(hidden)
		w.sum(hidden)
		w.heads(B*A, S, H/A)
		w.pass("multiply", scores)
		w.pass("add", scores)
		w.pass("softmax", scores)
		w.drop(scores, c.AttentionProbsDropoutProb)
		w.heads(B*A, S, H/A)
		w.pass("copy", hidden)
		w.linear(rows, H, H)
		w.block(hidden, c.HiddenDropoutProb)
		w.linear(rows, H, I)
		w.pass("gelu", rows*I)
		w.linear(rows, I, H)
		w.block(hidden, c.HiddenDropoutProb)
	}
	switch p.Head.Task {
	case bert.QuestionAnswering:
		w.linear(rows, H, 2)
		w.pass("entropy", 2*rows)
		return
	case bert.Pretraining:
	default:
		w.linear(B, H, H)
		w.linear(B, H, max(1, float64(p.Head.Labels)))
		return
	}
	masked := B * float64(p.MaxPredictions)
	w.pass("embedding", masked*H)
	w.linear(masked, H, H)
	w.pass("gelu", masked*H)
	w.pass("norm", masked*H)
	w.linear(masked, H, V)
	w.passes += V * H * w.Gradients["add"] // of the decoder, to that of the embeddings
	w.pass("entropy", masked*V)
	w.pass("argmax", masked*V)
	w.linear(B, H, H)
	w.linear(B, H, 2)
}
