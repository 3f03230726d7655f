package regression

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"harness.invalid/results/statistics"
)

// powerRegressed is the probability that check says REGRESSED of a change for the worse of mean δ, when its estimate D has the standard error σ and the
// estimate of that has ν degrees of freedom (see test):
//
//	P( D > max(L, t·S) )    D ~ N(δ, σ²)    S ~ σ·√(χ²_ν/ν)    t = t_{1-α, ν}
//
// For a tolerance L of 0 this is the upper tail of the noncentral t distribution.
func powerRegressed(delta, limit, sigma, df, alpha float64) float64 {
	if sigma == 0 {
		return outcome(delta > limit)
	}
	t := distuv.StudentsT{Sigma: 1, Nu: df}.Quantile(1 - alpha)
	return min(1, statistics.OverSD(df, func(u float64) float64 { return statistics.Normal((delta - max(limit, t*u*sigma)) / sigma) }, limit/(t*sigma)))
}

// powerDecided is the probability that check says one or the other: all but
//
//	L - t·S < D ≤ max(L, t·S)
func powerDecided(delta, limit, sigma, df, alpha float64) float64 {
	if sigma == 0 {
		return 1
	}
	t := distuv.StudentsT{Sigma: 1, Nu: df}.Quantile(1 - alpha)
	return 1 - statistics.OverSD(df, func(u float64) float64 {
		noise := t * u * sigma
		return statistics.Normal((max(limit, noise)-delta)/sigma) - statistics.Normal((limit-noise-delta)/sigma)
	}, limit/(t*sigma))
}

// greatestSD is what a standard deviation that was estimated with ν degrees of freedom stays below with a confidence of 0.8, as a multiple of the
// estimate: √(ν/χ²_{0.2, ν}), which is 3.9 for two values and 1.2 for twenty. A power computed with it is not more than the true one four times of five,
// where with the estimate itself it would be one of two. Source: Browne 1995, Stat. Med. 14:1933.
func greatestSD(df float64) float64 { return math.Sqrt(df / distuv.ChiSquared{K: df}.Quantile(0.2)) }

// outcome is the probability of what is known.
func outcome(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
