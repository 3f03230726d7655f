// Package statistics is what verdicts and checks rest on: functions of numbers, which know nothing of runs. Student's intervals and TOST, sign-flip and
// rank tests, Holm's correction, bootstrap intervals, medians of times.
package statistics

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"harness.invalid/results"
)

// Inference is what the differences of pairs say about the difference in general. It takes the differences to be independent draws from one
// normal distribution.
type Inference struct {
	SD results.Number `json:"sd"` // of the differences
	SE results.Number `json:"se"` // of their mean
	// Interval at level 1-α: the difference is not 0 when it does not hold 0.
	Interval Interval `json:"interval"`
	// EquivalenceInterval at level 1-2α: the two are equivalent when it lies within the margin, which is the same as both one-sided tests
	// rejecting at α.
	EquivalenceInterval Interval `json:"equivalence_interval"`
	// PDifference is the two-sided p of Student's paired t test against 0.
	PDifference results.Number `json:"p_difference"`
	// PEquivalence is the greater p of the two one-sided tests; nil without a margin.
	PEquivalence *results.Number `json:"p_equivalence,omitempty"`
	// PPermutation is the two-sided p of the sign-flip test, which needs no normal distribution.
	PPermutation results.Number `json:"p_permutation"`
	// BootstrapInterval is the BCa interval at level 1-α; nil for too few seeds.
	BootstrapInterval *Interval `json:"bootstrap_interval,omitempty"`
	// Holm has the p values as the verdict uses them; nil for the primary metric, and for one that is alone.
	Holm *Holm `json:"holm,omitempty"`
}

// Holm are p values corrected for several metrics.
type Holm struct {
	Metrics      int            `json:"metrics"` // in the family
	PDifference  results.Number `json:"p_difference"`
	PEquivalence results.Number `json:"p_equivalence"`
}

// infer looks at the mean of n differences with standard deviation sd, n > 1. A margin of 0 is none.
//
// The test of equivalence is TOST: H₁: δ ≤ -Δ and H₂: δ ≥ Δ are each tested at α, by
//
//	t₁ = (d̄ + Δ)/(s/√n)    t₂ = (d̄ - Δ)/(s/√n)    n-1 degrees of freedom
//
// Sources: Schuirmann 1987, J. Pharmacokinet. Biopharm. 15:657; Lakens 2017, Soc. Psychol. Personal. Sci. 8:355.
func Infer(mean, sd float64, n int, margin, alpha float64) Inference {
	t := distuv.StudentsT{Sigma: 1, Nu: float64(n - 1)}
	se := sd / math.Sqrt(float64(n))
	interval := func(level float64) Interval {
		half := t.Quantile((1+level)/2) * se
		return Interval{results.Number(mean - half), results.Number(mean + half), level}
	}
	inf := Inference{
		SD: results.Number(sd), SE: results.Number(se),
		Interval: interval(1 - alpha), EquivalenceInterval: interval(1 - 2*alpha),
		PDifference: results.Number(min(1, 2*tail(t, math.Abs(mean)/se))),
	}
	if margin > 0 {
		p := results.Number(max(tail(t, (mean+margin)/se), tail(t, (margin-mean)/se)))
		inf.PEquivalence = &p
	}
	return inf
}

// tail is P(T > x). Without any spread x is infinite, or 0/0: the mean lies exactly on what it is tested against.
func tail(t distuv.StudentsT, x float64) float64 {
	switch {
	case math.IsNaN(x):
		return 1
	case math.IsInf(x, 0):
		return (1 - math.Copysign(1, x)) / 2
	}
	return t.CDF(-x)
}

// signTest is the two-sided p of the exact sign test: so many of n pairs are better, the others worse. It is for values that have an order
// and no distance. Source: Conover 1999, Practical Nonparametric Statistics, 3.4.
func SignTest(better, n int) float64 {
	if n == 0 {
		return 1
	}
	k := float64(min(better, n-better))
	return min(1, 2*distuv.Binomial{N: float64(n), P: 0.5}.CDF(k))
}
