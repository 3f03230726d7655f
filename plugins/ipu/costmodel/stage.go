package costmodel

import (
	"fmt"

	"harness.invalid/core/bert"
	"harness.invalid/core/emulator"
)

// stage is a stage of the plan with what it takes for a micro-batch.
type stage struct {
	emulator.Stage
	name              string
	units             units
	forward, backward cost
	again             cost // of the forward pass, before the backward pass
	stash             int  // micro-batches whose activations it holds, the one that it works on included
	atOnce            bool // the backward pass follows the forward pass at once
}

// units counts the units of each kind in a range.
type units struct{ embeddings, attention, feedForward, heads int }

func (m *model) unitsIn(first, end int) units {
	var n units
	for u := first; u < end; u++ {
		switch {
		case u == 0:
			n.embeddings++
		case u == m.program.Model.Units()-1:
			n.heads++
		case u%2 == 1:
			n.attention++
		default:
			n.feedForward++
		}
	}
	return n
}

// layers is the number of encoder layers, in halves.
func (n units) layers() float64 { return float64(n.attention+n.feedForward) / 2 }

// stages are those of the plan, with their work.
func (m *model) stages() []stage {
	list := m.cut()
	for i := range list {
		s := &list[i]
		m.device = s.Device
		b := m.work(s.units)
		s.forward, s.backward = b.forward, b.backward
		if first, end := m.plan.Again(&m.program.Model, i); end > first {
			s.again = m.work(m.unitsIn(first, end)).forward
		}
	}
	return list
}

// cut are the stages of the plan without their work.
func (m *model) cut() []stage {
	stash := m.plan.Stash()
	list := make([]stage, len(m.plan.Stages))
	for i, s := range m.plan.Stages {
		n := m.unitsIn(s.First, s.End)
		list[i] = stage{Stage: s, units: n, stash: stash[i], name: m.stageName(s, n)}
	}
	for _, v := range m.plan.Visits() {
		list[v.Stage].atOnce = v.Forward && v.Backward || list[v.Stage].atOnce
	}
	return list
}

func (m *model) stageName(s emulator.Stage, n units) string {
	switch {
	case n == units{heads: 1}:
		return "heads"
	case m.plan.LayersPerPhase == 0:
		return fmt.Sprintf("IPU %d", s.Device)
	case n == units{embeddings: 1}:
		return "embeddings"
	}
	first := (s.First - 1) / 2
	return fmt.Sprintf("layers %d to %d", first, first+n.attention-1)
}

// recomputes reports whether a stage computes anything again.
func (m *model) recomputes(i int) bool {
	first, end := m.plan.Again(&m.program.Model, i)
	return end > first
}

// work of units on a micro-batch.
func (m *model) work(n units) both {
	attention, feedForward := m.layerHalves()
	b := attention.times(float64(n.attention)).plus(feedForward.times(float64(n.feedForward)))
	if n.embeddings > 0 {
		b = b.plus(m.embeddings())
	}
	if n.heads > 0 {
		b = b.plus(m.heads())
	}
	return b
}

// stageParameters are those of a stage; the decoder of pre-training has the table of the embeddings.
func (m *model) stageParameters(s *stage) float64 {
	var n float64
	for u := s.First; u < s.End; u++ {
		n += m.updates.units[u].params
	}
	return n
}

// deviceParameters are those of all stages on a device.
func (m *model) deviceParameters(stages []stage, device int) float64 {
	var n float64
	for i := range stages {
		if stages[i].Device == device {
			n += m.stageParameters(&stages[i])
		}
	}
	return n
}

// hasWords reports whether a stage has the decoder of the masked LM, which reads the table of the embeddings.
func (m *model) hasWords(s *stage) bool {
	return s.units.heads > 0 && m.program.Head.Task == bert.Pretraining
}
