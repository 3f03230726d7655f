package verdict

import (
	"maps"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"harness.invalid/core/recipe"
	"harness.invalid/results"
	"harness.invalid/results/statistics"
)

// history is what the complete runs of a comparison recorded on their way.
type history struct {
	*Comparison
	curves map[runKey][]results.Curves          // by phase, in the order of the recipe
	scores map[runKey]map[string]results.Scores // by the phase's name
}

type runKey struct {
	results.Arm
	seed uint64
}

// follow adds what steps and evaluations tell: curves, targets and times, and the bootstrap over examples.
func (c *Comparison) follow(runs []*results.Run) error {
	h := history{c, map[runKey][]results.Curves{}, map[runKey]map[string]results.Scores{}}
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	var found sync.Mutex
	for _, r := range runs {
		if r.Dir == "" || r.Result == nil || r.Result.Status != results.Complete {
			continue
		}
		g.Go(func() error {
			curves, err := r.Curves()
			if err != nil {
				return err
			}
			scores := map[string]results.Scores{}
			for _, p := range c.Phases {
				if scores[p.Name], err = r.Scores(p.Name); err != nil {
					return err
				}
			}
			found.Lock()
			defer found.Unlock()
			key := runKey{r.Arm(), r.Seed}
			h.curves[key], h.scores[key] = curves, scores
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	c.Curves = []Band{}
	for i := range c.Arms {
		h.arm(&c.Arms[i])
	}
	for i := range c.Comparisons {
		h.pair(&c.Comparisons[i], runs[0].Recipe)
	}
	return nil
}

// arm adds the bands and times of an arm.
func (h *history) arm(a *ArmSummary) {
	runs := h.RunsOf(a.Arm)
	a.Times = []PhaseTimes{}
	level := 1 - h.Alpha
	for i, p := range h.Phases {
		h.bands(a.Arm, runs, i)
		seconds, steps := h.times(runs, i)
		t := PhaseTimes{Phase: p.Name, Seconds: statistics.NewTimes(seconds, level)}
		if len(steps) > 0 {
			t.StepSeconds = new(statistics.NewTimes(steps, level))
		}
		a.Times = append(a.Times, t)
	}
	seconds, _ := h.times(runs, -1)
	a.Times = append(a.Times, PhaseTimes{Seconds: statistics.NewTimes(seconds, level)})
}

// bands adds the mean curves of an arm in a phase.
func (h *history) bands(a results.Arm, runs []RunSummary, phase int) {
	curves := map[string][][]results.Point{}
	for _, r := range runs {
		c, ok := h.curves[runKey{a, r.Seed}]
		if !ok {
			continue
		}
		curves[results.TrainingLoss] = append(curves[results.TrainingLoss], results.Thin(c[phase].Loss, mostPoints))
		for name, curve := range c[phase].Evaluations {
			curves[name] = append(curves[name], curve)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(curves)) {
		h.Curves = append(h.Curves, newBand(a, h.Phases[phase].Name, name, curves[name]))
	}
}

// pair compares the way of two arms, phase by phase.
func (h *history) pair(p *Pairing, r *recipe.Recipe) {
	p.Curves, p.Targets, p.Times = []CurveDifference{}, []TargetDifference{}, []PhaseTimesDifference{}
	for i, phase := range h.Phases {
		var x, y []results.Curves
		for _, seed := range p.Seeds {
			a, okA := h.curves[runKey{p.Baseline, seed}]
			b, okB := h.curves[runKey{p.Arm, seed}]
			if okA && okB {
				x, y = append(x, a[i]), append(y, b[i])
			}
		}
		if len(x) > 0 {
			for _, name := range append([]string{results.TrainingLoss}, phase.Metrics...) {
				if d, ok := curveDifference(p, phase.Name, name, x, y, h.Alpha); ok {
					p.Curves = append(p.Curves, d)
				}
			}
			if t := r.Phases[i].Target; t != nil {
				p.Targets = append(p.Targets, targetDifference(phase.Name, t, x, y, h.Alpha))
			}
		}
		if d, ok := h.timesDifference(p, i); ok {
			p.Times = append(p.Times, d)
		}
	}
	for i := range p.Metrics {
		p.Metrics[i].MultiBootstrap = h.multiBootstrap(p, p.Metrics[i])
	}
}

// multiBootstrap resamples seeds and examples, if all runs of the pairing kept scores of the same examples.
func (h *history) multiBootstrap(p *Pairing, d Difference) *statistics.MultiBootstrap {
	var rows [][]float64
	var ids []string
	if d.Inference == nil {
		return nil
	}
	for _, seed := range p.Seeds[:d.Baseline.N] {
		a := h.scores[runKey{p.Baseline, seed}][d.Phase][d.Metric]
		b := h.scores[runKey{p.Arm, seed}][d.Phase][d.Metric]
		if ids == nil {
			ids = slices.Sorted(maps.Keys(a))
		}
		if len(ids) == 0 || len(a) != len(ids) || len(b) != len(ids) {
			return nil
		}
		row := make([]float64, len(ids))
		for i, id := range ids {
			x, okA := a[id]
			y, okB := b[id]
			if !okA || !okB {
				return nil
			}
			row[i] = y - x
		}
		rows = append(rows, row)
	}
	return statistics.NewMultiBootstrap(rows, d.Inference.Interval.Level)
}
