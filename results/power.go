package results

import (
	"math"
	"sync"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/stat/distuv"
)

const (
	// settlePower is the probability with which the seeds that are asked for settle a verdict.
	settlePower = 0.9
	// maxPairs is where the search for a number of seeds ends.
	maxPairs = 10_000
)

// powerEquivalence is the probability that TOST finds a difference δ to lie within ±margin, when its estimate has the standard error σ and
// the estimate of that has ν degrees of freedom:
//
//	P( -Δ + t·S < D < Δ - t·S )    D ~ N(δ, σ²)    S ~ σ·√(χ²_ν/ν)    t = t_{1-α, ν}
//
// It is exact up to the quadrature. Source: Phillips 1990, J. Pharmacokinet. Biopharm. 18:137, who writes the integral as Owen's Q.
func powerEquivalence(delta, margin, sigma, df, alpha float64) float64 {
	t := distuv.StudentsT{Sigma: 1, Nu: df}.Quantile(1 - alpha)
	return overSD(df, func(u float64) float64 {
		half := margin - t*u*sigma
		return max(0, normal((half-delta)/sigma)-normal((-half-delta)/sigma))
	}, margin/(t*sigma))
}

// powerSettled is the probability that n pairs whose differences have mean δ and standard deviation sd bring a verdict, EQUIVALENT or
// DIFFERENT. With s the estimate of sd/√n, neither comes out when
//
//	Δ - t_{1-α}·s ≤ |d̄| ≤ t_{1-α/2}·s
//
// (see verdictOf), which can't be for s below Δ/(t_{1-α} + t_{1-α/2}): with enough pairs every difference is settled.
func powerSettled(delta, margin, sd float64, n int, alpha float64) float64 {
	df := float64(n - 1)
	sigma := sd / math.Sqrt(float64(n))
	student := distuv.StudentsT{Sigma: 1, Nu: df}
	t1, t2 := student.Quantile(1-alpha), student.Quantile(1-alpha/2)
	return 1 - overSD(df, func(u float64) float64 {
		low, high := max(0, margin-t1*u*sigma), t2*u*sigma
		if high <= low {
			return 0
		}
		return normal((high-delta)/sigma) - normal((low-delta)/sigma) + normal((-low-delta)/sigma) - normal((-high-delta)/sigma)
	}, margin/((t1+t2)*sigma), margin/(t1*sigma))
}

// furtherPairs is how many pairs besides n would settle the verdict with settlePower, if the difference and its spread are what they look like;
// maxPairs when that many would not do.
func furtherPairs(delta, margin, sd float64, n int, alpha float64) int {
	return furtherRuns(func(k int) float64 { return powerSettled(delta, margin, sd, n+k, alpha) })
}

// furtherRuns is the least number of runs that has settlePower, where power tells what so many further ones have; maxPairs when that many would not do.
func furtherRuns(power func(further int) float64) int {
	low, high := 0, 1 // low is not enough
	for power(high) < settlePower {
		if high >= maxPairs {
			return maxPairs
		}
		low, high = high, min(2*high, maxPairs)
	}
	for high-low > 1 {
		if middle := (low + high) / 2; power(middle) >= settlePower {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}

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
	return min(1, overSD(df, func(u float64) float64 { return normal((delta - max(limit, t*u*sigma)) / sigma) }, limit/(t*sigma)))
}

// powerDecided is the probability that check says one or the other: all but
//
//	L - t·S < D ≤ max(L, t·S)
func powerDecided(delta, limit, sigma, df, alpha float64) float64 {
	if sigma == 0 {
		return 1
	}
	t := distuv.StudentsT{Sigma: 1, Nu: df}.Quantile(1 - alpha)
	return 1 - overSD(df, func(u float64) float64 {
		noise := t * u * sigma
		return normal((max(limit, noise)-delta)/sigma) - normal((limit-noise-delta)/sigma)
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

func normal(x float64) float64 { return distuv.UnitNormal.CDF(x) }

// overSD integrates f(u) over the distribution of u = √(χ²_ν/ν), the ratio of an estimated standard deviation to the true one. f must be
// smooth but for the breaks, which are in ascending order.
func overSD(df float64, f func(u float64) float64, breaks ...float64) float64 {
	// The density is 2νu times that of χ²_ν at νu².
	gamma, _ := math.Lgamma(df / 2)
	scale := math.Ln2 + df/2*math.Log(df/2) - gamma
	density := func(u float64) float64 { return math.Exp(scale + (df-1)*math.Log(u) - df/2*u*u) }
	// u has a standard deviation close to 1/√(2ν), and 12 of them hold all that a float64 sees; below, it ends at 0.
	reach := 12 / math.Sqrt(2*df)
	from, end := max(0, 1-reach), 1+reach
	sum := 0.0
	nodes, weights := legendre()
	for _, to := range append(breaks, end) {
		to = min(max(to, from), end)
		if to > from {
			half := (to - from) / 2
			for i, x := range nodes {
				u := from + half*(1+x)
				sum += half * weights[i] * f(u) * density(u)
			}
			from = to
		}
	}
	return sum
}

// legendre are the places and weights of Gauss and Legendre's rule on [-1, 1].
var legendre = sync.OnceValues(func() (nodes, weights []float64) {
	const points = 120
	nodes, weights = make([]float64, points), make([]float64, points)
	quad.Legendre{}.FixedLocations(nodes, weights, -1, 1)
	return nodes, weights
})
