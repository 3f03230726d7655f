package verdict

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"harness.invalid/results/statistics"
)

// powerSettled is the probability that n pairs, whose differences have mean δ and standard deviation sd, bring a
// verdict of EQUIVALENT or DIFFERENT. With s the estimate of sd/√n, decide says neither if
//
//	Δ - t_{1-α}·s ≤ |d̄| ≤ t_{1-α/2}·s
//
// which cannot be for s below Δ/(t_{1-α} + t_{1-α/2}): enough pairs settle every difference.
func powerSettled(delta, margin, sd float64, n int, alpha float64) float64 {
	df := float64(n - 1)
	sigma := sd / math.Sqrt(float64(n))
	student := distuv.StudentsT{Sigma: 1, Nu: df}
	t1, t2 := student.Quantile(1-alpha), student.Quantile(1-alpha/2)
	phi := statistics.NormalCDF
	return 1 - statistics.OverSD(df, func(u float64) float64 {
		low, high := max(0, margin-t1*u*sigma), t2*u*sigma
		if high <= low {
			return 0
		}
		return phi((high-delta)/sigma) - phi((low-delta)/sigma) + phi((-low-delta)/sigma) - phi((-high-delta)/sigma)
	}, margin/((t1+t2)*sigma), margin/(t1*sigma))
}

// furtherPairs is how many pairs in addition to n would settle the verdict with statistics.SettlePower, if the
// difference and its spread are what they seem to be; statistics.MaxPairs if that many would not.
func furtherPairs(delta, margin, sd float64, n int, alpha float64) int {
	return statistics.FurtherRuns(func(k int) float64 { return powerSettled(delta, margin, sd, n+k, alpha) })
}
