package verdict

import (
	"slices"

	"harness.invalid/core/recipe"
)

// marginsOf are the margins of a recipe by PHASE.NAME.
func Margins(r *recipe.Recipe) map[string]float64 {
	margins := map[string]float64{}
	phases := measuredPhases(r)
	for i, p := range phases {
		for _, m := range p.Metrics {
			if margin := marginOf(r.Verdict, phases, i, m); margin > 0 {
				margins[p.Name+"."+m] = margin
			}
		}
	}
	return margins
}

// marginOf is the margin of a metric of the i-th phase: that of PHASE.NAME, or of NAME in the last phase that measures it; 0: none.
func marginOf(v recipe.Verdict, phases []MeasuredPhase, i int, metric string) float64 {
	if margin := v.Margins[phases[i].Name+"."+metric]; margin > 0 {
		return margin
	}
	if slices.ContainsFunc(phases[i+1:], func(p MeasuredPhase) bool { return slices.Contains(p.Metrics, metric) }) {
		return 0
	}
	return v.Margins[metric]
}
