package costmodel

import "harness.invalid/core/bert"

func (b both) times(f float64) both { return both{b.forward.times(f), b.backward.times(f)} }

// dense are the dense layers of a unit, by the model's table of operators. The projection on the vocabulary is done a
// part at a time.
func (m *model) dense(unit int) both {
	var b both
	for _, o := range m.operators {
		if o.Unit != unit || o.Kind != bert.LinearKind {
			continue
		}
		rows, parts := o.Shape(m.shape())[0], 1
		if o.Site.Op == bert.OpDecoder {
			parts = m.plan.EmbeddingParts
		}
		b = b.plus(m.linear(rows, o.In, ceil(o.Width, parts)).times(float64(parts)))
	}
	return b
}

// shape is that of a micro-batch.
func (m *model) shape() bert.Shape {
	p := &m.program
	return bert.Shape{Size: p.MicroBatch, Length: p.Length, Predictions: p.MaxPredictions, Sequences: p.SequencesPerPack}
}

// layerHalves are the two halves of an encoder layer on a micro-batch: attention, and the feed-forward layer.
func (m *model) layerHalves() (attention, feedForward both) {
	c := &m.program.Model
	B, S, A, D := m.program.MicroBatch, m.program.Length, c.NumAttentionHeads, c.HeadSize()
	hidden, scores := float64(B*S)*float64(c.HiddenSize), float64(B*A)*float64(S)*float64(S)
	a := m.dense(1).plus(m.moved(3 * hidden)) // the first layer is units 1 and 2; heads apart
	qk, pv := m.multiply(B*A, S, D, S), m.multiply(B*A, S, S, D)
	a = a.plus(both{qk.plus(pv), qk.plus(pv.times(3))})
	a = a.plus(m.pointwise(scores, scorePasses+softmaxPasses, scoreGradPasses+softmaxGradPasses))
	if m.packing > 1 {
		a = a.plus(m.pointwise(scores, packedMaskPasses, 0))
	}
	a = a.plus(m.dropout(scores, c.AttentionProbsDropoutProb))
	a = a.plus(m.moved(hidden)).plus(m.residual(hidden)) // heads together
	inner := float64(B*S) * float64(c.IntermediateSize)
	return a, m.dense(2).plus(m.pointwise(inner, geluPasses, geluGradPasses)).plus(m.residual(hidden))
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

// heads are those of the task. Pre-training predicts masked positions only.
func (m *model) heads() both {
	c := &m.program.Model
	B, S, H, V := m.program.MicroBatch, m.program.Length, c.HiddenSize, c.VocabSize
	b := m.dense(m.operators[len(m.operators)-1].Unit)
	switch m.program.Head.Task {
	case bert.QuestionAnswering:
		return b.plus(m.pointwise(float64(B*S*2), softmaxPasses, softmaxGradPasses))
	case bert.TokenClassification:
		hidden, logits := float64(B*S*H), float64(B*S*m.program.Head.Labels)
		return b.plus(m.dropout(hidden, c.HiddenDropoutProb)).plus(m.pointwise(logits, softmaxPasses, softmaxGradPasses))
	case bert.Pretraining:
		rows := float64(B * m.program.MaxPredictions)
		masked, logits := rows*float64(H), rows*float64(V)
		b = b.plus(m.moved(masked)).plus(m.pointwise(masked, geluPasses+normPasses, geluGradPasses+normGradPasses))
		return b.plus(m.pointwise(logits, softmaxPasses, softmaxGradPasses))
	}
	return b
}
