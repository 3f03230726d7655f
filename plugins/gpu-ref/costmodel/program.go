package costmodel

import "harness.invalid/core/bert"

// both is forward and backward of an operator.
type both struct{ forward, backward cost }

func (b both) plus(c both) both { return both{b.forward.plus(c.forward), b.backward.plus(c.backward)} }

func (b both) times(f float64) both { return both{b.forward.times(f), b.backward.times(f)} }

// linear is y = x·Wᵀ + bias. Backward makes the gradients of x and of W, adds the latter to the sum over
// micro-batches, and sums the bias's.
func (m *model) linear(rows, in, out int) both {
	return m.products(m.stored(), rows, in, out).plus(m.rest(rows, in, out))
}

// layerLinear is a linear operator in a layer, whose operands a policy may quantise: its input and its weight before the
// first product, the gradient of its output before the other two.
func (m *model) layerLinear(rows, in, out int) both {
	if m.format.narrow == nil {
		return m.linear(rows, in, out)
	}
	l := m.products(operand{m.format.narrow.bytes, m.narrowFlops}, rows, in, out)
	l = l.plus(both{m.quantise(rows, in).plus(m.quantise(out, in)), m.quantise(rows, out)})
	return l.plus(m.rest(rows, in, out))
}

// products are the three of a linear operator.
func (m *model) products(o operand, rows, in, out int) both {
	return both{m.multiply(o, 1, rows, in, out), m.multiply(o, 1, rows, out, in).plus(m.multiply(o, 1, out, rows, in))}
}

// rest is what a linear operator does besides.
func (m *model) rest(rows, in, out int) both {
	b := m.passes(float64(rows)*float64(out), 1, 1)
	if m.program.Accumulation > 1 {
		b = b.plus(m.passes(float64(in)*float64(out), 3, 1))
	}
	return both{backward: b}
}

// Elements read and written by the kernels of an encoder layer besides matrix products, in NVIDIA's PyTorch code
// (DeepLearningExamples, BERT, modeling.py): bias and GELU are fused, everything else is a kernel of its own. Half an
// element is a mask of bytes.
const (
	scoresForward  = 8.5 // scale 2, mask 2, softmax 2, dropout 2.5
	scoresBackward = 7.5 // dropout 2.5, softmax 3, scale 2
	// residual sum, bias and dropout in front of it, layer norm behind it
	residualForward  = 9.5 // bias 2, dropout 2.5, sum 3, norm 2
	residualBackward = 9.5 // norm 4, dropout 2.5, sum 3
	geluForward      = 2
	geluBackward     = 3
	headsForward     = 8 // bias of query, key, value 2 each, context laid together 2
	headsBackward    = 2
)

// encoderLayer is one layer on a micro-batch of length S.
func (m *model) encoderLayer(S int) both {
	c := &m.program.Model
	B, H, A, I := m.program.MicroBatch, c.HiddenSize, c.NumAttentionHeads, c.IntermediateSize
	rows, D := B*S, c.HeadSize()
	hidden, scores := float64(rows)*float64(H), float64(B*A)*float64(S)*float64(S)
	var l both
	for range 3 {
		l = l.plus(m.layerLinear(rows, H, H))
	}
	qk, pv := m.multiply(m.stored(), B*A, S, D, S), m.multiply(m.stored(), B*A, S, S, D)
	l = l.plus(both{qk.plus(pv), qk.plus(pv.times(3))})
	l = l.plus(both{m.passes(scores, scoresForward, 4), m.passes(scores, scoresBackward, 3)})
	l = l.plus(both{m.passes(hidden, headsForward, 4), m.passes(hidden, headsBackward, 1)})
	l = l.plus(m.layerLinear(rows, H, H)).plus(m.layerLinear(rows, H, I)).plus(m.layerLinear(rows, I, H))
	l = l.plus(both{m.passes(hidden, residualForward, 4), m.passes(hidden, residualBackward, 4)}.times(2))
	inner := float64(rows) * float64(I)
	return l.plus(both{m.passes(inner, geluForward, 1), m.passes(inner, geluBackward, 1)})
}

// outside is everything but the layers: embeddings and heads. Pre-training predicts masked positions only.
func (m *model) outside(S int) both {
	c := &m.program.Model
	B, H, V := m.program.MicroBatch, c.HiddenSize, c.VocabSize
	hidden := float64(B*S) * float64(H)
	b := both{m.passes(hidden, 14, 7), m.passes(hidden, 16, 8)}
	switch m.program.Head.Task {
	case bert.QuestionAnswering:
		return b.plus(m.linear(B*S, H, 2))
	case bert.TokenClassification:
		return b.plus(m.linear(B*S, H, m.program.Head.Labels))
	case bert.Pretraining:
	default:
		return b.plus(m.linear(B, H, H)).plus(m.linear(B, H, max(1, m.program.Head.Labels)))
	}
	rows := B * m.predictions(S)
	masked, logits := float64(rows)*float64(H), float64(rows)*float64(V)
	b = b.plus(m.linear(rows, H, H)).plus(both{m.passes(masked, 6, 3), m.passes(masked, 8, 4)})
	b = b.plus(m.linear(rows, H, V)).plus(both{m.passes(logits, 8, 4), m.passes(logits, 5, 2)})
	return b.plus(m.linear(B, H, H)).plus(m.linear(B, H, 2))
}

// predictions of a sequence of length S: fewer in shorter ones.
func (m *model) predictions(S int) int {
	return max(1, ceil(m.program.MaxPredictions*S, m.program.Length))
}

// forwardMACs are the multiply-adds of a forward pass of the whole model on a micro-batch of length S.
func (m *model) forwardMACs(S int) float64 {
	p := &m.program
	return bert.MultiplyAdds(p.Model, p.Head, bert.Shape{Size: p.MicroBatch, Length: S, Predictions: m.predictions(S)})
}
