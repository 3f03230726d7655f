package verdict

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"harness.invalid/results/statistics"
)

// powerSettled is the probability that n pairs, whose differences have mean δ and standard deviation sd, bring a
// verdict of EQUIVALENT or DIFFERENT. With s the estimate of sd/√n, decide says neither if
//
//	Δ - t_{1-α}·s ≤ |d̄| < max(Δ, t_{1-α/2}·s)
//
// Enough pairs settle every difference but one of exactly Δ, which half of all samples reach.
func powerSettled(delta, margin, sd float64, n int, l statistics.Look) float64 {
	df := float64(n - 1)
	sigma := sd / math.Sqrt(float64(n))
	student := distuv.StudentsT{Sigma: 1, Nu: df}
	t1, t2 := student.Quantile(1-l.Equivalence), math.MaxFloat32 // too early for DIFFERENT
	if l.Difference > 0 {
		t2 = student.Quantile(1 - l.Difference/2)
	}
	phi := statistics.NormalCDF
	return 1 - statistics.OverSD(df, func(u float64) float64 {
		low, high := max(0, margin-t1*u*sigma), max(margin, t2*u*sigma)
		return phi((high-delta)/sigma) - phi((low-delta)/sigma) + phi((-low-delta)/sigma) - phi((-high-delta)/sigma)
	}, min(1/t1, 1/t2)*margin/sigma, max(1/t1, 1/t2)*margin/sigma)
}

// furtherPairs is how many pairs in addition to n would settle the verdict with statistics.SettlePower at the level of
// one of so many tests, if the difference is what it seems to be, and the standard deviation at its upper limit;
// statistics.MaxPairs if that many would not. Beyond says that the plan ends before, and the number is that of the
// shortest longer plan.
func (r *rule) furtherPairs(delta, margin, sd float64, n, tests int) (pairs int, beyond bool) {
	sd *= statistics.GreatestSD(float64(n - 1))
	settled := func(n int, l statistics.Look) bool {
		l.Equivalence /= float64(tests)
		l.Difference /= float64(tests)
		return powerSettled(delta, margin, sd, n, l) >= statistics.SettlePower
	}
	if r.plan == nil {
		return statistics.FurtherRuns(func(k int) float64 {
			l := r.Look
			l.Equivalence /= float64(tests)
			l.Difference /= float64(tests)
			return powerSettled(delta, margin, sd, n+k, l)
		}), false
	}
	for _, l := range r.plan.Looks {
		if l.Pairs > n && settled(l.Pairs, l) {
			return l.Pairs - n, false
		}
	}
	for last := r.plan.Last() + 1; last <= statistics.MostPairs; last++ {
		if p, err := statistics.Sequential(last, r.plan.Alpha); err == nil && settled(last, p.Looks[len(p.Looks)-1]) {
			return last - n, true
		}
	}
	return statistics.MaxPairs, true
}

// furtherSigns is how many pairs in addition to n would settle the verdict by the sign test, if they all end the way
// that the decided ones did; 0: more than the plan has.
func (r *rule) furtherSigns(n, decided int) int {
	if r.plan == nil {
		k := 1
		for statistics.SignTest(0, decided+k) > r.Difference {
			k++
		}
		return k
	}
	for _, l := range r.plan.Looks {
		if k := l.Pairs - n; k > 0 && statistics.SignTest(0, decided+k) <= l.Difference {
			return k
		}
	}
	return 0
}
