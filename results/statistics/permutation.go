package statistics

import (
	"math"
	"math/bits"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

const (
	// exactFlips is the greatest number of pairs for which all 2ⁿ signs are tried.
	exactFlips = 20
	// drawnFlips is the number of random draws of signs beyond that.
	drawnFlips = 100_000
)

// SignFlip is the two-sided p of the permutation test of paired differences. If the two arms were exchangeable
// within each pair, every difference could as well have the opposite sign; p is the share of all 2ⁿ choices of
// signs under which |Σd| is at least as large as observed. It assumes nothing about the distribution, and p is
// never below 2/2ⁿ: 5 pairs cannot reach 0.05.
//
// Up to exactFlips pairs it is exact. Beyond, signs are drawn, and the observed ones count as one of the draws, so
// that p is never 0. Sources: Fisher 1935, The Design of Experiments, section 21; Phipson, Smyth 2010, Stat. Appl.
// Genet. Mol. Biol. 9:39.
func SignFlip(d []float64) float64 {
	observed, scale := 0.0, 0.0
	for _, v := range d {
		observed += v
		scale += math.Abs(v)
	}
	// Sums in another order differ in their last bits, and count as ties.
	reach := math.Abs(observed) - 1e-12*scale
	if len(d) <= exactFlips {
		return flipAll(d, observed, reach)
	}
	return flipDrawn(d, reach)
}

// flipAll tries all signs. Each step of a Gray code flips one. The first sign stays: the other half of the choices
// mirrors this one.
func flipAll(d []float64, observed, reach float64) float64 {
	sum, count := observed, 1
	signs := slices.Clone(d)
	total := 1 << max(0, len(d)-1)
	for k := 1; k < total; k++ {
		i := 1 + bits.TrailingZeros(uint(k))
		sum -= 2 * signs[i]
		signs[i] = -signs[i]
		if math.Abs(sum) >= reach {
			count++
		}
	}
	return float64(count) / float64(total)
}

func flipDrawn(d []float64, reach float64) float64 {
	rng, count := resampling(), 1
	sums := flippedSums(d)
	for range drawnFlips {
		sum := 0.0
		var word uint64
		for i := range sums {
			if i%8 == 0 {
				word = rng.Uint64()
			}
			sum += sums[i][byte(word>>(i%8*8))]
		}
		if math.Abs(sum) >= reach {
			count++
		}
	}
	return float64(count) / (drawnFlips + 1)
}

// flippedSums has, for every eight differences, their sum under all choices of signs; a bit that is set flips one.
func flippedSums(d []float64) [][256]float64 {
	sums := make([][256]float64, (len(d)+7)/8)
	for i := range sums {
		for signs := range sums[i] {
			for bit, v := range d[8*i : min(8*i+8, len(d))] {
				if signs>>bit&1 == 1 {
					v = -v
				}
				sums[i][signs] += v
			}
		}
	}
	return sums
}

// LeastSignFlip is the smallest p that SignFlip can return for n pairs.
func LeastSignFlip(n int) float64 { return min(1, 2/math.Pow(2, float64(n))) }

// SignTest is the two-sided p of the exact sign test, for values that can be ordered but not subtracted: of n pairs
// that differ, so many are better. Source: Conover 1999, Practical Nonparametric Statistics, 3.4.
func SignTest(better, n int) float64 {
	if n == 0 {
		return 1
	}
	k := float64(min(better, n-better))
	return min(1, 2*distuv.Binomial{N: float64(n), P: 0.5}.CDF(k))
}
