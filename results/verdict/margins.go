package verdict

import (
	"slices"

	"harness.invalid/core/recipe"
)

// MeasuredPhase names a phase's metrics, in the order of recipe.Metrics.
type MeasuredPhase struct {
	Name    string   `json:"name"`
	Metrics []string `json:"metrics"`
}

func measuredPhases(r *recipe.Recipe) []MeasuredPhase {
	phases := make([]MeasuredPhase, len(r.Phases))
	for i, p := range r.Phases {
		phases[i] = MeasuredPhase{Name: p.Name}
		for _, m := range p.Metrics() {
			phases[i].Metrics = append(phases[i].Metrics, m.Name)
		}
	}
	return phases
}

// Margins are the margins of a recipe by PHASE.NAME.
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

// marginOf is the margin of a metric of the i-th phase; 0 if there is none. A margin for PHASE.NAME comes before
// one for NAME, which is that of the last phase that measures it.
func marginOf(v recipe.Verdict, phases []MeasuredPhase, i int, metric string) float64 {
	if margin := v.Margins[phases[i].Name+"."+metric]; margin > 0 {
		return margin
	}
	if !measuresLast(phases, i, metric) {
		return 0
	}
	return v.Margins[metric]
}

// isPrimary reports whether a metric of the i-th phase is the one that the comparison is about, by the same names.
func isPrimary(v recipe.Verdict, phases []MeasuredPhase, i int, metric string) bool {
	return v.Primary == phases[i].Name+"."+metric || v.Primary == metric && measuresLast(phases, i, metric)
}

// measuresLast reports whether no phase after the i-th measures the metric.
func measuresLast(phases []MeasuredPhase, i int, metric string) bool {
	return !slices.ContainsFunc(phases[i+1:], func(p MeasuredPhase) bool { return slices.Contains(p.Metrics, metric) })
}
