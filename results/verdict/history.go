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
	curves map[runKey][]results.Curves // by phase, in the order of the recipe
	runs   map[runKey]*results.Run
}

type runKey struct {
	results.Arm
	seed uint64
}

// follow adds what steps and evaluations tell: curves, targets and times, and the bootstrap over examples.
func (c *Comparison) follow(runs []*results.Run) error {
	h := history{c, map[runKey][]results.Curves{}, map[runKey]*results.Run{}}
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
			found.Lock()
			defer found.Unlock()
			key := runKey{r.Arm(), r.Seed}
			h.curves[key], h.runs[key] = curves, r
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
		if err := h.pair(&c.Comparisons[i], runs[0].Recipe); err != nil {
			return err
		}
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
func (h *history) pair(p *Pairing, r *recipe.Recipe) error {
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
	var g errgroup.Group
	for _, phase := range h.Phases {
		g.Go(func() error { return h.multiBootstrap(p, phase.Name) })
	}
	return g.Wait()
}

// multiBootstrap resamples seeds and examples in the metrics of a phase of which all judged runs of the pairing kept
// scores of the same examples. It holds the scores of one pair at a time: those of many runs are large.
func (h *history) multiBootstrap(p *Pairing, phase string) error {
	type table struct {
		ids  []string
		rows [][]float64 // by pair; nil: not comparable
	}
	judged := 0
	for i := range p.Metrics {
		if d := &p.Metrics[i]; d.Phase == phase && d.Inference != nil {
			judged = max(judged, d.Baseline.N)
		}
	}
	tables := map[string]*table{}
	var a, b results.Scores
	for i, seed := range p.Seeds[:judged] {
		x, y := h.runs[runKey{p.Baseline, seed}], h.runs[runKey{p.Arm, seed}]
		if x == nil || y == nil {
			continue
		}
		var err error
		if a, err = x.Scores(phase, a); err != nil {
			return err
		}
		if b, err = y.Scores(phase, a); err != nil {
			return err
		}
		for metric, of := range a {
			t := tables[metric]
			if t == nil {
				t = &table{of.IDs, make([][]float64, judged)}
				tables[metric] = t
			}
			with := b[metric]
			if len(t.ids) > 0 && slices.Equal(t.ids, of.IDs) && slices.Equal(t.ids, with.IDs) {
				t.rows[i] = statistics.Differences(of.Values, with.Values)
			}
		}
	}
	for i := range p.Metrics {
		d := &p.Metrics[i]
		t := tables[d.Metric]
		if d.Phase != phase || d.Inference == nil || t == nil {
			continue
		}
		if rows := t.rows[:d.Baseline.N]; !slices.ContainsFunc(rows, func(row []float64) bool { return row == nil }) {
			d.MultiBootstrap = statistics.NewMultiBootstrap(rows, d.Inference.Interval.Level)
		}
	}
	return nil
}
