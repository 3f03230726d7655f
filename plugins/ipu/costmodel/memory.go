package costmodel

import (
	"fmt"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/plugins/ipu/execution"
)

// Code of a tile: the library of codelets and the control program, and what each superstep of a layer adds for
// vertices and exchange. Layers share their code. No figure is published; these make an eighth of the memory for
// BERT-Large, in line with what published configurations leave over.
const (
	codeBytesPerTile      = 32 << 10
	codeBytesPerSuperstep = 256
)

// memory plans the memory of each IPU: what is always there, and the most that is there at one time.
func (m *model) memory(stages []stage) []backend.DeviceMemory {
	if m.plan.LayersPerPhase > 0 {
		return m.memoryPhased(stages)
	}
	var list []backend.DeviceMemory
	for d := range m.plan.Devices() {
		m.device, m.temporaries = d, 0
		supersteps := 0.
		for i := range stages {
			if stages[i].Device == d {
				supersteps += m.stageSupersteps(&stages[i])
			}
		}
		h := m.held(stages, d)
		list = append(list, m.deviceMemory(d, []backend.MemoryPart{
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

// held counts the bytes of an IPU that do not depend on how its products are computed; gradients take as much as
// weights.
type held struct {
	weights, stash, live, state float64
}

func (h held) total() float64 { return 2*h.weights + h.stash + h.live + h.state }

func (m *model) held(stages []stage, device int) held {
	var h held
	for i := range stages {
		if s := &stages[i]; s.Device == device {
			kept, alive := m.activationBytes(stages, i)
			switch {
			case !s.atOnce:
				h.stash += float64(s.stash) * kept
			case m.recomputes(i):
				alive += kept // nothing waits, but the inputs of all layers are kept
			}
			h.live = max(h.live, alive)
		}
	}
	h.weights = m.deviceParameters(stages, device) * m.format.bytes
	if m.plan.State == execution.OnChip {
		h.state = m.deviceUpdate(stages, device).bytes / m.shards()
	}
	h.state += m.asideBytes(h.weights)
	return h
}

// deviceMemory is what lies in the memory of an IPU.
func (m *model) deviceMemory(device int, parts []backend.MemoryPart) backend.DeviceMemory {
	return backend.DeviceMemory{Device: fmt.Sprintf("IPU %d", device), Bytes: m.system.Chip.SRAMBytes(), Parts: parts}
}

// codeBytes are those of the code on all tiles.
func (m *model) codeBytes(supersteps float64) float64 {
	return (codeBytesPerTile + codeBytesPerSuperstep*supersteps) * float64(m.chip.Tiles)
}

// activationBytes are what a stage keeps of each micro-batch that waits for its backward pass, and the most that it
// has of the one that it works on: a layer with its scores when layers are recomputed, all layers otherwise. Both
// ends of the stage lie in buffers besides.
func (m *model) activationBytes(stages []stage, i int) (kept, alive float64) {
	s, c := &stages[i], &m.program.Model
	B, S := float64(m.program.MicroBatch), float64(m.program.Length)
	hidden := B * S * float64(c.HiddenSize) * m.format.bytes
	scores := B * float64(c.NumAttentionHeads) * S * S * m.format.bytes
	layers := s.units.layers()
	all := layers * m.layerActivationBytes()
	switch {
	case layers == 0:
		kept, alive = hidden, hidden
	case !m.recomputes(i):
		kept, alive = all, all
	case m.plan.Recompute == bert.RecomputeLayer:
		kept, alive = layers*hidden, m.layerActivationBytes()+scores
		if s.units.embeddings > 0 {
			kept += hidden
		}
	default:
		kept, alive = hidden, all
	}
	alive += 2 * hidden
	if m.hasWords(s) {
		// Logits, probabilities and their gradients.
		logits := 3 * B * float64(m.program.MaxPredictions) * float64(c.VocabSize) * m.format.bytes
		alive = max(alive, logits/float64(m.plan.EmbeddingParts))
	}
	return kept, alive
}

// stageSupersteps counts the supersteps of a stage's different operators; layers share theirs.
func (m *model) stageSupersteps(s *stage) float64 {
	n := s.units
	b := m.work(units{min(n.embeddings, 1), min(n.attention, 1), min(n.feedForward, 1), min(n.heads, 1)})
	return b.forward.supersteps + b.backward.supersteps
}

// layerActivationBytes is what a layer keeps for its backward pass: input, query, key, value, context and two norms'
// inputs and outputs, the feed-forward layer before and after GELU, and the probabilities of attention. Dropout masks
// are drawn again from their seeds.
func (m *model) layerActivationBytes() float64 {
	c := &m.program.Model
	B, S := float64(m.program.MicroBatch), float64(m.program.Length)
	return B * S * (8*float64(c.HiddenSize) + 2*float64(c.IntermediateSize) + float64(c.NumAttentionHeads)*S) * m.format.bytes
}
