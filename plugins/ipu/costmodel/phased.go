package costmodel

import (
	"fmt"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
)

// ioTiles move data to and from Streaming Memory while the others compute. Source: graphcore/examples v2.1.0, BERT-Large in phases
// (configs/mk2/phased): io_tiles 192, weights ahead of time, activations on demand.
const ioTiles = 192

// phases cut the model for one IPU that goes through it a phase at a time: the embeddings, so many layers each, the heads. The heads go forward and
// backward in one; what the others keep for the backward pass waits in Streaming Memory.
func (m *model) phases() []stage {
	list := []stage{{name: "embeddings", embeddings: true}}
	layers := m.program.Model.NumHiddenLayers
	for first := 0; first < layers; first += m.settings.LayersPerPhase {
		n := min(m.settings.LayersPerPhase, layers-first)
		list = append(list, stage{name: fmt.Sprintf("layers %d to %d", first, first+n-1), attention: n, feedForward: n})
	}
	list = append(list, stage{name: "heads", head: true})
	for i := range list {
		list[i].recompute = m.settings.Recompute != NoRecompute && i < len(list)-1
	}
	return list
}

// timePhased puts the step together where phases follow each other. Every micro-batch goes through all of them and back.
//
// The weights of a phase come while the one before it computes: from Streaming Memory, each replica a share, and then round the ring. Activations that wait
// for the backward pass, and sums of gradients over micro-batches, move while nothing computes. Behind the last micro-batch gradients are reduced and
// each replica updates its share.
func (m *model) timePhased(phases []stage) backend.Estimate {
	e := backend.Estimate{System: m.system.Name}
	micro, rate := float64(m.program.Accumulation), m.system.Streaming.BytesPerSecond
	last := len(phases) - 1
	var work, again cost
	var once float64            // seconds for the weights of the first phase: they are still there when the next micro-batch begins
	var waiting, moving float64 // seconds of a micro-batch for weights that come late, and for all else that moves
	var before float64          // seconds that the phase before computed
	for visit := range 2*len(phases) - 1 {
		i := min(visit, 2*last-visit)
		s := &phases[i]
		kept, _ := m.activationBytes(s)
		stage := backend.Stage{Name: s.name, Offset: visit}
		did := func(name string, seconds float64) {
			if seconds > 0 {
				stage.Parts = append(stage.Parts, backend.Phase{Name: name, Seconds: seconds})
			}
		}
		load := m.gatherSeconds(s)
		if visit == 0 {
			once = load
		} else {
			wait := max(0, load-before)
			waiting += wait
			did("weights", wait)
		}
		move := 0.
		before = 0
		compute := func(name string, c cost) {
			did(name, m.seconds(c))
			before += m.seconds(c)
		}
		if visit <= last {
			work = work.plus(s.forward)
			compute("forward", s.forward)
		}
		if i < last {
			move = kept / rate // out, or in again
		}
		if visit >= last {
			if s.recompute {
				again = again.plus(s.forward)
				compute("recomputation", s.forward)
			}
			work = work.plus(s.backward)
			compute("backward", s.backward)
			if m.program.Accumulation > 1 {
				move += 2 * m.phaseParameters(s) * m.format.bytes / rate
			}
		}
		moving += move
		did("streaming", move)
		e.Pipeline.Stages = append(e.Pipeline.Stages, stage)
	}
	params, tensors := m.parameters(phases, 0), 16*float64(m.program.Model.NumHiddenLayers)+1
	reduce := 2 * m.ringSeconds(params*m.format.bytes, tensors)
	if !m.settings.Unsharded {
		reduce /= 2 // the weights go round when they are wanted
	}
	u := m.deviceUpdate(phases, 0)
	update := (2*u.bytes + m.format.bytes*params) / m.shards() / rate
	clock := m.system.Chip.ClockHz
	e.Breakdown = []backend.Phase{
		{Name: "compute", Seconds: micro * work.compute / clock},
		{Name: "exchange", Seconds: micro * work.exchange / clock},
		{Name: "sync", Seconds: micro * work.supersteps * superstepCycles / clock},
		{Name: "bubble"},
		{Name: "recomputation", Seconds: micro * m.seconds(again)},
		{Name: "all_reduce", Seconds: reduce},
		{Name: "optimizer", Seconds: m.updateSeconds(u)},
		{Name: "streaming", Seconds: once + micro*(waiting+moving) + update},
		{Name: "host_io", Seconds: m.hostSeconds()},
	}
	e.Pipeline.Cycles, e.Pipeline.Sequential = m.program.Accumulation, true
	e.Pipeline.CycleSeconds = m.seconds(work) + m.seconds(again) + waiting + moving
	second := once + micro*e.Pipeline.CycleSeconds + reduce
	behind := []backend.Phase{e.Breakdown[5], e.Breakdown[6], {Name: "streaming", Seconds: once + update}, e.Breakdown[8]}
	e.Breakdown = m.withSecond(e.Breakdown, second)
	m.complete(&e, 1, m.withSecond(behind, second))
	return e
}

// phaseParameters are those that a phase works with: the decoder of pre-training has the table of the embeddings.
func (m *model) phaseParameters(s *stage) float64 {
	n := m.stageParameters(s)
	if c := &m.program.Model; s.head && m.program.Head.Task == bert.Pretraining {
		n += float64(c.VocabSize) * float64(c.HiddenSize)
	}
	return n
}

// gatherSeconds is what the weights of a phase take to come.
func (m *model) gatherSeconds(s *stage) float64 {
	bytes := m.phaseParameters(s) * m.format.bytes
	t := bytes / m.shards() / m.system.Streaming.BytesPerSecond
	if !m.settings.Unsharded {
		t += m.ringSeconds(bytes, 1)
	}
	return t
}

// memoryPhased is the plan of the memory of the one IPU: the most that a phase takes of each kind. The weights of the next phase come into the memory of
// the tiles for input and output, or, when that is too small, beside.
func (m *model) memoryPhased(phases []stage) []backend.DeviceMemory {
	m.temporaries = 0
	// Phases of layers share their code.
	supersteps := 0.
	for _, i := range []int{0, 1, len(phases) - 1} {
		supersteps += m.stageSupersteps(&phases[i])
	}
	h := m.heldPhased(phases)
	io := max(h.weights, float64(ioTiles*m.chip.SRAMPerTileBytes))
	return []backend.DeviceMemory{m.plan(0, []backend.MemoryPart{
		{Name: "weights", Bytes: int64(h.weights)},
		{Name: "gradients", Bytes: int64(h.weights)},
		{Name: "stash", Bytes: int64(h.stash)},
		{Name: "activations", Bytes: int64(h.live)},
		{Name: "temporaries", Bytes: int64(m.temporaries * float64(m.chip.Tiles))},
		{Name: "optimizer", Bytes: int64(h.state)},
		{Name: "code", Bytes: int64(m.codeBytes(supersteps))},
		{Name: "input and output", Bytes: int64(io)},
	})}
}

// heldPhased is held of the one IPU.
func (m *model) heldPhased(phases []stage) held {
	var h held
	for i := range phases {
		s := &phases[i]
		h.weights = max(h.weights, m.phaseParameters(s)*m.format.bytes)
		kept, alive := m.activationBytes(s)
		h.stash, h.live = max(h.stash, kept), max(h.live, alive)
		u := m.stageUpdate(s)
		if s.head && m.program.Head.Task == bert.Pretraining {
			u = u.plus(m.updates[wordsUpdate])
		}
		h.state = max(h.state, u.bytes/m.shards())
	}
	h.state += m.asideBytes(h.weights)
	return h
}
