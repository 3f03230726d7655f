package costmodel

import (
	"slices"

	"harness.invalid/core/backend"
	"harness.invalid/core/emulator"
)

// ioTiles move data to and from Streaming Memory while the others compute. Source: graphcore/examples v2.1.0,
// BERT-Large in phases (configs/mk2/phased): io_tiles 192, weights ahead of time, activations on demand.
const ioTiles = 192

// phasedWork is what one IPU does for a micro-batch that goes through all phases and back.
type phasedWork struct {
	load
	once    float64 // seconds for the weights of the first phase, which are still there when the next micro-batch begins
	waiting float64 // seconds for weights that come late
	moving  float64 // seconds for all else that moves
	before  float64 // seconds that the phase before computed
	visits  []backend.Stage
}

// did adds a part to the visit of a phase.
func (w *phasedWork) did(name string, seconds float64) {
	if at := &w.visits[len(w.visits)-1]; seconds > 0 {
		at.Parts = append(at.Parts, backend.Phase{Name: name, Seconds: seconds})
	}
}

// visitPhase adds the visit of a phase.
func (m *model) visitPhase(w *phasedWork, phases []stage, v int, visit emulator.Visit) {
	i, rate := visit.Stage, m.system.Streaming.BytesPerSecond
	s := &phases[i]
	w.visits = append(w.visits, backend.Stage{Name: s.name, Offset: v, Stash: s.stash})
	load := m.gatherSeconds(s)
	if v == 0 {
		w.once = load
	} else {
		wait := max(0, load-w.before)
		w.waiting += wait
		w.did("weights", wait)
	}
	w.before = 0
	compute := func(name string, c cost) {
		w.did(name, m.seconds(c))
		w.before += m.seconds(c)
	}
	move := 0.
	if visit.Forward {
		w.work = w.work.plus(s.forward)
		compute("forward", s.forward)
	}
	if !s.atOnce {
		kept, _ := m.activationBytes(phases, i)
		move = kept / rate // out, or in again
	}
	if visit.Backward {
		w.again = w.again.plus(s.again)
		compute("recomputation", s.again)
		w.work = w.work.plus(s.backward)
		compute("backward", s.backward)
		if m.program.Accumulation > 1 {
			move += 2 * m.phaseParameters(s) * m.format.bytes / rate
		}
	}
	w.moving += move
	w.did("streaming", move)
}

// timePhased puts together the step of phased execution. Every micro-batch goes through all phases and back.
//
// The weights of a phase arrive while the phase before it computes: each replica reads a share from Streaming
// Memory, and a ring distributes the shares. Activations that wait for the backward pass, and sums of gradients over
// micro-batches, move while nothing computes. After the last micro-batch, gradients are reduced and each replica
// updates its share.
func (m *model) timePhased(phases []stage) backend.Estimate {
	var w phasedWork
	for v, visit := range m.plan.Visits() {
		m.visitPhase(&w, phases, v, visit)
	}
	micro, clock := float64(m.program.Accumulation), m.system.Chip.ClockHz
	reduce := m.reduceSeconds(phases)
	if m.plan.Sharded {
		reduce /= 2 // the weights go round when they are wanted
	}
	u := m.deviceUpdate(phases, 0)
	params := m.deviceParameters(phases, 0)
	update := (2*u.bytes + m.format.bytes*params) / m.shards() / m.system.Streaming.BytesPerSecond
	e := backend.Estimate{System: m.system.Name, Breakdown: []backend.Phase{
		{Name: "compute", Seconds: micro * w.work.compute / clock},
		{Name: "exchange", Seconds: micro * w.work.exchange / clock},
		{Name: "sync", Seconds: micro * w.work.supersteps * superstepCycles / clock},
		{Name: "bubble"},
		{Name: "recomputation", Seconds: micro * m.seconds(w.again)},
		{Name: "all_reduce", Seconds: reduce},
		{Name: "optimizer", Seconds: m.updateSeconds(u)},
		{Name: "streaming", Seconds: w.once + micro*(w.waiting+w.moving) + update},
	}}
	e.Breakdown = append(e.Breakdown, m.host()...)
	e.Pipeline = backend.Pipeline{
		Stages: w.visits, Cycles: m.program.Accumulation, Sequential: true,
		CycleSeconds: m.loadSeconds(w.load) + w.waiting + w.moving,
	}
	second := w.once + micro*e.Pipeline.CycleSeconds + reduce
	behind := slices.Clone(e.Breakdown[5:])
	behind[2].Seconds = w.once + update // the rest of streaming is within the cycles
	e.Breakdown = m.withSecond(e.Breakdown, second)
	m.complete(&e, m.withSecond(behind, second))
	return e
}

// phaseParameters are those that a phase works with: the decoder of pre-training has the table of the embeddings.
func (m *model) phaseParameters(s *stage) float64 {
	n := m.stageParameters(s)
	if c := &m.program.Model; m.hasWords(s) {
		n += float64(c.VocabSize) * float64(c.HiddenSize)
	}
	return n
}

// gatherSeconds is the time that the weights of a phase take to arrive.
func (m *model) gatherSeconds(s *stage) float64 {
	bytes := m.phaseParameters(s) * m.format.bytes
	t := bytes / m.shards() / m.system.Streaming.BytesPerSecond
	if m.plan.Sharded {
		t += m.ringSeconds(bytes, 1)
	}
	return t
}

// memoryPhased plans the memory of the one IPU: the most that any phase takes of each kind. The weights of the next
// phase go into the memory of the input and output tiles, or beside it if that is too small.
func (m *model) memoryPhased(phases []stage) []backend.DeviceMemory {
	m.temporaries = 0
	// Phases of layers share their code.
	supersteps := 0.
	for _, i := range []int{0, 1, len(phases) - 1} {
		supersteps += m.stageSupersteps(&phases[i])
	}
	h := m.heldPhased(phases)
	io := max(h.weights, float64(ioTiles*m.chip.SRAMPerTileBytes))
	return []backend.DeviceMemory{m.deviceMemory(0, []backend.MemoryPart{
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
		kept, alive := m.activationBytes(phases, i)
		h.stash, h.live = max(h.stash, kept), max(h.live, alive)
		u := m.stageUpdate(s)
		if m.hasWords(s) {
			u = u.plus(m.updates.words)
		}
		h.state = max(h.state, u.bytes/m.shards())
	}
	h.state += m.asideBytes(h.weights)
	return h
}
