package emulator

// Schedule says when a stage takes up a micro-batch. A micro-batch makes P visits, one per stage and direction; visit v
// of micro-batch m is in cycle period·m + v.
type Schedule string

// The schedules.
const (
	// Grouped is PopART's: a micro-batch enters every cycle. The last stage goes forward and backward in one visit, so
	// P = 2F - 1. Every device works in both directions in the same cycle.
	Grouped Schedule = "grouped"
	// Interleaved lets a micro-batch enter every second cycle: a stage goes forward in one and backward in the next, and
	// keeps fewer activations. P = 2F. Source: tensorflow/python/ipu/ops/pipelining_ops.py.
	Interleaved Schedule = "interleaved"
	// Sequential has one micro-batch in the pipeline at a time; P = 2F - 1.
	Sequential Schedule = "sequential"
)

// Schedules lists them.
func Schedules() []string { return []string{string(Grouped), string(Interleaved), string(Sequential)} }

// Visit is the work of a stage on a micro-batch in one cycle.
type Visit struct {
	Stage             int // of the plan
	Forward, Backward bool
}

// Visits are those of a micro-batch, in order. Visit v comes v cycles after the micro-batch has entered.
func (p *Plan) Visits() []Visit {
	t := p.timetable()
	visits := make([]Visit, t.visits)
	for v := range visits {
		stage, forward, backward := t.work(v)
		visits[v] = Visit{stage, forward, backward}
	}
	return visits
}

// Period is the number of cycles between the entries of two micro-batches.
func (p *Plan) Period() int {
	t := p.timetable()
	return t.period
}

// Cycles is the number of cycles that n micro-batches take.
func (p *Plan) Cycles(n int) int {
	t := p.timetable()
	return t.cycles(n)
}

// Stash is, by stage, the greatest number of micro-batches whose activations the stage holds at a time, the one that it
// works on included. Source of the depths: popart, willow/src/transforms/pipeline.cpp (getStashSize).
func (p *Plan) Stash() []int {
	t := p.timetable()
	depths := make([]int, t.forward)
	for i := range depths {
		depths[i] = t.stash(i)
	}
	return depths
}

// MinAccumulation is the smallest number of micro-batches that keeps all stages busy at some time. PopART refuses less,
// and so does Complete.
func (p *Plan) MinAccumulation() int {
	t := p.timetable()
	return t.stash(0)
}

// timetable is a schedule of F stages.
type timetable struct {
	forward int // F
	visits  int // P
	period  int // cycles between two micro-batches
	merged  bool
}

func (p *Plan) timetable() timetable {
	f := max(1, len(p.Stages))
	switch p.Schedule {
	case Interleaved:
		return timetable{forward: f, visits: 2 * f, period: 2}
	case Sequential:
		return timetable{forward: f, visits: 2*f - 1, period: 2*f - 1, merged: true}
	}
	return timetable{forward: f, visits: 2*f - 1, period: 1, merged: true}
}

// work returns the stage of visit v, and its directions.
func (t *timetable) work(v int) (stage int, forward, backward bool) {
	switch {
	case v < t.forward-1:
		return v, true, false
	case v == t.forward-1:
		return v, true, t.merged
	}
	return t.visits - 1 - v, false, true
}

// at returns which of n micro-batches makes visit v in a cycle; false when there is none.
func (t *timetable) at(cycle, v, n int) (microBatch int, busy bool) {
	d := cycle - v
	if d < 0 || d%t.period != 0 || d/t.period >= n {
		return 0, false
	}
	return d / t.period, true
}

// cycles is the number of cycles for n micro-batches.
func (t *timetable) cycles(n int) int { return t.period*(n-1) + t.visits }

// stash is the number of micro-batches whose activations a stage holds at a time.
func (t *timetable) stash(stage int) int { return t.between(stage, t.visits-1-stage) }

// between is the number of micro-batches that have begun visit v and have not yet ended visit later.
func (t *timetable) between(v, later int) int { return (later-v)/t.period + 1 }
