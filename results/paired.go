package results

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Paired is a sample of differences between two arms, one for each seed: b - a. Pairing takes away what both arms have in common, since a
// seed fixes initial parameters, order of data, masks and dropout.
type Paired struct {
	N    int     // pairs
	Mean float64 // of the differences
	SD   float64 // of the differences, with N-1; NaN for fewer than two
}

// NewPaired computes the statistics of b - a; the slices have the same length.
func NewPaired(a, b []float64) Paired {
	d := make([]float64, len(a))
	for i := range d {
		d[i] = b[i] - a[i]
	}
	p := Paired{N: len(d), Mean: stat.Mean(d, nil), SD: math.NaN()}
	if len(d) > 1 {
		p.SD = stat.StdDev(d, nil)
	}
	return p
}

// t is Student's distribution with the sample's degrees of freedom.
func (p Paired) t() distuv.StudentsT { return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(p.N - 1)} }

// se is the standard error of the mean.
func (p Paired) se() float64 { return p.SD / math.Sqrt(float64(p.N)) }

// Interval is the t confidence interval of the mean difference at a level such as 0.95. It takes two pairs or more.
func (p Paired) Interval(level float64) (low, high float64) {
	half := p.t().Quantile((1+level)/2) * p.se()
	return p.Mean - half, p.Mean + half
}

// PDifferent is the p-value of the paired t-test, two-sided, of the hypothesis that the mean difference is 0.
func (p Paired) PDifferent() float64 {
	if p.SD == 0 {
		return certain(p.Mean != 0)
	}
	return 2 * p.t().Survival(math.Abs(p.Mean)/p.se())
}

// PEquivalent is the p-value of the two one-sided tests (TOST) of the hypothesis that the mean difference is outside of ±margin: the greater
// of the two. It is below alpha exactly when Interval(1-2·alpha) lies within ±margin.
//
// Source: Schuirmann 1987, J. Pharmacokinet. Biopharm. 15:657-680.
func (p Paired) PEquivalent(margin float64) float64 {
	if p.SD == 0 {
		return certain(math.Abs(p.Mean) < margin)
	}
	return p.t().Survival((margin - math.Abs(p.Mean)) / p.se())
}

// certain is the p-value where there is no variance: all seeds agree.
func certain(shown bool) float64 {
	if shown {
		return 0
	}
	return 1
}

// maxSeeds is where the search for a sufficient number of seeds ends.
const maxSeeds = 10000

// power is the probability with which a test is to show what is there.
const power = 0.9

// SeedsNeeded is the least number of pairs with which one of the tests, for equivalence or for a difference, has a power of 0.9, if mean and
// standard deviation stay what they are; 0 when 10000 are not enough. margin 0: the test for a difference alone.
//
// Power is that of the t-tests with the noncentral distribution replaced by a shifted central one.
func (p Paired) SeedsNeeded(margin, alpha float64) int {
	delta := math.Abs(p.Mean)
	for n := 2; n <= maxSeeds; n++ {
		t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n - 1)}
		se := p.SD / math.Sqrt(float64(n))
		equivalent := t.CDF((margin-delta)/se-t.Quantile(1-alpha)) + t.CDF((margin+delta)/se-t.Quantile(1-alpha)) - 1
		different := t.CDF(delta/se - t.Quantile(1-alpha/2))
		if equivalent >= power || different >= power {
			return n
		}
	}
	return 0
}

// PFailures is the p-value, two-sided, of the hypothesis that two arms fail alike, given the seeds in which only a or only b failed: the exact
// sign test, which is McNemar's.
func PFailures(onlyA, onlyB int) float64 {
	n := onlyA + onlyB
	if n == 0 {
		return 1
	}
	half := distuv.Binomial{N: float64(n), P: 0.5}
	return min(1, 2*half.CDF(float64(min(onlyA, onlyB))))
}
