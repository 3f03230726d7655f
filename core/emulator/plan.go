package emulator

import (
	"fmt"
	"slices"
	"strings"

	"harness.invalid/core/bert"
)

// Plan says where the units of a model run, and when. The trainer executes it, and a model of the machine prices it:
// both read stages, schedule, stashes and recomputation from the methods below. The zero value is the whole model on
// one device, one micro-batch after the other.
//
// A pipeline of F stages works in cycles. At the end of a cycle each stage passes hidden states, or their gradients, to
// its neighbour. A plan changes time and memory, never a bit of the result.
type Plan struct {
	Stages    []Stage // in the model's order, every unit in one of them; none: one stage
	Schedule  Schedule
	Recompute bert.Recompute
}

// Stage is a row of units on a device. The backward pass of the units runs on the same device.
type Stage struct {
	First, End int // units, see bert.Config.Units
	Device     int
}

// Recomputes lists the values of Plan.Recompute.
func Recomputes() []string {
	return []string{string(bert.RecomputeNone), string(bert.RecomputeLayer), string(bert.RecomputeStage)}
}

// Complete fills in the defaults of a plan for a model and a number of micro-batches, or says what is wrong with it.
func (p Plan) Complete(c *bert.Config, accumulation int) (Plan, error) {
	if len(p.Stages) == 0 {
		p.Stages = []Stage{{First: 0, End: c.Units()}}
	}
	if p.Schedule == "" {
		p.Schedule = Grouped
	}
	if p.Recompute == "" {
		p.Recompute = bert.RecomputeNone
	}
	if !slices.Contains(Schedules(), string(p.Schedule)) {
		return p, fmt.Errorf("emulator: schedule %q, want one of %s", p.Schedule, strings.Join(Schedules(), ", "))
	}
	if !slices.Contains(Recomputes(), string(p.Recompute)) {
		return p, fmt.Errorf("emulator: recomputation %q, want one of %s", p.Recompute, strings.Join(Recomputes(), ", "))
	}
	if len(p.Stages) == 1 {
		p.Schedule = Grouped // there is nothing to interleave
	}
	unit := 0
	for i, s := range p.Stages {
		if s.First != unit || s.End <= s.First || s.Device < 0 {
			return p, fmt.Errorf("emulator: stage %d has units %d to %d on device %d, want them to begin at %d",
				i, s.First, s.End, s.Device, unit)
		}
		unit = s.End
	}
	if unit != c.Units() {
		return p, fmt.Errorf("emulator: the stages have %d units, the model has %d", unit, c.Units())
	}
	if least := p.MinAccumulation(); accumulation < least {
		return p, fmt.Errorf("accumulation %d is too small for a %s pipeline of %d stages on %d devices: it holds %d "+
			"micro-batches at a time; the smallest accumulation is %d",
			accumulation, p.Schedule, len(p.Stages), p.Devices(), least, least)
	}
	return p, nil
}

// Devices is the number of devices of a replica.
func (p *Plan) Devices() int {
	n := 1
	for _, s := range p.Stages {
		n = max(n, s.Device+1)
	}
	return n
}

// Again returns the units, first to end, that a stage computes a second time before its backward pass; end is first
// when there are none.
//
// The last stage of a pipeline recomputes nothing: its backward pass follows at once, and all it would free is what it
// needs next. Source: popart, willow/src/transforms/pipeline.cpp (setFinalFwdStageRecomputation). For the same reason
// a model in one stage keeps its last layer and its heads, and recomputes whole layers only.
func (p *Plan) Again(c *bert.Config, stage int) (first, end int) {
	switch last := len(p.Stages) - 1; {
	case p.Recompute == bert.RecomputeNone || p.Recompute == "":
	case stage < last:
		return p.Stages[stage].First, p.Stages[stage].End
	case last <= 0 && p.Recompute == bert.RecomputeLayer:
		return 0, c.Units() - 3
	}
	return 0, 0
}

// recompute is what a stage of a complete plan recomputes.
func (p *Plan) recompute(stage int) bert.Recompute {
	if stage > 0 && stage == len(p.Stages)-1 {
		return bert.RecomputeNone
	}
	return p.Recompute
}
