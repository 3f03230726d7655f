package tuning

import (
	"cmp"
	"math"
	"slices"

	"harness.invalid/core/recipe"
	"harness.invalid/results"
	"harness.invalid/results/scoring"
	"harness.invalid/results/statistics"
)

// Trial is a point of the space and what came out of it.
type Trial struct {
	Trial    int            `json:"trial"`    // from 1, in the order in which they were trained
	Settings []string       `json:"settings"` // overrides of the recipe
	Seeds    int            `json:"seeds"`
	Reached  int            `json:"reached"` // runs that reached the target
	Steps    results.Number `json:"steps_to_target"`
	Seconds  results.Number `json:"measured_seconds_to_target"` // median over seeds; Infinity: not reached
	Final    results.Number `json:"final"`                      // mean of the metric at the end
}

// metric is that of the target of the recipe's last phase that has one.
func metric(r *recipe.Recipe) string {
	if p := aimed(r); p != nil {
		return p.Target.Metric
	}
	return ""
}

// aimed is the last phase of a recipe that has a target.
func aimed(r *recipe.Recipe) *recipe.Phase {
	for i := range slices.Backward(r.Phases) {
		if r.Phases[i].Target != nil {
			return &r.Phases[i]
		}
	}
	return nil
}

// sumUp sums up the runs of a trial.
func (t *Trial) sumUp(r *recipe.Recipe, runs []*results.Run) error {
	races, err := scoring.Races(runs, "")
	if err != nil {
		return err
	}
	race := races[0]
	t.Seeds, t.Reached = len(race.Steps), race.Reached()
	t.Steps, t.Seconds = statistics.NewTimes(race.Steps, 0.95).Median, statistics.NewTimes(race.Seconds, 0.95).Median
	p := aimed(r)
	if p == nil {
		return nil
	}
	var values []float64
	for _, run := range runs {
		if run.Result == nil {
			continue
		}
		if v, ok := run.Result.Metrics[p.Name+"."+p.Target.Metric]; ok {
			values = append(values, v)
		}
	}
	t.Final = statistics.NewSample(values).Mean
	return nil
}

// rank sorts trials, the best first: by steps to the target, then by the metric at the end. Trials that diverged come
// last.
func rank(list []Trial, metric string) {
	m, _ := recipe.MetricNamed(metric)
	slices.SortStableFunc(list, func(a, b Trial) int {
		x, y := float64(a.Final), float64(b.Final)
		switch {
		case a.Steps != b.Steps:
			return cmp.Compare(a.Steps, b.Steps)
		case math.IsNaN(x) || math.IsNaN(y):
			return cmp.Compare(y, x) // NaN is less than any number
		case m.Higher:
			return cmp.Compare(y, x)
		}
		return cmp.Compare(x, y)
	})
}
