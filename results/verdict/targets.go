package verdict

import (
	"harness.invalid/core/recipe"
	"harness.invalid/results"
	"harness.invalid/results/statistics"
)

// TargetDifference is how far apart two arms reach the target of a phase. Between evaluations, the point is
// interpolated linearly.
type TargetDifference struct {
	Phase  string  `json:"phase"`
	Metric string  `json:"metric"`
	Value  float64 `json:"value"`
	// Reached is how many pairs reached the target in both arms; only those are compared. BaselineReached and
	// ArmReached count each arm by itself.
	Reached         int               `json:"reached"`
	BaselineReached int               `json:"baseline_reached"`
	ArmReached      int               `json:"arm_reached"`
	Steps           statistics.Paired `json:"steps"`
	Seconds         statistics.Paired `json:"measured_seconds"`
}

// targetDifference compares pairs of runs, x of the baseline and y of the arm.
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
