package costmodel

import (
	"fmt"

	"harness.invalid/core/backend"
	"harness.invalid/plugins/ipu/execution"
)

// offChip plans the Streaming Memory of each IPU: the optimizer's state where it is not on chip, of which every replica
// keeps its share when tensors are sharded. A step reads the state once and writes it once.
func (m *model) offChip(stages []stage) []backend.DeviceMemory {
	if m.plan.LayersPerPhase > 0 {
		return m.offChipPhased(stages)
	}
	var list []backend.DeviceMemory
	for d := range m.plan.Devices() {
		state := 0.
		if m.plan.State == execution.OffChip {
			state = m.deviceUpdate(stages, d).bytes / m.shards()
		}
		list = append(list, m.streamingMemory(d, []backend.MemoryPart{{Name: "optimizer", Bytes: int64(state)}}, 2*state))
	}
	return list
}

// offChipPhased is offChip in phased execution, where weights live there, and with several micro-batches activations
// that wait and sums of gradients.
func (m *model) offChipPhased(phases []stage) []backend.DeviceMemory {
	params, u := m.deviceParameters(phases, 0), m.deviceUpdate(phases, 0)
	weights, state := m.format.bytes*params/m.shards(), u.bytes/m.shards()
	micro, visits := float64(m.program.Accumulation), map[int]int{}
	waiting, moved := 0., 2*state+weights // read and written by the update, and the new weights
	for _, v := range m.plan.Visits() {
		s := &phases[v.Stage]
		visits[v.Stage]++
		moved += micro * m.phaseParameters(s) * m.format.bytes / m.shards()
		if !s.atOnce {
			kept, _ := m.activationBytes(phases, v.Stage)
			moved += micro * kept
			if visits[v.Stage] == 1 {
				waiting += kept
			}
		}
		if v.Backward && m.program.Accumulation > 1 {
			moved += micro * 2 * m.phaseParameters(s) * m.format.bytes
		}
	}
	sums := 0.
	if m.program.Accumulation > 1 {
		sums = m.format.bytes * params
	}
	return []backend.DeviceMemory{m.streamingMemory(0, []backend.MemoryPart{
		{Name: "weights", Bytes: int64(weights)},
		{Name: "gradients", Bytes: int64(sums)},
		{Name: "activations", Bytes: int64(waiting)},
		{Name: "optimizer", Bytes: int64(state)},
	}, moved)}
}

func (m *model) streamingMemory(device int, parts []backend.MemoryPart, moved float64) backend.DeviceMemory {
	return backend.DeviceMemory{
		Device: fmt.Sprintf("Streaming Memory of IPU %d", device), Bytes: int64(m.system.Streaming.Bytes), Parts: parts, Moved: int64(moved),
	}
}
