package regression

import (
	"gonum.org/v1/gonum/stat/distuv"

	"harness.invalid/results/statistics"
)

// powerRegressed is the probability that check says REGRESSED (see test) about a change for the worse of mean δ, if
// its estimate D has standard error σ and the estimate of σ has ν degrees of freedom:
//
//	P( D > max(L, t·S) )    D ~ N(δ, σ²)    S ~ σ·√(χ²_ν/ν)    t = t_{1-α, ν}
//
// For a tolerance L of 0 this is the upper tail of the noncentral t distribution.
func powerRegressed(delta, limit, sigma, df, alpha float64) float64 {
	if sigma == 0 {
		return outcome(delta > limit)
	}
	t := distuv.StudentsT{Sigma: 1, Nu: df}.Quantile(1 - alpha)
	power := statistics.OverSD(df, func(u float64) float64 {
		return statistics.NormalCDF((delta - max(limit, t*u*sigma)) / sigma)
	}, limit/(t*sigma))
	return min(1, power)
}

// powerDecided is the probability that check decides either way, which it does not for
//
//	L - t·S < D ≤ max(L, t·S)
func powerDecided(delta, limit, sigma, df, alpha float64) float64 {
	if sigma == 0 {
		return 1
	}
	t := distuv.StudentsT{Sigma: 1, Nu: df}.Quantile(1 - alpha)
	return 1 - statistics.OverSD(df, func(u float64) float64 {
		noise := t * u * sigma
		return statistics.NormalCDF((max(limit, noise)-delta)/sigma) - statistics.NormalCDF((limit-noise-delta)/sigma)
	}, limit/(t*sigma))
}

// outcome is the probability of an event that is certain, or impossible.
func outcome(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
