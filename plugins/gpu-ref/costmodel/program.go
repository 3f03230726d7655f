package costmodel

import "harness.invalid/core/bert"

// both is forward and backward of an operator.
type both struct{ forward, backward cost }

func (b both) plus(c both) both { return both{b.forward.plus(c.forward), b.backward.plus(c.backward)} }

func (b both) times(f float64) both { return both{b.forward.times(f), b.backward.times(f)} }

// together is one operator after the other.
func together(parts ...both) both {
	var b both
	for _, p := range parts {
		b = b.plus(p)
	}
	return b
}

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

// elementwise is a group of kernels that multiply no matrices: how many elements they read and write for each element of
// their tensor, and how many kernels they are.
type elementwise struct {
	forward, backward struct{ moved, kernels float64 }
}

// The groups of NVIDIA's PyTorch code (DeepLearningExamples, BERT, modeling.py), in which bias and GELU are fused and
// everything else is a kernel of its own. Half an element is a mask of bytes.
var (
	// forward: scale 2, mask 2, softmax 2, dropout 2.5; backward: dropout 2.5, softmax 3, scale 2
	attentionScores = group(8.5, 4, 7.5, 3)
	// forward: bias of query, key, value 2 each, context laid together 2
	heads = group(8, 4, 2, 1)
	// residual sum, with bias and dropout in front of it and a layer norm behind it; forward: bias 2, dropout 2.5, sum 3,
	// norm 2; backward: norm 4, dropout 2.5, sum 3
	residual   = group(9.5, 4, 9.5, 4)
	gelu       = group(2, 1, 3, 1)
	embeddings = group(14, 7, 16, 8)
	// GELU and layer norm of the masked LM head, and the loss over its logits
	masked = group(6, 3, 8, 4)
	logits = group(8, 4, 5, 2)
)

func group(forward, forwardKernels, backward, backwardKernels float64) (e elementwise) {
	e.forward.moved, e.forward.kernels = forward, forwardKernels
	e.backward.moved, e.backward.kernels = backward, backwardKernels
	return e
}

// over prices a group over a tensor of rows · columns elements.
func (m *model) over(e elementwise, rows, columns int) both {
	n := float64(rows) * float64(columns)
	return both{m.passes(n, e.forward.moved, e.forward.kernels), m.passes(n, e.backward.moved, e.backward.kernels)}
}

// attention is softmax(q·kᵀ)·v in a layer. Of the four products of its backward pass, one has the shape of q·kᵀ and three
// that of the product with v.
func (m *model) attention(S int) both {
	c := &m.program.Model
	heads, D := m.program.MicroBatch*c.NumAttentionHeads, c.HeadSize()
	qk, pv := m.multiply(m.stored(), heads, S, D, S), m.multiply(m.stored(), heads, S, S, D)
	return both{qk.plus(pv), qk.plus(pv.times(3))}.plus(m.over(attentionScores, heads*S, S))
}

// encoderLayer is one layer on a micro-batch of length S.
func (m *model) encoderLayer(S int) both {
	rows, H, I := m.program.MicroBatch*S, m.program.Model.HiddenSize, m.program.Model.IntermediateSize
	return together(
		m.layerLinear(rows, H, H).times(3), // query, key, value
		m.attention(S),
		m.over(heads, rows, H),
		m.layerLinear(rows, H, H),
		m.over(residual, rows, H),
		m.layerLinear(rows, H, I),
		m.over(gelu, rows, I),
		m.layerLinear(rows, I, H),
		m.over(residual, rows, H),
	)
}

// outside is everything but the layers: embeddings and heads. Pre-training predicts masked positions only.
func (m *model) outside(S int) both {
	B, H, V, labels := m.program.MicroBatch, m.program.Model.HiddenSize, m.program.Model.VocabSize, m.program.Head.Labels
	input, pooler := m.over(embeddings, B*S, H), m.linear(B, H, H)
	switch m.program.Head.Task {
	case bert.QuestionAnswering:
		return together(input, m.linear(B*S, H, 2))
	case bert.TokenClassification:
		return together(input, m.linear(B*S, H, labels))
	case bert.Pretraining:
		rows := B * m.predictions(S)
		return together(
			input,
			m.linear(rows, H, H), m.over(masked, rows, H),
			m.linear(rows, H, V), m.over(logits, rows, V),
			pooler, m.linear(B, H, 2),
		)
	default:
		return together(input, pooler, m.linear(B, H, max(1, labels)))
	}
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
