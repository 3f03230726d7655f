package lockstep

import (
	"math"

	"harness.invalid/core/bert"
	"harness.invalid/harness/train"
)

// terms are what the sums of a step are made of, on its first side. A sum whose terms cancel is next to nothing, and what rounding did to the terms is still
// there. Of terms with independent errors the error of the sum is in proportion to the root of the sum of their squares, which is about the norm of the sum
// unless they cancel, so that differences are held against whichever is larger.
//
//	result of a dense layer, y = W·x + b          Σ_k ‖W_·k‖²·‖x_·k‖² + rows·‖b‖²
//	gradients of its weight and bias, Σ_t g_t ⊗ (x_t, 1)    Σ_t ‖g_t‖²·(‖x_t‖² + 1)
//	gradients of a layer norm, Σ_t g_t·(x̂_t, 1)             Σ_t ‖g_t‖²·2
//
// A trace does not mark which rows of a micro-batch belong to read tokens (bert.Batch.ReadTokens), so all rows count alike, those of the
// whole batch like those that are seen.
//
// Source: Higham and Mary 2019, SIAM J. Sci. Comput. 41:A2815, for independent errors of terms; Higham 2002, Accuracy and Stability of Numerical Algorithms,
// section 4.2, for errors of sums in proportion to the terms.
type terms struct {
	step   *train.LockedStep
	traced map[tracedKey][2]values
}

// result is the norm of the terms of the result of an operator; 0 where it is no dense layer's, or its input is not known.
func (t *terms) result(o bert.Operator) float64 {
	if o.Kind != bert.LinearKind {
		return 0
	}
	w, ok := t.parameter(o.Weight)
	x, width := t.input(o)
	if !ok || x.of == nil || len(w) != o.Width*width {
		return 0
	}
	seen := float64(len(x.of) / width)
	rows := float64(len(t.traced[tracedKey{o.Name, false}][0].of) / o.Width)
	columns := make([]float64, width)
	for i, v := range w {
		columns[i%width] += float64(v) * float64(v)
	}
	var squares float64
	for i, v := range x.of {
		squares += columns[i%width] * float64(v) * float64(v)
	}
	squares *= rows / seen
	if b, ok := t.parameter(o.Bias); ok {
		squares += rows * squaresOf(b, 1)
	}
	return math.Sqrt(squares)
}

// gradient is the norm of the terms of the gradients of all parameters of an operator; 0 where they are not known.
func (t *terms) gradient(o bert.Operator) float64 {
	g := t.traced[tracedKey{o.Name, true}][0]
	if g.of == nil || o.Kind == bert.EmbedKind { // the embeddings' go through a layer norm first
		return 0
	}
	squares := squaresOf(g.of, g.scale) * float64(t.step.Program.GlobalBatch()) / float64(t.step.Traced.Size)
	if o.Kind == bert.NormKind {
		return math.Sqrt(2 * squares)
	}
	if o.Kind != bert.LinearKind {
		return 0
	}
	x, width := t.input(o)
	if x.of == nil {
		return 0
	}
	return math.Sqrt(squares * (squaresOf(x.of, 1)/float64(len(x.of)/width) + 1))
}

// parameter is the weight or the bias of a dense layer as the first side had it before the step.
func (t *terms) parameter(name string) ([]float32, bool) {
	p, ok := t.step.Layout.Lookup(name)
	if !ok {
		return nil, false
	}
	return p.Of(t.step.Sides[0].Before), true
}

// input is what a dense layer reads, and how wide its rows are.
func (t *terms) input(o bert.Operator) (values, int) {
	return t.traced[tracedKey{o.Reads[0], false}][0], o.In
}

func squaresOf(values []float32, scale float64) (sum float64) {
	for _, v := range values {
		x := float64(v) / scale
		sum += x * x
	}
	return sum
}
