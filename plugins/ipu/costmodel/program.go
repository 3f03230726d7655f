package costmodel

import (
	"fmt"

	"harness.invalid/core/bert"
)

// stage is a run of operators on one IPU: the embeddings, some layers, the heads.
type stage struct {
	name       string
	device     int
	embeddings bool
	// attention and feedForward are the numbers of halves of layers.
	attention, feedForward int
	head                   bool
	forward, backward      cost
	recompute              bool // the forward pass is done again before the backward pass
	stash                  int  // micro-batches that wait for the backward pass
}

// stages are the model's in order, with their work.
func (m *model) stages() []stage {
	list := m.cut()
	for i := range list {
		m.work(&list[i])
	}
	return list
}

// cut cuts the model into stages of layers, without their work. Pre-training's heads share the table of word embeddings and so are a last stage on the IPU
// that has it; other heads follow the last layer. The last stage goes forward and backward in one, and nothing of it is recomputed.
func (m *model) cut() []stage {
	if m.settings.LayersPerPhase > 0 {
		return m.phases()
	}
	var list []stage
	half := 0
	for i, n := range m.settings.LayersPerIPU {
		s := stage{device: i, embeddings: i == 0, name: fmt.Sprintf("IPU %d", i)}
		for range int(2 * n) {
			if half%2 == 0 {
				s.attention++
			} else {
				s.feedForward++
			}
			half++
		}
		list = append(list, s)
	}
	if m.program.Head.Task == bert.Pretraining && len(list) > 1 {
		list = append(list, stage{device: 0, name: "heads"})
	}
	last := len(list) - 1
	list[last].head = true
	for i := range list {
		s := &list[i]
		if i < last {
			s.recompute = m.settings.Recompute != NoRecompute
			switch m.settings.Schedule {
			case Sequential:
				s.stash = 1
			case Interleaved:
				s.stash = len(list) - i
			default:
				s.stash = 2*(last-i) + 1
			}
		} else if len(list) == 1 {
			s.recompute = m.settings.Recompute != NoRecompute
		} else if m.settings.Schedule == Interleaved {
			s.stash = 1 // its backward pass is a turn of its own
		}
	}
	return list
}

// work fills in what a stage takes for a micro-batch.
func (m *model) work(s *stage) {
	m.device = s.device
	attention, feedForward := m.layerHalves()
	b := attention.times(float64(s.attention)).plus(feedForward.times(float64(s.feedForward)))
	if s.embeddings {
		b = b.plus(m.embeddings())
	}
	if s.head {
		b = b.plus(m.heads())
	}
	s.forward, s.backward = b.forward, b.backward
}

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
	return m.dropout(hidden, m.program.Model.HiddenDropoutProb).plus(m.pointwise(hidden, residualPasses+normPasses, residualPasses+normGradPasses))
}

// embeddings are three lookups, their sum, layer norm and dropout.
func (m *model) embeddings() both {
	c := &m.program.Model
	hidden := float64(m.program.MicroBatch*m.program.Length) * float64(c.HiddenSize)
	b := both{m.move(3 * hidden), m.move(3 * hidden)}
	return b.plus(m.pointwise(hidden, 2*residualPasses, accumulatePasses)).plus(m.residual(hidden))
}

// heads are those of the task. Pre-training predicts masked positions only, and its projection on the vocabulary is done a part at a time.
func (m *model) heads() both {
	c := &m.program.Model
	B, S, H, V := m.program.MicroBatch, m.program.Length, c.HiddenSize, c.VocabSize
	var b both
	switch m.program.Head.Task {
	case bert.QuestionAnswering:
		return m.linear(B*S, H, 2).plus(m.pointwise(float64(B*S*2), softmaxPasses, softmaxGradPasses))
	case bert.Pretraining:
	default:
		return m.linear(B, H, H).plus(m.linear(B, H, max(1, m.program.Head.Labels)))
	}
	rows := B * m.program.MaxPredictions
	masked, logits := float64(rows)*float64(H), float64(rows)*float64(V)
	b = b.plus(m.moved(masked)).plus(m.linear(rows, H, H)).plus(m.pointwise(masked, geluPasses+normPasses, geluGradPasses+normGradPasses))
	parts := max(1, m.settings.EmbeddingParts)
	b = b.plus(m.linear(rows, H, ceil(V, parts)).times(float64(parts)))
	b = b.plus(m.pointwise(logits, softmaxPasses, softmaxGradPasses))
	return b.plus(m.linear(B, H, H)).plus(m.linear(B, H, 2))
}

// forwardMACs are the multiply-adds of a forward pass of the whole model on a micro-batch.
func (m *model) forwardMACs() float64 {
	c := &m.program.Model
	B, S, H, I := float64(m.program.MicroBatch), float64(m.program.Length), float64(c.HiddenSize), float64(c.IntermediateSize)
	layer := B * S * (4*H*H + 2*H*I + 2*S*H)
	macs := layer * float64(c.NumHiddenLayers)
	if m.program.Head.Task == bert.Pretraining {
		macs += B*float64(m.program.MaxPredictions)*H*(H+float64(c.VocabSize)) + B*H*H
	}
	return macs
}

// attentionParameters and feedForwardParameters are those of the halves of a layer, embeddingParameters those of the tables and their norm,
// headParameters those of the heads that are not tied.
func attentionParameters(c *bert.Config) float64 {
	H := float64(c.HiddenSize)
	return 4*(H*H+H) + 2*H
}

func feedForwardParameters(c *bert.Config) float64 {
	H, I := float64(c.HiddenSize), float64(c.IntermediateSize)
	return 2*H*I + I + H + 2*H
}

func embeddingParameters(c *bert.Config) float64 {
	return float64(c.VocabSize+c.MaxPositionEmbeddings+c.TypeVocabSize+2) * float64(c.HiddenSize)
}

func headParameters(c *bert.Config, h bert.Head) float64 {
	H := float64(c.HiddenSize)
	switch h.Task {
	case bert.QuestionAnswering:
		return 2*H + 2
	case bert.Pretraining:
		return 2*(H*H+H) + 2*H + float64(c.VocabSize) + 2*H + 2
	}
	return H*H + H + float64(h.Labels)*(H+1)
}

// parameters of a device.
func (m *model) parameters(stages []stage, device int) float64 {
	var n float64
	for i := range stages {
		if stages[i].device == device {
			n += m.stageParameters(&stages[i])
		}
	}
	return n
}

// stageParameters are those of a stage; the decoder of pre-training has the table of the embeddings.
func (m *model) stageParameters(s *stage) float64 {
	c := &m.program.Model
	n := float64(s.attention)*attentionParameters(c) + float64(s.feedForward)*feedForwardParameters(c)
	if s.embeddings {
		n += embeddingParameters(c)
	}
	if s.head {
		n += headParameters(c, m.program.Head)
	}
	return n
}
