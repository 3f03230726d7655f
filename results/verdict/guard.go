package verdict

import (
	"fmt"
	"strings"

	"gonum.org/v1/gonum/stat"

	"harness.invalid/core/recipe"
	"harness.invalid/results"
	"harness.invalid/results/statistics"
)

// Guard is a reason for which a metric has no verdict, whatever its tests say.
type Guard string

// The guards, in the order in which they are heeded.
const (
	// NothingLearned: no arm is better by more than the margin than a model that ignores its input.
	NothingLearned Guard = "nothing learned"
	// TargetMissed: the phase has a target, and no arm reached it in half of its runs or more.
	TargetMissed Guard = "target missed"
	// Collapsed: a run is far worse than the others of its arm. DIFFERENT is not withheld, since the arms may differ in
	// just that.
	Collapsed Guard = "collapse"
)

// Withheld is a verdict that was not given.
type Withheld struct {
	Guard Guard `json:"guard"`
	// Verdict is what the tests alone say; "" where they could not be made.
	Verdict Decision `json:"verdict,omitempty"`
}

// heed applies the guards to a verdict.
func (d *Difference) heed(r rule) {
	if d.Margin == 0 || len(d.pairs) == 0 {
		return
	}
	d.setFloor()
	d.Collapses = d.collapses()
	switch guard, reason := d.guard(); {
	case guard == Collapsed && d.Verdict == Different:
		d.Reason += "; " + reason
	case guard != "":
		d.Withheld = &Withheld{Guard: guard}
		if d.Inference != nil {
			d.Withheld.Verdict = d.Verdict
		}
		d.Verdict, d.Direction, d.BeyondMargin, d.Reason = Inconclusive, "", false, reason
		d.FurtherSeeds, d.FurtherSeconds = 0, 0
	case d.Verdict == Equivalent:
		d.CollapseRateBelow = statistics.RareRate(len(d.pairs), r.alpha)
	}
}

// guard returns the guard that the paired runs offend, if any, and why.
func (d *Difference) guard() (Guard, string) {
	if reason := d.nothingLearned(); reason != "" {
		return NothingLearned, reason
	}
	if reason := d.targetMissed(); reason != "" {
		return TargetMissed, reason
	}
	if len(d.Collapses) > 0 {
		return Collapsed, d.collapseText()
	}
	return "", ""
}

// values are the metric of the paired runs, of one side.
func (d *Difference) values(side int) []float64 {
	v := make([]float64, len(d.pairs))
	for i, p := range d.pairs {
		v[i] = p[side].phaseMetric(d.Phase, d.Metric)
	}
	return v
}

// setFloor takes the floor from the records of the runs, the mean if their evaluation sets differ.
func (d *Difference) setFloor() {
	var floors []float64
	for _, pair := range d.pairs {
		for _, r := range pair {
			if p, ok := r.Phase(d.Phase); ok {
				if v, ok := p.Floors[d.Metric]; ok {
					floors = append(floors, v)
				}
			}
		}
	}
	d.Floor = nil
	if len(floors) > 0 {
		d.Floor = new(results.Number(stat.Mean(floors, nil)))
	}
}

func (d *Difference) nothingLearned() string {
	if d.Floor == nil {
		return ""
	}
	floor, w := float64(*d.Floor), WordsOf(d.Metric)
	var got []string
	for side := range 2 {
		values := statistics.Finite(d.values(side))
		mean := stat.Mean(values, nil)
		switch {
		case len(values) == 0: // all runs diverged, which the reason says already
		case d.gain(mean-floor) > d.Margin:
			return ""
		default:
			got = append(got, w.number(mean))
		}
	}
	if len(got) == 0 {
		return ""
	}
	return fmt.Sprintf("neither arm is better by more than the margin of %g than a model that ignores its input, which gets %s: %s",
		d.Margin, w.number(floor), strings.Join(got, " and "))
}

// gain is by how much a change of the metric is for the better.
func (d *Difference) gain(change float64) float64 {
	if m, _ := recipe.MetricNamed(d.Metric); m.Higher {
		return change
	}
	return -change
}

func (d *Difference) targetMissed() string {
	var target *results.Reached
	var reached [2]int
	for _, pair := range d.pairs {
		for side, r := range pair {
			p, _ := r.Phase(d.Phase)
			if p.Target == nil {
				continue
			}
			target = p.Target
			if target.Step > 0 {
				reached[side]++
			}
		}
	}
	if target == nil || 2*max(reached[0], reached[1]) >= len(d.pairs) {
		return ""
	}
	return fmt.Sprintf("neither arm reached the target of %s %g: %d of %d runs of the baseline did, and %d of %d of the arm",
		WordsOf(target.Metric).Name, target.Value, reached[0], len(d.pairs), reached[1], len(d.pairs))
}

// noteFloors tells which verdicts were given without a floor.
func (c *Comparison) noteFloors(p *Pairing) {
	for _, d := range p.Metrics {
		if d.Floor == nil && (d.Verdict == Equivalent || d.Verdict == Different) {
			c.note("the runs do not record what a model that ignores its input gets, since an older version trained them: " +
				"verdicts do not consider whether anything was learned")
			return
		}
	}
}
