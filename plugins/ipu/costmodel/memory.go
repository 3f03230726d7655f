package costmodel

import (
	"fmt"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
)

// Code of a tile: the library of codelets and the control program, and what each superstep of a layer adds for vertices and exchange. Layers share
// their code. No figure is published; these make an eighth of the memory for BERT-Large, in line with what published configurations leave over.
const (
	codeBytesPerTile      = 32 << 10
	codeBytesPerSuperstep = 256
)

// memory is the plan of each IPU's memory: what is always there, and the most that is there at one time.
func (m *model) memory(stages []stage) []backend.DeviceMemory {
	if m.settings.LayersPerPhase > 0 {
		return m.memoryPhased(stages)
	}
	var list []backend.DeviceMemory
	for d := range m.settings.LayersPerIPU {
		m.device, m.temporaries = d, 0
		supersteps := 0.
		for i := range stages {
			if stages[i].device == d {
				supersteps += m.stageSupersteps(&stages[i])
			}
		}
		h := m.held(stages, d)
		list = append(list, m.plan(d, []backend.MemoryPart{
			{Name: "weights", Bytes: int64(h.weights)},
			{Name: "gradients", Bytes: int64(h.weights)},
			{Name: "stash", Bytes: int64(h.stash)},
			{Name: "activations", Bytes: int64(h.live)},
			{Name: "temporaries", Bytes: int64(m.temporaries * float64(m.chip.Tiles))},
			{Name: "optimizer", Bytes: int64(h.state)},
			{Name: "code", Bytes: int64(m.codeBytes(supersteps))},
		}))
	}
	return list
}

// held are bytes of an IPU that do not depend on how its products are computed; there are as many gradients as weights.
type held struct {
	weights, stash, live, state float64
}

func (h held) total() float64 { return 2*h.weights + h.stash + h.live + h.state }

func (m *model) held(stages []stage, device int) held {
	var h held
	for i := range stages {
		if s := &stages[i]; s.device == device {
			kept, alive := m.activationBytes(s)
			h.stash += float64(s.stash) * kept
			h.live = max(h.live, alive)
		}
	}
	params := m.parameters(stages, device)
	h.weights = params * m.format.bytes
	if m.settings.State == OnChip {
		h.state = m.deviceUpdate(stages, device).bytes / m.shards()
	}
	h.state += m.asideBytes(h.weights)
	return h
}

// plan is what lies in the memory of an IPU.
func (m *model) plan(device int, parts []backend.MemoryPart) backend.DeviceMemory {
	return backend.DeviceMemory{Device: fmt.Sprintf("IPU %d", device), Bytes: m.system.Chip.SRAMBytes(), Parts: parts}
}

// codeBytes are those of the code on all tiles.
func (m *model) codeBytes(supersteps float64) float64 {
	return (codeBytesPerTile + codeBytesPerSuperstep*supersteps) * float64(m.chip.Tiles)
}

// activationBytes are what a stage keeps of each micro-batch that waits for its backward pass, and the most that it has of the one that it works on: a
// layer with its scores when layers are recomputed, all layers otherwise. Both ends of the stage lie in buffers besides.
func (m *model) activationBytes(s *stage) (kept, alive float64) {
	c := &m.program.Model
	B, S := float64(m.program.MicroBatch), float64(m.program.Length)
	hidden := B * S * float64(c.HiddenSize) * m.format.bytes
	scores := B * float64(c.NumAttentionHeads) * S * S * m.format.bytes
	layers := float64(s.attention+s.feedForward) / 2
	all := layers * m.layerActivationBytes()
	switch {
	case layers == 0:
		kept, alive = hidden, hidden
	case !s.recompute:
		kept, alive = all, all
	case m.settings.Recompute == LayerRecompute:
		kept, alive = layers*hidden, m.layerActivationBytes()+scores
		if s.embeddings {
			kept += hidden
		}
	default:
		kept, alive = hidden, all
	}
	alive += 2 * hidden
	if s.head && m.program.Head.Task == bert.Pretraining {
		// Logits, probabilities and their gradients.
		alive = max(alive, 3*B*float64(m.program.MaxPredictions)*float64(c.VocabSize)*m.format.bytes/float64(max(1, m.settings.EmbeddingParts)))
	}
	return kept, alive
}

// stageSupersteps are those of a stage's different operators: layers share theirs.
func (m *model) stageSupersteps(s *stage) float64 {
	var b both
	attention, feedForward := m.layerHalves()
	if s.attention > 0 {
		b = b.plus(attention)
	}
	if s.feedForward > 0 {
		b = b.plus(feedForward)
	}
	if s.embeddings {
		b = b.plus(m.embeddings())
	}
	if s.head {
		b = b.plus(m.heads())
	}
	return b.forward.supersteps + b.backward.supersteps
}

// layerActivationBytes is what a layer keeps for its backward pass: input, query, key, value, context and two norms' inputs and outputs, the
// feed-forward layer before and after GELU, and the probabilities of attention. Dropout masks are drawn again from
// their seeds.
func (m *model) layerActivationBytes() float64 {
	c := &m.program.Model
	B, S := float64(m.program.MicroBatch), float64(m.program.Length)
	return B * S * (8*float64(c.HiddenSize) + 2*float64(c.IntermediateSize) + float64(c.NumAttentionHeads)*S) * m.format.bytes
}
