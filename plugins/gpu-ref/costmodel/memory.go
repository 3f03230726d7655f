package costmodel

import (
	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
)

// Memory that nothing of the model takes: context, libraries, and what the allocator can't use.
const overheadBytes = 2 << 30

// memory plans a GPU's memory. Activations of a layer and token are 34 H + 5 A S bytes in FP16 with the masks of
// dropout, of 1 byte each. Source: Korthikanti et al. 2022, arXiv:2205.05198, section 4.1.
func (m *model) memory() []backend.DeviceMemory {
	c := &m.program.Model
	tokens, H, scores := float64(m.program.MicroBatch*m.program.Length), float64(c.HiddenSize), float64(c.NumAttentionHeads*m.program.Length)
	f := m.format.bytes
	layer := tokens * (H*(16*f+2) + scores*(2*f+1))
	activations := layer * float64(c.NumHiddenLayers)
	if m.plan.Checkpointing() {
		activations = tokens*H*f*float64(c.NumHiddenLayers) + layer
	}
	logits := 0.
	if m.program.Head.Task == bert.Pretraining {
		logits = float64(m.program.MicroBatch*m.program.MaxPredictions) * float64(c.VocabSize) * (2*f + 4)
	}
	params := m.parameters()
	return []backend.DeviceMemory{{Device: "GPU", Bytes: m.system.Chip.MemoryBytes, Parts: []backend.MemoryPart{
		{Name: "weights", Bytes: int64(params * m.format.weightBytes)},
		{Name: "gradients", Bytes: int64(params * m.format.weightBytes)},
		{Name: "activations", Bytes: int64(activations)},
		{Name: "logits", Bytes: int64(logits)},
		{Name: "optimizer", Bytes: int64(m.stateBytes())},
		{Name: "overhead", Bytes: overheadBytes},
	}}}
}
