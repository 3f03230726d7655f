package verdict

import (
	"fmt"
	"strings"

	"harness.invalid/core/spelling"
	"harness.invalid/results"
	"harness.invalid/results/statistics"
)

// Collapse is a run that is far worse than the others of its arm.
type Collapse struct {
	results.Arm
	Seed   uint64         `json:"seed"`
	Value  results.Number `json:"value"`
	Median results.Number `json:"median"` // of the arm's paired runs
	// Deviations is the distance from the median in robust standard deviations.
	Deviations results.Number `json:"deviations"`
}

// A run has collapsed if it is worse than the median of its arm by collapseDeviations robust standard deviations, taken
// over both arms, and by collapseMargins margins: where runs are closer together than that, one that is a little apart is
// nothing to worry about.
//
// The first number comes from simulation (TestCollapseFalseAlarms). Where the margin plays no part, a comparison of 6 to 20
// pairs without a collapse has a false alarm in 0.2% of cases or less if values are normal. If they have the heavy tails
// of t with 3 degrees of freedom it is 2.7% for 6 pairs, 3.4% for 10 and 6.3% for 20. Medians and distances from them in
// place of means: Leys et al. 2013, J. Exp. Soc. Psychol. 49:764.
//
// An arm of fewer than collapseRuns finite values is not judged: two of three runs that happen to be close make the third
// look lost, in 3.6% of cases of 3 normal pairs and 0.8% of 5. Nothing is let through by that: a run two margins off among
// so few that agree otherwise makes the interval wider than the margin by itself (TestCollapseOfFew).
const (
	collapseDeviations = 8
	collapseMargins    = 2
	collapseRuns       = 6
)

// collapsed are the places of values in two arms that have collapsed, where greater values are better. Values that are
// not finite are not among them: a run that diverged is judged as the worst of all anyway.
func collapsed(arms [2][]float64, margin float64) (places [2][]int, sd float64) {
	var enough [][]float64
	for _, values := range arms {
		if finite := statistics.Finite(values); len(finite) >= collapseRuns {
			enough = append(enough, finite)
		}
	}
	sd = statistics.RobustSD(enough...)
	for side, values := range arms {
		finite := statistics.Finite(values)
		if len(finite) < collapseRuns {
			continue
		}
		median := statistics.Median(finite)
		for i, v := range values {
			if worse := median - v; !lost(v) && worse >= collapseDeviations*sd && worse >= collapseMargins*margin {
				places[side] = append(places[side], i)
			}
		}
	}
	return places, sd
}

// collapses finds the runs that collapsed.
func (d *Difference) collapses() []Collapse {
	var found []Collapse
	sign := d.gain(1)
	var arms [2][]float64
	for side := range arms {
		for _, v := range d.values(side) {
			arms[side] = append(arms[side], sign*v)
		}
	}
	places, sd := collapsed(arms, d.Margin)
	for side, list := range places {
		for _, i := range list {
			v, median := arms[side][i], statistics.Median(statistics.Finite(arms[side]))
			r := d.pairs[i][side]
			found = append(found, Collapse{Arm: r.Arm, Seed: r.Seed, Value: results.Number(sign * v), Median: results.Number(sign * median),
				Deviations: results.Number((median - v) / sd)})
		}
	}
	return found
}

// collapseText names the runs that collapsed.
func (d *Difference) collapseText() string {
	w := WordsOf(d.Metric)
	var list []string
	for _, c := range d.Collapses {
		list = append(list, fmt.Sprintf("%s with seed %d (%s, and the median of its arm is %s)", c.Arm, c.Seed, w.number(float64(c.Value)),
			w.number(float64(c.Median))))
	}
	return spelling.Count(len(list), "run") + " collapsed: " + strings.Join(list, ", ")
}
