package lockstep

import (
	"math"

	"harness.invalid/core/bert"
	"harness.invalid/harness/train"
)

// terms computes the norms of the terms that the sums of a step add up, on its first side. If the terms of a sum
// cancel, the sum is close to zero, but the rounding errors of the terms remain. If those errors are independent,
// the error of the sum is proportional to the root of the sum of the squared terms, which is about the norm of the
// sum unless they cancel. Differences are therefore relative to the larger of the two.
//
//	result of a dense layer, y = W·x + b                    Σ_k ‖W_·k‖²·‖x_·k‖² + rows·‖b‖²
//	gradients of its weight and bias, Σ_t g_t ⊗ (x_t, 1)    Σ_t ‖g_t‖²·(‖x_t‖² + 1)
//	gradients of a layer norm, Σ_t g_t·(x̂_t, 1)             Σ_t ‖g_t‖²·2
//
// A trace has the rows of one micro-batch and does not mark those of the tokens that heads read
// (bert.Batch.ReadTokens). The formulas treat all rows alike, and the rows of the whole batch like those in the
// trace.
//
// Sources: Higham and Mary 2019, SIAM J. Sci. Comput. 41:A2815, for independent errors of terms; Higham 2002,
// Accuracy and Stability of Numerical Algorithms, section 4.2, for errors of sums in proportion to the terms.
type terms struct {
	step   *train.LockedStep
	traced map[tracedKey][2]values
}

// result is the norm of the terms of an operator's result; 0 if the operator is not a dense layer or its input is
// unknown.
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

// gradient is the norm of the terms of the gradients of all of an operator's parameters; 0 if it is unknown.
func (t *terms) gradient(o bert.Operator) float64 {
	g := t.traced[tracedKey{o.Name, true}][0]
	if g.of == nil || o.Kind == bert.EmbedKind { // those of the embeddings pass through a layer norm first
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

// parameter is the weight or the bias of a dense layer on the first side before the step.
func (t *terms) parameter(name string) ([]float32, bool) {
	p, ok := t.step.Layout.Lookup(name)
	if !ok {
		return nil, false
	}
	return p.Of(t.step.Sides[0].Before), true
}

// input is the input of a dense layer, and the width of its rows.
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
