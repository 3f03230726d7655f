package statistics

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

const (
	// exactFlips is the number of pairs up to which all 2ⁿ signs are tried.
	exactFlips = 20
	// drawnFlips is how many are drawn beyond.
	drawnFlips = 100_000
)

// signFlip is the two-sided p of the permutation test of paired differences: if the two arms were exchangeable in each pair, every difference
// could as well have the other sign; p is the share of all signs under which |Σd| is at least as great as it is. It takes nothing for granted
// about the distribution, and can't be less than 2/2ⁿ: 5 pairs never reach 0.05.
//
// Up to exactFlips pairs it is exact. Beyond, signs are drawn, and the observed ones count as one of the draws, so that p is never 0. Source:
// Fisher 1935, The Design of Experiments, section 21; Phipson, Smyth 2010, Stat. Appl. Genet. Mol. Biol. 9:39.
func SignFlip(d []float64) float64 {
	observed, scale := 0.0, 0.0
	for _, v := range d {
		observed += v
		scale += math.Abs(v)
	}
	// Sums in another order differ in their last bits, and are ties.
	reach := math.Abs(observed) - 1e-12*scale
	if len(d) <= exactFlips {
		// Each step of a Gray code flips one sign. The first one stays: the other half of the signs mirrors this one.
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
	rng, count := resampling(), 1
	for range drawnFlips {
		sum := 0.0
		var word uint64
		for i, v := range d {
			if i%64 == 0 {
				word = rng.Uint64()
			}
			if word>>(i%64)&1 == 1 {
				v = -v
			}
			sum += v
		}
		if math.Abs(sum) >= reach {
			count++
		}
	}
	return float64(count) / (drawnFlips + 1)
}

// leastSignFlip is the least p that n pairs can have.
func LeastSignFlip(n int) float64 { return min(1, 2/math.Pow(2, float64(n))) }

// holm adjusts p values of a family of tests, so that rejecting those at or below α makes a false rejection with at most probability α over the
// whole family: the i-th smallest of m is multiplied by m-i+1, and none is below one before. Source: Holm 1979, Scand. J. Stat. 6:65.
func HolmAdjusted(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	adjusted := make([]float64, len(p))
	last := 0.0
	for rank, i := range order {
		last = max(last, min(1, float64(len(p)-rank)*p[i]))
		adjusted[i] = last
	}
	return adjusted
}
