package results

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Sample sums up a metric over runs.
type Sample struct {
	N    int     `json:"n"`
	Mean Number  `json:"mean"`
	SD   *Number `json:"sd,omitempty"` // with N-1 below; nil for one run
	// Interval is Student's interval of the mean, BootstrapInterval the BCa one; nil for too few values, or where they were not asked for.
	Interval          *Interval `json:"interval,omitempty"`
	BootstrapInterval *Interval `json:"bootstrap_interval,omitempty"`
}

// NewSample sums up values. Those that are not finite make mean and sd so too.
func NewSample(values []float64) Sample {
	mean, variance := stat.MeanVariance(values, nil)
	s := Sample{N: len(values), Mean: Number(mean)}
	if s.N > 1 {
		sd := Number(math.Sqrt(variance))
		s.SD = &sd
	}
	return s
}

// newSample is NewSample with intervals at a level.
func newSample(values []float64, level float64) Sample {
	s := NewSample(values)
	if s.SD == nil || math.IsNaN(float64(*s.SD)) || math.IsInf(float64(s.Mean), 0) {
		return s
	}
	inf := infer(float64(s.Mean), float64(*s.SD), s.N, 0, 1-level)
	s.Interval, s.BootstrapInterval = &inf.Interval, bca(values, meanOf, level)
	return s
}

// Interval is a confidence interval, ends included.
type Interval struct {
	Low   Number  `json:"low"`
	High  Number  `json:"high"`
	Level float64 `json:"level"` // 0.95
}

// Contains reports whether x lies in the interval.
func (i Interval) Contains(x float64) bool { return float64(i.Low) <= x && x <= float64(i.High) }

// Inference is what the differences of pairs say about the difference in general. It takes the differences to be independent draws from one
// normal distribution.
type Inference struct {
	SD Number `json:"sd"` // of the differences
	SE Number `json:"se"` // of their mean
	// Interval at level 1-α: the difference is not 0 when it does not hold 0.
	Interval Interval `json:"interval"`
	// EquivalenceInterval at level 1-2α: the two are equivalent when it lies within the margin, which is the same as both one-sided tests
	// rejecting at α.
	EquivalenceInterval Interval `json:"equivalence_interval"`
	// PDifference is the two-sided p of Student's paired t test against 0.
	PDifference Number `json:"p_difference"`
	// PEquivalence is the greater p of the two one-sided tests; nil without a margin.
	PEquivalence *Number `json:"p_equivalence,omitempty"`
	// PPermutation is the two-sided p of the sign-flip test, which needs no normal distribution.
	PPermutation Number `json:"p_permutation"`
	// BootstrapInterval is the BCa interval at level 1-α; nil for too few seeds.
	BootstrapInterval *Interval `json:"bootstrap_interval,omitempty"`
	// Holm has the p values as the verdict uses them; nil for the primary metric, and for one that is alone.
	Holm *Holm `json:"holm,omitempty"`
}

// Holm are p values corrected for several metrics.
type Holm struct {
	Metrics      int    `json:"metrics"` // in the family
	PDifference  Number `json:"p_difference"`
	PEquivalence Number `json:"p_equivalence"`
}

// infer looks at the mean of n differences with standard deviation sd, n > 1. A margin of 0 is none.
//
// The test of equivalence is TOST: H₁: δ ≤ -Δ and H₂: δ ≥ Δ are each tested at α, by
//
//	t₁ = (d̄ + Δ)/(s/√n)    t₂ = (d̄ - Δ)/(s/√n)    n-1 degrees of freedom
//
// Sources: Schuirmann 1987, J. Pharmacokinet. Biopharm. 15:657; Lakens 2017, Soc. Psychol. Personal. Sci. 8:355.
func infer(mean, sd float64, n int, margin, alpha float64) Inference {
	t := distuv.StudentsT{Sigma: 1, Nu: float64(n - 1)}
	se := sd / math.Sqrt(float64(n))
	interval := func(level float64) Interval {
		half := t.Quantile((1+level)/2) * se
		return Interval{Number(mean - half), Number(mean + half), level}
	}
	inf := Inference{
		SD: Number(sd), SE: Number(se),
		Interval: interval(1 - alpha), EquivalenceInterval: interval(1 - 2*alpha),
		PDifference: Number(min(1, 2*tail(t, math.Abs(mean)/se))),
	}
	if margin > 0 {
		p := Number(max(tail(t, (mean+margin)/se), tail(t, (margin-mean)/se)))
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
func signTest(better, n int) float64 {
	if n == 0 {
		return 1
	}
	k := float64(min(better, n-better))
	return min(1, 2*distuv.Binomial{N: float64(n), P: 0.5}.CDF(k))
}
