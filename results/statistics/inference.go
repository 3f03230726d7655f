// Package statistics has the tests and intervals that verdicts and checks rest on: Student's intervals and TOST,
// sign-flip and rank tests, Holm's correction, bootstrap intervals, medians of times, and what a power analysis
// needs.
//
// Everything here is a function of numbers. Slices of values flow in, structs that encode as JSON flow out; nothing
// knows of runs, arms or recipes. How a verdict follows from a test is package verdict's business.
package statistics

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"harness.invalid/results"
)

// Inference is what paired differences say about the true mean difference. It assumes that the differences are
// independent draws from one normal distribution; PPermutation and BootstrapInterval do without normality.
type Inference struct {
	SD results.Number `json:"sd"` // of the differences
	SE results.Number `json:"se"` // of their mean
	// Interval has level 1-α. If it excludes 0, the arms differ.
	Interval Interval `json:"interval"`
	// EquivalenceInterval has level 1-2α. If it lies within the margin, both one-sided tests reject at α: the arms are
	// equivalent.
	EquivalenceInterval Interval `json:"equivalence_interval"`
	// PDifference is the two-sided p of Student's paired t test against 0.
	PDifference results.Number `json:"p_difference"`
	// PEquivalence is the greater p of the two one-sided tests; nil without a margin.
	PEquivalence *results.Number `json:"p_equivalence,omitempty"`
	// PPermutation is the two-sided p of the sign-flip test; 0 where there are no pairs.
	PPermutation results.Number `json:"p_permutation"`
	// BootstrapInterval is the BCa interval at level 1-α; nil for too few pairs.
	BootstrapInterval *Interval `json:"bootstrap_interval,omitempty"`
	// Holm has the p values that the verdict uses; nil where no correction applies: for the primary metric, and for a
	// family of one.
	Holm *Holm `json:"holm,omitempty"`
}

// Infer tests the mean of n > 1 differences that have standard deviation sd. A margin of 0 means that there is
// none. It leaves out what needs the differences themselves (PPermutation, BootstrapInterval); InferPaired has
// everything.
//
// The test of equivalence is TOST: H₁: δ ≤ -Δ and H₂: δ ≥ Δ are each tested at α, by
//
//	t₁ = (d̄ + Δ)/(s/√n)    t₂ = (d̄ - Δ)/(s/√n)    n-1 degrees of freedom
//
// Sources: Schuirmann 1987, J. Pharmacokinet. Biopharm. 15:657; Lakens 2017, Soc. Psychol. Personal. Sci. 8:355.
func Infer(mean, sd float64, n int, margin, alpha float64) Inference {
	return InferAt(mean, sd, n, margin, Fixed(n, alpha).Looks[0])
}

// InferAt is Infer at the levels of a look: Interval has level 1-Difference, EquivalenceInterval 1-2·Equivalence. At a
// look that is too early for DIFFERENT, Interval has level 1-Equivalence, and decides nothing.
func InferAt(mean, sd float64, n int, margin float64, l Look) Inference {
	return infer(mean, sd, sd/math.Sqrt(float64(n)), float64(n-1), margin, l)
}

// infer tests a mean difference with standard error se that is estimated with df degrees of freedom.
func infer(mean, sd, se, df, margin float64, l Look) Inference {
	alpha := l.Difference
	if alpha == 0 {
		alpha = l.Equivalence
	}
	t := distuv.StudentsT{Sigma: 1, Nu: df}
	interval := func(level float64) Interval {
		half := t.Quantile((1+level)/2) * se
		return Interval{results.Number(mean - half), results.Number(mean + half), level}
	}
	inf := Inference{
		SD: results.Number(sd), SE: results.Number(se),
		Interval: interval(1 - alpha), EquivalenceInterval: interval(1 - 2*l.Equivalence),
		PDifference: results.Number(min(1, 2*tail(t, math.Abs(mean)/se))),
	}
	if margin > 0 {
		p := results.Number(max(tail(t, (mean+margin)/se), tail(t, (margin-mean)/se)))
		inf.PEquivalence = &p
	}
	return inf
}

// tail is P(T > x). Without any spread x is infinite, or 0/0 where the mean equals the value it is tested against.
func tail(t distuv.StudentsT, x float64) float64 {
	switch {
	case math.IsNaN(x):
		return 1
	case math.IsInf(x, 0):
		return (1 - math.Copysign(1, x)) / 2
	}
	return t.CDF(-x)
}

// InferPaired is Infer for the differences of pairs, with the sign-flip test and the bootstrap interval; nil for
// fewer than two pairs, and where a difference is not finite.
func InferPaired(differences []float64, margin, alpha float64) *Inference {
	s := NewSample(differences)
	if !s.hasSpread() {
		return nil
	}
	inf := Infer(float64(s.Mean), float64(*s.SD), s.N, margin, alpha)
	inf.Resample(differences)
	return &inf
}

// Resample adds the tests that don't assume normality.
func (inf *Inference) Resample(differences []float64) {
	inf.PPermutation = results.Number(SignFlip(differences))
	inf.BootstrapInterval = bcaOfMean(differences, inf.Interval.Level)
}

// InferUnpaired tests the difference of the means of two independent samples, y less x, without assuming equal
// variances; nil for fewer than two values in a sample, and where a value is not finite. SD is that of the difference
// of two single values. The standard error and its degrees of freedom are Welch's (1947, Biometrika 34:28); the test
// of equivalence is TOST with them, at the levels of l.
func InferUnpaired(x, y []float64, margin float64, l Look) *Inference {
	a, b := NewSample(x), NewSample(y)
	if !a.hasSpread() || !b.hasSpread() {
		return nil
	}
	mean, se, df := welch(a, b)
	sd := math.Hypot(float64(*a.SD), float64(*b.SD))
	inf := infer(mean, sd, se, df, margin, l)
	return &inf
}

// welch is the difference of the means of two samples, its standard error, and the degrees of freedom of that.
func welch(a, b Sample) (mean, se, df float64) {
	part := func(s Sample) float64 { return float64(*s.SD) * float64(*s.SD) / float64(s.N) }
	va, vb := part(a), part(b)
	df = (va + vb) * (va + vb) / (va*va/float64(a.N-1) + vb*vb/float64(b.N-1))
	if va+vb == 0 {
		df = float64(a.N + b.N - 2)
	}
	return float64(b.Mean - a.Mean), math.Sqrt(va + vb), df
}

// Paired is a quantity that was measured in pairs.
type Paired struct {
	Baseline   Sample         `json:"baseline"`
	Arm        Sample         `json:"arm"`
	Difference results.Number `json:"difference"` // mean of arm - baseline
	// Inference is nil for one pair, and where a value is not finite.
	Inference *Inference `json:"inference,omitempty"`
}

// NewPaired compares the arm's values y with the baseline's values x, which are of the same length and in the same
// order.
func NewPaired(x, y []float64, alpha float64) Paired {
	d := Differences(x, y)
	p := Paired{Baseline: NewSample(x), Arm: NewSample(y), Difference: NewSample(d).Mean, Inference: InferPaired(d, 0, alpha)}
	if len(d) == 0 {
		p.Difference = results.Number(math.NaN())
	}
	return p
}

// Differences are y - x, element by element.
func Differences(x, y []float64) []float64 {
	d := make([]float64, len(x))
	for i := range d {
		d[i] = y[i] - x[i]
	}
	return d
}
