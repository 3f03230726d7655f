package emulator

import (
	"fmt"
	"slices"
	"strings"

	"harness.invalid/core/bert"
)

// Plan says where the units of a model run, and when. The zero value is the whole model on one device, one micro-batch after the other.
//
// A pipeline of F forward stages works in cycles, at whose end hidden states and their gradients go to the next stage. The stages of the backward pass
// follow those of the forward pass; every stage works on a micro-batch of its own. What a plan changes is time and memory, never a bit of the result.
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

// Schedule says in which cycle a stage takes up a micro-batch. With P stages of both directions, stage s takes micro-batch m in cycle period·m + s.
type Schedule string

// The schedules.
const (
	// Grouped is PopART's: a micro-batch enters every cycle, and the last forward stage and the first backward one are one stage, so P = 2F - 1. Every
	// device works forward and backward in the same cycle.
	Grouped Schedule = "grouped"
	// Interleaved lets a micro-batch enter every second cycle: a stage works forward in one and backward in the next, and fewer activations are kept.
	// P = 2F. Source: tensorflow/python/ipu/ops/pipelining_ops.py.
	Interleaved Schedule = "interleaved"
	// Sequential has one micro-batch in the pipeline at a time; P = 2F - 1.
	Sequential Schedule = "sequential"
)

// Schedules are all of them.
func Schedules() []string { return []string{string(Grouped), string(Interleaved), string(Sequential)} }

// Recomputes are the ways to keep activations.
func Recomputes() []string {
	return []string{string(bert.RecomputeNone), string(bert.RecomputeLayer), string(bert.RecomputeStage)}
}

// timetable is a schedule of F forward stages.
type timetable struct {
	forward int // F
	stages  int // P
	period  int // cycles between two micro-batches
	merged  bool
}

// timetable of a valid plan.
func (p *Plan) timetable() timetable {
	f := max(1, len(p.Stages))
	switch p.Schedule {
	case Interleaved:
		return timetable{forward: f, stages: 2 * f, period: 2}
	case Sequential:
		return timetable{forward: f, stages: 2*f - 1, period: 2*f - 1, merged: true}
	}
	return timetable{forward: f, stages: 2*f - 1, period: 1, merged: true}
}

// work returns the forward stage whose units stage s runs, and in which directions.
func (t *timetable) work(s int) (part int, forward, backward bool) {
	switch {
	case s < t.forward-1:
		return s, true, false
	case s == t.forward-1:
		return s, true, t.merged
	}
	return t.stages - 1 - s, false, true
}

// at returns the micro-batch that stage s has in a cycle, of n; false when it idles.
func (t *timetable) at(cycle, s, n int) (microBatch int, busy bool) {
	d := cycle - s
	if d < 0 || d%t.period != 0 || d/t.period >= n {
		return 0, false
	}
	return d / t.period, true
}

// cycles is the number of cycles for n micro-batches.
func (t *timetable) cycles(n int) int { return t.period*(n-1) + t.stages }

// stash is the number of micro-batches whose activations a forward stage holds at the same time.
func (t *timetable) stash(part int) int { return t.between(part, t.stages-1-part) }

// between is the number of micro-batches that passed stage s and are not yet through stage later.
func (t *timetable) between(s, later int) int { return (later-s)/t.period + 1 }

// MinAccumulation is the smallest number of micro-batches with which all stages of the pipeline are busy at some time: less is refused, as PopART does.
func (p *Plan) MinAccumulation() int {
	t := p.timetable()
	return t.stash(0)
}

// Stash is the number of micro-batches whose activations each forward stage holds at the same time, at most; the last one needs no stash where it goes
// back at once. Source of the depths: popart, willow/src/transforms/pipeline.cpp (getStashSize).
func (p *Plan) Stash() []int {
	t := p.timetable()
	depths := make([]int, t.forward)
	for i := range depths {
		depths[i] = t.stash(i)
	}
	return depths
}

// complete returns the plan with its defaults, or says what is wrong with it.
func (p Plan) complete(c *bert.Config, accumulation int) (Plan, error) {
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
	unit := 0
	for i, s := range p.Stages {
		if s.First != unit || s.End <= s.First || s.Device < 0 {
			return p, fmt.Errorf("emulator: stage %d has units %d to %d on device %d, want them to begin at %d", i, s.First, s.End, s.Device, unit)
		}
		unit = s.End
	}
	if unit != c.Units() {
		return p, fmt.Errorf("emulator: the stages have %d units, the model has %d", unit, c.Units())
	}
	if least := p.MinAccumulation(); accumulation < least {
		return p, fmt.Errorf("accumulation %d is too small for a %s pipeline of %d stages on %d devices: %d micro-batches are in it at the same time; the smallest accumulation is %d",
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
