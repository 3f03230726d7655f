package statistics

import (
	"cmp"
	"slices"

	"harness.invalid/results"
)

// Holm are p values corrected for testing several metrics.
type Holm struct {
	Metrics      int            `json:"metrics"` // in the family
	PDifference  results.Number `json:"p_difference"`
	PEquivalence results.Number `json:"p_equivalence"`
}

// AdjustHolm corrects the p values of a family of tests: rejecting those at or below α makes one or more false
// rejections in the whole family with probability α at most. The i-th smallest of m values is multiplied by m-i+1,
// and the results are made monotonic. Source: Holm 1979, Scand. J. Stat. 6:65.
func AdjustHolm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	adjusted := make([]float64, len(p))
	last := 0.0
	for rank, i := range order {
		last = max(last, min(1, float64(len(p)-rank)*p[i]))
		adjusted[i] = last
	}
	return adjusted
}
