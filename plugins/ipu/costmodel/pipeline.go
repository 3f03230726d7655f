package costmodel

import (
	"fmt"
	"math"
	"slices"

	"harness.invalid/core/backend"
	"harness.invalid/core/emulator"
)

// load is what an IPU does for each micro-batch.
type load struct {
	work  cost // forward and backward
	again cost // recomputation
}

func (m *model) loadSeconds(l load) float64 { return m.seconds(l.work) + m.seconds(l.again) }

// loads are those of all IPUs of a replica, and which is the largest.
func (m *model) loads(stages []stage) (list []load, slowest int) {
	list = make([]load, m.plan.Devices())
	for i := range stages {
		s := &stages[i]
		l := &list[s.Device]
		l.work = l.work.plus(s.forward).plus(s.backward)
		l.again = l.again.plus(s.again)
	}
	for d := range list {
		if m.loadSeconds(list[d]) > m.loadSeconds(list[slowest]) {
			slowest = d
		}
	}
	return list, slowest
}

// time puts the step together.
func (m *model) time(stages []stage) backend.Estimate {
	if m.plan.LayersPerPhase > 0 {
		return m.timePhased(stages)
	}
	clock, micro := m.system.Chip.ClockHz, float64(m.program.Accumulation)
	e := backend.Estimate{System: m.system.Name}
	list, slowest := m.loads(stages)
	copies := m.pipeline(stages, list, slowest, &e.Pipeline)
	inCycles := float64(e.Pipeline.Cycles) * e.Pipeline.CycleSeconds
	reduce := m.reduceSeconds(stages)
	update, streaming := m.updateTimes(stages)
	w, busy := list[slowest].work, m.loadSeconds(list[slowest])
	e.Breakdown = []backend.Phase{
		{Name: "compute", Seconds: micro * w.compute / clock},
		{Name: "exchange", Seconds: micro * (w.exchange/clock + copies)},
		{Name: "sync", Seconds: micro * w.supersteps * superstepCycles / clock},
		{Name: "bubble", Seconds: inCycles - micro*(busy+copies)},
		{Name: "recomputation", Seconds: micro * m.seconds(list[slowest].again)},
		{Name: "all_reduce", Seconds: reduce},
		{Name: "optimizer", Seconds: update},
		{Name: "streaming", Seconds: streaming},
	}
	e.Breakdown = append(e.Breakdown, m.host()...)
	e.Breakdown = m.withSecond(e.Breakdown, inCycles+reduce)
	m.complete(&e, e.Breakdown[5:])
	return e
}

// pipeline lays out the cycles of a step: those of the plan, except that a cycle of the schedule interleaved is two
// of the plan's, one turn each, and one of the schedule sequential is all visits of a micro-batch. It returns the
// seconds of a cycle in which IPUs exchange activations.
func (m *model) pipeline(stages []stage, list []load, slowest int, p *backend.Pipeline) (copies float64) {
	micro, visits := m.program.Accumulation, m.plan.Visits()
	devices := len(list)
	turns := [2][]float64{make([]float64, devices), make([]float64, devices)} // of a cycle with the schedule interleaved
	for v, visit := range visits {
		s := m.visit(stages, v, visit)
		turns[v%2][s.Device] += seconds(s.Parts)
		p.Stages = append(p.Stages, s)
	}
	copies = m.copySeconds(devices)
	switch m.plan.Schedule {
	case emulator.Interleaved:
		// Neighbours take turns: while one goes forward the other goes backward.
		first, second := slices.Max(turns[0]), slices.Max(turns[1])
		for v := range p.Stages {
			p.Stages[v].Offset = v / 2
			if v%2 == 1 {
				p.Stages[v].Start = first + copies
			}
		}
		copies *= 2
		p.Cycles, p.CycleSeconds = m.plan.Cycles(micro)/2, first+second+copies
	case emulator.Sequential:
		p.Cycles, p.CycleSeconds, p.Sequential = micro, copies*float64(len(visits)-1), true
		for _, l := range list {
			p.CycleSeconds += m.loadSeconds(l)
		}
	default:
		p.Cycles, p.CycleSeconds = m.plan.Cycles(micro), m.loadSeconds(list[slowest])+copies
	}
	return copies
}

// visit is the work of a stage on a micro-batch in one cycle of the plan.
func (m *model) visit(stages []stage, v int, visit emulator.Visit) backend.Stage {
	s := &stages[visit.Stage]
	name := fmt.Sprintf("stage %d (%s)", visit.Stage, s.name)
	var parts []backend.Phase
	if visit.Forward {
		parts = append(parts, backend.Phase{Name: "forward", Seconds: m.seconds(s.forward)})
	}
	if visit.Backward {
		if m.recomputes(visit.Stage) {
			parts = append(parts, backend.Phase{Name: "recomputation", Seconds: m.seconds(s.again)})
		}
		parts = append(parts, backend.Phase{Name: "backward", Seconds: m.seconds(s.backward)})
	}
	switch {
	case !visit.Backward:
		name += " forward"
	case !visit.Forward:
		name += " backward"
	}
	return backend.Stage{Name: name, Device: s.Device, Offset: v, Parts: parts, Stash: s.stash}
}

// reduceSeconds is what the ring over the replicas takes for the IPU with most parameters: reduce-scatter, all-gather.
func (m *model) reduceSeconds(stages []stage) float64 {
	params, most := 0., 0
	for d := range m.plan.Layers {
		if n := m.deviceParameters(stages, d); n > params {
			params, most = n, d
		}
	}
	return 2 * m.ringSeconds(params*m.format.bytes, tensorsPerLayer*m.plan.Layers[most]+1)
}

// tensorsPerLayer are reduced one after the other.
const tensorsPerLayer = 16

// complete fills in what follows from the parts of a step and from those of them that come behind the last cycle.
func (m *model) complete(e *backend.Estimate, update []backend.Phase) {
	e.StepSeconds = seconds(e.Breakdown)
	for _, b := range update {
		if b.Seconds > 0 {
			e.Pipeline.Update = append(e.Pipeline.Update, b)
		}
	}
	p := &m.program
	sequences := float64(p.GlobalBatch()) * m.packing
	e.GlobalBatch = int(math.Round(sequences))
	e.SequencesPerSecond = sequences / e.StepSeconds
	flops := 6 * m.forwardMACs * float64(p.Accumulation*p.Replicas)
	if m.probes {
		flops *= 2
	}
	peak := float64(p.Replicas*m.plan.Devices()) * m.system.Chip.PeakFlops() / m.format.slow
	e.PeakShare = flops / (e.StepSeconds * peak)
}

// seconds of parts, one after the other.
func seconds(parts []backend.Phase) float64 {
	sum := 0.
	for _, p := range parts {
		sum += p.Seconds
	}
	return sum
}
