package statistics

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"harness.invalid/results"
)

const (
	// mostReplicates is the number of bootstrap samples of up to mostDrawn/mostReplicates values; of more values,
	// mostDrawn are drawn in all, in leastReplicates samples at least. Efron and Tibshirani 1993, section 14.3, ask for
	// 1000 or more for an interval.
	mostReplicates  = 10_000
	leastReplicates = 2_000
	mostDrawn       = 2_000_000
	// leastBootstrap is the least number of values for a bootstrap interval. Fewer have too few distinct resamples
	// (10 for 3 values), and the interval would claim a precision that it does not have.
	leastBootstrap = 4
)

// resampling is the source of random numbers for one interval. Its seed is fixed, so that printing a table again
// changes nothing.
func resampling() *rand.Rand { return rand.New(rand.NewPCG(0x9e3779b97f4a7c15, 1)) }

// bca is the bias-corrected and accelerated bootstrap interval of a statistic at a level; nil for fewer than
// leastBootstrap values. With θ* the statistic of values drawn with replacement, its ends are the quantiles α₁ and
// α₂ of θ*:
//
//	α = Φ( z₀ + (z₀ + z)/(1 - a·(z₀ + z)) )    z = Φ⁻¹((1∓level)/2)
//	z₀ = Φ⁻¹( #{θ* < θ}/B )                    bias of the median; ties count half
//	a  = Σ(θ̄ - θ₍ᵢ₎)³ / 6(Σ(θ̄ - θ₍ᵢ₎)²)^(3/2)    acceleration, from θ without the i-th value
//
// θ is a mean, whose acceleration is Σ(x - x̄)³/6(Σ(x - x̄)²)^(3/2), or any other statistic.
//
// It needs no normal distribution and follows skewness, but it is too narrow for few values: below about 10, trust
// the t interval. Source: Efron, Tibshirani 1993, An Introduction to the Bootstrap, section 14.3.
func bca(values []float64, statistic func([]float64) float64, level float64) *Interval {
	if len(values) < leastBootstrap {
		return nil
	}
	return bcaAccelerated(values, statistic, acceleration(values, statistic), level)
}

// bcaOfMean is bca of the mean, in time proportional to the number of values.
func bcaOfMean(values []float64, level float64) *Interval {
	if len(values) < leastBootstrap {
		return nil
	}
	return bcaAccelerated(values, meanOf, accelerationOfMean(values), level)
}

// bootstrapReplicates is the number of bootstrap samples of n values.
func bootstrapReplicates(n int) int { return max(leastReplicates, min(mostReplicates, mostDrawn/n)) }

func bcaAccelerated(values []float64, statistic func([]float64) float64, a, level float64) *Interval {
	n := len(values)
	theta := statistic(values)
	rng := resampling()
	draws, sample := make([]float64, bootstrapReplicates(n)), make([]float64, n)
	for b := range draws {
		for i := range sample {
			sample[i] = values[rng.IntN(n)]
		}
		draws[b] = statistic(sample)
	}
	slices.Sort(draws)
	z0 := bias(draws, theta)
	end := func(p float64) results.Number {
		z := z0 + distuv.UnitNormal.Quantile(p)
		return results.Number(stat.Quantile(NormalCDF(z0+z/(1-a*z)), stat.Empirical, draws, nil))
	}
	return &Interval{end((1 - level) / 2), end((1 + level) / 2), level}
}

// bias is z₀ of sorted draws. If all draws lie on one side, which leaves z₀ infinite, one of them counts as on the
// other.
func bias(draws []float64, theta float64) float64 {
	// Sums in another order differ in their last bits, and count as ties.
	slack := 1e-12 * max(math.Abs(theta), math.Abs(draws[0]), math.Abs(draws[len(draws)-1]))
	below, _ := slices.BinarySearchFunc(draws, theta-slack, cmp.Compare[float64])
	upTo, _ := slices.BinarySearchFunc(draws, theta+slack, cmp.Compare[float64])
	n := float64(len(draws))
	share := float64(below+upTo) / 2 / n
	return distuv.UnitNormal.Quantile(min(max(share, 1/n), 1-1/n))
}

// acceleration is a of bca, by the jackknife.
func acceleration(values []float64, statistic func([]float64) float64) float64 {
	left := make([]float64, len(values))
	without := make([]float64, len(values)-1)
	for i := range values {
		copy(without, values[:i])
		copy(without[i:], values[i+1:])
		left[i] = statistic(without)
	}
	return -skewOf(left)
}

// accelerationOfMean is acceleration of the mean: without a value, it is further from the mean of all by as much as the
// value is to the other side, divided by n-1.
func accelerationOfMean(values []float64) float64 { return skewOf(values) }

// skewOf is Σ(x - x̄)³/6(Σ(x - x̄)²)^(3/2); 0 for equal values.
func skewOf(values []float64) float64 {
	mean := stat.Mean(values, nil)
	var squares, cubes float64
	for _, v := range values {
		d := v - mean
		squares += d * d
		cubes += d * d * d
	}
	if squares == 0 {
		return 0
	}
	return cubes / (6 * math.Pow(squares, 1.5))
}

// MultiBootstrap is a difference resampled over seeds and examples together: what other seeds and other examples of
// the same kinds would show. The t interval over seeds speaks of these very examples alone.
type MultiBootstrap struct {
	Seeds    int            `json:"seeds"`
	Examples int            `json:"examples"`
	SE       results.Number `json:"se"`
	Interval Interval       `json:"interval"` // percentiles
	// P is two-sided: twice the share of replicates on the other side of 0.
	P results.Number `json:"p"`
}

// multiReplicates is the number of bootstrap samples over seeds and examples. The published program's default is 1000.
const multiReplicates = 1_000

// NewMultiBootstrap resamples rows (seeds) and columns (examples) of differences, arm - baseline, independently and
// with replacement, and takes the mean of each replicate; nil unless there are two or more of each.
//
// Source: Sellam et al. 2022, The MultiBERTs (arXiv:2106.16163), section 4, the paired design;
// google-research/language, multibootstrap.py.
func NewMultiBootstrap(differences [][]float64, level float64) *MultiBootstrap {
	rows := len(differences)
	if rows < 2 || len(differences[0]) < 2 {
		return nil
	}
	columns := len(differences[0])
	// Two runs of the same seed agree on most examples.
	differ := make([][]int32, rows)
	for r, row := range differences {
		for i, d := range row {
			if d != 0 {
				differ[r] = append(differ[r], int32(i))
			}
		}
	}
	rng := resampling()
	draws, weights := make([]float64, multiReplicates), make([]float64, columns)
	for b := range draws {
		clear(weights)
		for range columns {
			weights[rng.IntN(columns)]++
		}
		sum := 0.0
		for range rows {
			r := rng.IntN(rows)
			for _, i := range differ[r] {
				sum += weights[i] * differences[r][i]
			}
		}
		draws[b] = sum / float64(rows) / float64(columns)
	}
	slices.Sort(draws)
	side := func(below bool) float64 {
		n := 0.0
		for _, d := range draws {
			if d == 0 || (d < 0) == below {
				n++
			}
		}
		return n / multiReplicates
	}
	quantile := func(p float64) results.Number { return results.Number(stat.Quantile(p, stat.Empirical, draws, nil)) }
	return &MultiBootstrap{
		Seeds: rows, Examples: columns, SE: results.Number(stat.StdDev(draws, nil)),
		Interval: Interval{quantile((1 - level) / 2), quantile((1 + level) / 2), level},
		P:        results.Number(min(1, 2*min(side(true), side(false)))),
	}
}
