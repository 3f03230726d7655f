package statistics

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestRankSums: permeability of membranes at term and some weeks before. Source: Hollander, Wolfe, Chicken 2014,
// examples 4.1, 4.3 and 4.4 (the data of R's wilcox.test): the estimate is -0.305, and the interval at level 0.96
// goes from -0.76 to 0.15.
func TestRankSums(t *testing.T) {
	term := []float64{0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46}
	early := []float64{1.15, 0.88, 0.90, 0.74, 1.21}
	center, low, high := RankSums(term, early, 0.02)
	near(t, "center", center, -0.305, 1e-12)
	near(t, "low", low, -0.76, 1e-12)
	near(t, "high", high, 0.15, 1e-12)
}

// TestRankSumReach: critical values of U at the one-sided level 0.05, plus 1. Source: Conover 1999, Practical
// Nonparametric Statistics, table A7; Mann, Whitney 1947, table I, has the probability 0.048 of U ≤ 4 by 5 and 5
// values.
func TestRankSumReach(t *testing.T) {
	for _, c := range []struct{ n, m, want int }{{1, 3, 0}, {2, 3, 0}, {1, 19, 1}, {3, 3, 1}, {4, 4, 2}, {5, 5, 5}, {3, 5, 2},
		{5, 3, 2}, {6, 6, 8}, {10, 10, 28}, {20, 20, 139}} {
		if got := RankSumReach(c.n, c.m, 0.05); got != c.want {
			t.Errorf("%d and %d values: %d, want %d", c.n, c.m, got, c.want)
		}
	}
}

// TestRankSumsCoverage: an end of the interval is on the wrong side of the truth at a rate of at most α, also for a
// distribution with a long tail, and where it can be as often as the orders of the values allow.
func TestRankSumsCoverage(t *testing.T) {
	const trials = 4000
	rng := rand.New(rand.NewPCG(5, 6))
	draw := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = rng.ExpFloat64()
			if rng.IntN(10) == 0 {
				v[i] *= 20
			}
		}
		return v
	}
	for _, c := range []struct {
		n    int
		rate float64
	}{{3, 1.0 / 20}, {5, 12.0 / 252}} {
		above, below := 0.0, 0.0
		for range trials {
			_, low, high := RankSums(draw(c.n), draw(c.n), 0.05)
			if low > 0 {
				above += 1.0 / trials
			}
			if high < 0 {
				below += 1.0 / trials
			}
		}
		slack := 4 * math.Sqrt(c.rate*(1-c.rate)/trials)
		if math.Abs(above-c.rate) > slack || math.Abs(below-c.rate) > slack {
			t.Errorf("%d and %d values: the ends are wrong at rates of %.3f and %.3f, want %.3f", c.n, c.n, above, below, c.rate)
		}
	}
}
