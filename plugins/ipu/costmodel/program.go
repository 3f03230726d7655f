package costmodel

import "harness.invalid/core/bert"

func (b both) times(f float64) both { return both{b.forward.times(f), b.backward.times(f)} }

// layerHalves are the two halves of an encoder layer on a micro-batch: attention, and the feed-forward layer.
func (m *model) layerHalves() (attention, feedForward both) {
	c := &m.program.Model
	B, S, H, A, I := m.program.MicroBatch, m.program.Length, c.HiddenSize, c.NumAttentionHeads, c.IntermediateSize
	rows, D := B*S, c.HeadSize()
	hidden, scores := float64(rows)*float64(H), float64(B*A)*float64(S)*float64(S)
	a := m.linear(rows, H, H).times(3) // query, key, value
	a = a.plus(m.moved(3 * hidden))    // heads apart
	qk, pv := m.multiply(B*A, S, D, S), m.multiply(B*A, S, S, D)
	a = a.plus(both{qk.plus(pv), qk.plus(pv.times(3))})
	a = a.plus(m.pointwise(scores, scorePasses+softmaxPasses, scoreGradPasses+softmaxGradPasses))
	if m.packing > 1 {
		a = a.plus(m.pointwise(scores, packedMaskPasses, 0))
	}
	a = a.plus(m.dropout(scores, c.AttentionProbsDropoutProb))
	a = a.plus(m.moved(hidden)) // heads together
	a = a.plus(m.linear(rows, H, H)).plus(m.residual(hidden))
	f := m.linear(rows, H, I).plus(m.pointwise(float64(rows)*float64(I), geluPasses, geluGradPasses))
	return a, f.plus(m.linear(rows, I, H)).plus(m.residual(hidden))
}

// residual is dropout, residual sum and layer norm.
func (m *model) residual(hidden float64) both {
	rest := m.pointwise(hidden, residualPasses+normPasses, residualPasses+normGradPasses)
	return m.dropout(hidden, m.program.Model.HiddenDropoutProb).plus(rest)
}

// embeddings are three lookups, their sum, layer norm and dropout.
func (m *model) embeddings() both {
	c := &m.program.Model
	hidden := float64(m.program.MicroBatch*m.program.Length) * float64(c.HiddenSize)
	b := both{m.move(3 * hidden), m.move(3 * hidden)}
	return b.plus(m.pointwise(hidden, 2*residualPasses, accumulatePasses)).plus(m.residual(hidden))
}

// heads are those of the task. Pre-training predicts masked positions only, and its projection on the vocabulary is
// done a part at a time.
func (m *model) heads() both {
	c := &m.program.Model
	B, S, H, V := m.program.MicroBatch, m.program.Length, c.HiddenSize, c.VocabSize
	var b both
	switch m.program.Head.Task {
	case bert.QuestionAnswering:
		return m.linear(B*S, H, 2).plus(m.pointwise(float64(B*S*2), softmaxPasses, softmaxGradPasses))
	case bert.TokenClassification:
		hidden, logits := float64(B*S*H), float64(B*S*m.program.Head.Labels)
		b = m.dropout(hidden, c.HiddenDropoutProb).plus(m.linear(B*S, H, m.program.Head.Labels))
		return b.plus(m.pointwise(logits, softmaxPasses, softmaxGradPasses))
	case bert.Pretraining:
	default:
		return m.linear(B, H, H).plus(m.linear(B, H, max(1, m.program.Head.Labels)))
	}
	rows := B * m.program.MaxPredictions
	masked, logits := float64(rows)*float64(H), float64(rows)*float64(V)
	b = b.plus(m.moved(masked)).plus(m.linear(rows, H, H)).plus(m.pointwise(masked, geluPasses+normPasses, geluGradPasses+normGradPasses))
	parts := m.plan.EmbeddingParts
	b = b.plus(m.linear(rows, H, ceil(V, parts)).times(float64(parts)))
	b = b.plus(m.pointwise(logits, softmaxPasses, softmaxGradPasses))
	return b.plus(m.linear(B, H, H)).plus(m.linear(B, H, 2))
}
