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
func powerSettled(delta, margin, sd float64, n int, alpha float64) float64 {
	df := float64(n - 1)
	sigma := sd / math.Sqrt(float64(n))
	student := distuv.StudentsT{Sigma: 1, Nu: df}
	t1, t2 := student.Quantile(1-alpha), student.Quantile(1-alpha/2)
	phi := statistics.NormalCDF
	return 1 - statistics.OverSD(df, func(u float64) float64 {
		low, high := max(0, margin-t1*u*sigma), max(margin, t2*u*sigma)
		return phi((high-delta)/sigma) - phi((low-delta)/sigma) + phi((-low-delta)/sigma) - phi((-high-delta)/sigma)
	}, min(1/t1, 1/t2)*margin/sigma, max(1/t1, 1/t2)*margin/sigma)
}

// furtherPairs is how many pairs in addition to n would settle the verdict with statistics.SettlePower, if the
// difference is what it seems to be, and the standard deviation at its upper limit; statistics.MaxPairs if that many
// would not.
func furtherPairs(delta, margin, sd float64, n int, alpha float64) int {
	sd *= statistics.GreatestSD(float64(n - 1))
	return statistics.FurtherRuns(func(k int) float64 { return powerSettled(delta, margin, sd, n+k, alpha) })
}
