package results

import (
	"math"

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
	enough := func(n int) bool { return powerSettled(delta, margin, sd, n, alpha) >= settlePower }
	low, high := n, n+1 // low is not enough
	for !enough(high) {
		if high-n >= maxPairs {
			return maxPairs
		}
		low, high = high, min(n+2*(high-n), n+maxPairs)
	}
	for high-low > 1 {
		if middle := (low + high) / 2; enough(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high - n
}

func normal(x float64) float64 { return distuv.UnitNormal.CDF(x) }

// overSD integrates f(u) over the distribution of u = √(χ²_ν/ν), the ratio of an estimated standard deviation to the true one. f must be
// smooth but for the breaks, which are in ascending order.
func overSD(df float64, f func(u float64) float64, breaks ...float64) float64 {
	chi := distuv.ChiSquared{K: df}
	density := func(u float64) float64 { return 2 * df * u * chi.Prob(df*u*u) }
	// u has a standard deviation close to 1/√(2ν), and 12 of them hold all that a float64 sees; below, it ends at 0.
	reach := 12 / math.Sqrt(2*df)
	from, end := max(0, 1-reach), 1+reach
	sum := 0.0
	for _, to := range append(breaks, end) {
		to = min(max(to, from), end)
		if to > from {
			sum += quad.Fixed(func(u float64) float64 { return f(u) * density(u) }, from, to, 120, quad.Legendre{}, 1)
			from = to
		}
	}
	return sum
}
