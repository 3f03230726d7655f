package verdict

import (
	"maps"
	"math"
	"slices"

	"harness.invalid/core/recipe"
	"harness.invalid/results"
	"harness.invalid/results/statistics"
)

// PhaseTimes are the measured times of an arm in a phase, over its complete runs.
type PhaseTimes struct {
	Phase string `json:"phase"` // "": the run as a whole
	// Seconds of training, without evaluations and checkpoints; of the whole run with all.
	Seconds statistics.Times `json:"measured_seconds"`
	// StepSeconds are over the medians of the runs' steps, without the first ones (see warmUp).
	StepSeconds *statistics.Times `json:"measured_step_seconds,omitempty"`
}

// CurveDifference is how far the curve of an arm runs from the baseline's, over the pairs.
type CurveDifference struct {
	Phase  string `json:"phase"`
	Metric string `json:"metric"` // TrainingLoss, or a metric of the evaluations
	// AreaBySteps is the area between the curves by its width: the mean distance arm - baseline at the same step; AreaBySeconds that at the same
	// measured time, over the stretch that both have.
	AreaBySteps   statistics.Paired `json:"area_by_steps"`
	AreaBySeconds statistics.Paired `json:"area_by_measured_seconds"`
	// Greatest is the greatest distance between the mean curves, AtStep where it is.
	Greatest results.Number `json:"greatest"`
	AtStep   int            `json:"at_step"`
}

// TargetDifference is how far from each other two arms reach the target of a phase, between evaluations by linear interpolation.
type TargetDifference struct {
	Phase  string  `json:"phase"`
	Metric string  `json:"metric"`
	Value  float64 `json:"value"`
	// Reached is how many pairs reached it in both arms, and only those are compared; BaselineReached and ArmReached in one.
	Reached         int               `json:"reached"`
	BaselineReached int               `json:"baseline_reached"`
	ArmReached      int               `json:"arm_reached"`
	Steps           statistics.Paired `json:"steps"`
	Seconds         statistics.Paired `json:"measured_seconds"`
}

// PhaseTimesDifference compares the times of two arms in a phase.
type PhaseTimesDifference struct {
	Phase       string                      `json:"phase"`
	Seconds     statistics.TimesDifference  `json:"measured_seconds"`
	StepSeconds *statistics.TimesDifference `json:"measured_step_seconds,omitempty"`
}

// history is what the complete runs of a comparison recorded on their way.
type history struct {
	*Comparison
	curves map[runKey][]results.Curves
	scores map[runKey]map[string]results.Scores // by phase
}

type runKey struct {
	results.Arm
	seed uint64
}

// follow adds what the steps and evaluations of the runs say: curves, targets, times, and scores of single examples.
func (c *Comparison) follow(runs []*results.Run) error {
	h := history{c, map[runKey][]results.Curves{}, map[runKey]map[string]results.Scores{}}
	for _, r := range runs {
		if r.Dir == "" || r.Result == nil || r.Result.Status != results.Complete {
			continue
		}
		key := runKey{r.Arm(), r.Seed}
		curves, err := r.Curves()
		if err != nil {
			return err
		}
		h.curves[key] = curves
		h.scores[key] = map[string]results.Scores{}
		for _, p := range c.Phases {
			if h.scores[key][p.Name], err = r.Scores(p.Name); err != nil {
				return err
			}
		}
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
		curves := map[string][][]results.Point{}
		for _, r := range runs {
			c, ok := h.curves[runKey{a.Arm, r.Seed}]
			if !ok {
				continue
			}
			curves[results.TrainingLoss] = append(curves[results.TrainingLoss], results.Thin(c[i].Loss, mostPoints))
			for name, curve := range c[i].Evaluations {
				curves[name] = append(curves[name], curve)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(curves)) {
			h.Curves = append(h.Curves, newBand(a.Arm, p.Name, name, curves[name]))
		}
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

// times are the measured times of runs in a phase, or of the runs as a whole (-1): of training, and the medians of steps.
func (h *history) times(runs []RunSummary, phase int) (training, steps []float64) {
	for _, r := range runs {
		if phase < 0 {
			training = append(training, r.MeasuredSeconds[results.TotalSeconds])
			continue
		}
		if p, ok := r.Phase(h.Phases[phase].Name); ok {
			training = append(training, p.MeasuredSeconds[results.TrainingSeconds])
		}
		if c, ok := h.curves[runKey{r.Arm, r.Seed}]; ok && len(c[phase].StepSeconds) > 0 {
			steps = append(steps, statistics.Median(c[phase].StepSeconds[statistics.WarmUp(len(c[phase].StepSeconds)):]))
		}
	}
	return training, steps
}

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
		trainingA, stepsA := h.times(h.RunsOf(p.Baseline), i)
		trainingB, stepsB := h.times(h.RunsOf(p.Arm), i)
		if len(trainingA) > 0 && len(trainingB) > 0 {
			d := PhaseTimesDifference{Phase: phase.Name, Seconds: statistics.CompareTimes(trainingA, trainingB, h.Alpha)}
			if len(stepsA) > 0 && len(stepsB) > 0 {
				d.StepSeconds = new(statistics.CompareTimes(stepsA, stepsB, h.Alpha))
			}
			p.Times = append(p.Times, d)
		}
	}
	for i := range p.Metrics {
		p.Metrics[i].MultiBootstrap = h.multiBootstrap(p, p.Metrics[i])
	}
}

func curveDifference(p *Pairing, phase, metric string, x, y []results.Curves, alpha float64) (CurveDifference, bool) {
	d := CurveDifference{Phase: phase, Metric: metric}
	var bySteps, byTime []float64
	a, b := make([][]results.Point, len(x)), make([][]results.Point, len(x))
	for i := range x {
		a[i], b[i] = results.Thin(x[i].Curve(metric), mostPoints), results.Thin(y[i].Curve(metric), mostPoints)
		if area := areaBetween(a[i], b[i], byStep); !math.IsNaN(area) {
			bySteps = append(bySteps, area)
		}
		if area := areaBetween(a[i], b[i], bySeconds); !math.IsNaN(area) {
			byTime = append(byTime, area)
		}
	}
	if len(bySteps) == 0 {
		return d, false
	}
	d.AreaBySteps, d.AreaBySeconds = statistics.NewPaired(make([]float64, len(bySteps)), bySteps, alpha), statistics.NewPaired(make([]float64, len(byTime)), byTime, alpha)
	base, arm := newBand(p.Baseline, phase, metric, a), newBand(p.Arm, phase, metric, b)
	for i := range min(len(base.Points), len(arm.Points)) {
		if base.Points[i].Step != arm.Points[i].Step {
			break // a recipe has the same steps in all arms
		}
		if v := arm.Points[i].Mean - base.Points[i].Mean; math.Abs(float64(v)) > math.Abs(float64(d.Greatest)) {
			d.Greatest, d.AtStep = v, base.Points[i].Step
		}
	}
	return d, true
}

func targetDifference(phase string, t *recipe.Target, x, y []results.Curves, alpha float64) TargetDifference {
	d := TargetDifference{Phase: phase, Metric: t.Metric, Value: t.Value}
	m, _ := recipe.MetricNamed(t.Metric)
	var steps, seconds [2][]float64
	for i := range x {
		a, okA := results.FirstReach(x[i].Evaluations[t.Metric], t.Value, m.Higher)
		b, okB := results.FirstReach(y[i].Evaluations[t.Metric], t.Value, m.Higher)
		if okA {
			d.BaselineReached++
		}
		if okB {
			d.ArmReached++
		}
		if okA && okB {
			d.Reached++
			steps[0], steps[1] = append(steps[0], float64(a.Step)), append(steps[1], float64(b.Step))
			seconds[0], seconds[1] = append(seconds[0], float64(a.Seconds)), append(seconds[1], float64(b.Seconds))
		}
	}
	d.Steps, d.Seconds = statistics.NewPaired(steps[0], steps[1], alpha), statistics.NewPaired(seconds[0], seconds[1], alpha)
	return d
}

// multiBootstrap resamples seeds and examples where every run of the pairing kept scores of the same examples.
func (h *history) multiBootstrap(p *Pairing, d Difference) *statistics.MultiBootstrap {
	var rows [][]float64
	var ids []string
	for _, seed := range p.Seeds {
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
	return statistics.NewMultiBootstrap(rows, 1-h.Alpha)
}
