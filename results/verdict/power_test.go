package verdict

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"

	"harness.invalid/results/statistics"
)

// powerEquivalence is the probability that TOST finds a difference δ to lie within ±margin, when its estimate has
// the standard error σ and the estimate of that has ν degrees of freedom:
//
//	P( -Δ + t·S < D < Δ - t·S )    D ~ N(δ, σ²)    S ~ σ·√(χ²_ν/ν)    t = t_{1-α, ν}
//
// It is exact up to the quadrature. Source: Phillips 1990, J. Pharmacokinet. Biopharm. 18:137, who writes the
// integral as Owen's Q.
func powerEquivalence(delta, margin, sigma, df, alpha float64) float64 {
	t := distuv.StudentsT{Sigma: 1, Nu: df}.Quantile(1 - alpha)
	return statistics.OverSD(df, func(u float64) float64 {
		half := margin - t*u*sigma
		return max(0, statistics.NormalCDF((half-delta)/sigma)-statistics.NormalCDF((-half-delta)/sigma))
	}, margin/(t*sigma))
}

// TestPowerOfBioequivalence: the 2x2 crossover at true ratio 0.95 and limits 0.8 to 1.25. The standard error is
// √(2/n) times the standard deviation within subjects on the log scale, √ln(1+CV²), with n-2 degrees of freedom.
// Sources: Diletti, Hauschke, Steinijans 1991, Int. J. Clin. Pharmacol. Ther. Toxicol. 29:1, table 1 (28 subjects
// at CV 25%, 40 at 30%), and the manual of R's PowerTOST, which prints these powers.
func TestPowerOfBioequivalence(t *testing.T) {
	power := func(cv float64, n int) float64 {
		sigma := math.Sqrt(math.Log1p(cv*cv) * 2 / float64(n))
		return powerEquivalence(math.Log(0.95), math.Log(1.25), sigma, float64(n-2), 0.05)
	}
	for _, c := range []struct {
		cv   float64
		n    int
		want float64
	}{{0.20, 20, 0.834680}, {0.25, 28, 0.807439}, {0.30, 40, 0.815845}} {
		near(t, "power", power(c.cv, c.n), c.want, 5e-7)
		if p := power(c.cv, c.n-2); p >= 0.8 {
			t.Errorf("CV %g: %d subjects have a power of %.4f, the table needs %d for 0.8", c.cv, c.n-2, p, c.n)
		}
	}
}

// TestErrorRates draws pairs and counts verdicts: wrong ones come with probability α at most, and as many are
// settled as powerSettled says.
func TestErrorRates(t *testing.T) {
	const (
		trials = 2_000
		alpha  = 0.05
		margin = 1.0
	)
	// Four standard errors of a rate: once in 16,000 draws of a correct program, and never with this seed.
	slack := func(p float64) float64 { return 4 * math.Sqrt(p*(1-p)/trials) }
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		delta, sd float64
		n         int
	}{{0, 0.3, 3}, {0, 1, 5}, {0, 1, 20}, {1, 0.2, 3}, {1, 0.5, 5}, {1, 1, 20}, {-1, 0.5, 10}, {0.5, 1, 10}} {
		counts := map[Decision]int{}
		for range trials {
			var d [20]float64
			for i := range c.n {
				d[i] = c.delta + c.sd*rng.NormFloat64()
			}
			mean, sd := stat.MeanStdDev(d[:c.n], nil)
			counts[decide(mean, statistics.Infer(mean, sd, c.n, margin, alpha), margin)]++
		}
		rate := func(d Decision) float64 { return float64(counts[d]) / trials }
		if c.delta == 0 && rate(Different) > alpha+slack(alpha) {
			t.Errorf("%+v: DIFFERENT at a rate of %.4f, want at most %g", c, rate(Different), alpha)
		}
		if math.Abs(c.delta) >= margin && rate(Equivalent) > alpha+slack(alpha) {
			t.Errorf("%+v: EQUIVALENT at a rate of %.4f, want at most %g", c, rate(Equivalent), alpha)
		}
		want := powerSettled(c.delta, margin, c.sd, c.n, fixedRule(c.n, alpha).Look)
		if got := 1 - rate(Inconclusive); math.Abs(got-want) > slack(want)+1e-4 {
			t.Errorf("%+v: settled at a rate of %.4f, want %.4f", c, got, want)
		}
		want = powerEquivalence(c.delta, margin, c.sd/math.Sqrt(float64(c.n)), float64(c.n-1), alpha)
		if got := rate(Equivalent); math.Abs(got-want) > slack(want)+1e-4 {
			t.Errorf("%+v: EQUIVALENT at a rate of %.4f, want %.4f", c, got, want)
		}
	}
}

// TestEquivalenceRate: at the margin itself, and with a precise estimate, TOST errs at the rate α and not less: the
// test does not waste power.
func TestEquivalenceRate(t *testing.T) {
	near(t, "rate", powerEquivalence(1, 1, 0.05, 9, 0.05), 0.05, 1e-6)
}

// TestFurtherPairs: the result is the least number that has the power at the upper limit of the standard deviation.
func TestFurtherPairs(t *testing.T) {
	rule := fixedRule(0, 0.05)
	further := func(delta, margin, sd float64, n int) int {
		k, _ := rule.furtherPairs(delta, margin, sd, n, 1)
		return k
	}
	rapid.Check(t, func(t *rapid.T) {
		delta := rapid.Float64Range(-3, 3).Draw(t, "delta")
		sd := rapid.Float64Range(0.05, 3).Draw(t, "sd")
		n := rapid.IntRange(2, 30).Draw(t, "n")
		k := further(delta, 1, sd, n)
		if k >= statistics.MaxPairs {
			return // a difference of nearly the margin
		}
		sd *= statistics.GreatestSD(float64(n - 1))
		if p := powerSettled(delta, 1, sd, n+k, rule.Look); k < 1 || p < statistics.SettlePower {
			t.Errorf("%d further pairs have a power of %g, want at least 1 and %g", k, p, statistics.SettlePower)
		}
		if k > 1 {
			if p := powerSettled(delta, 1, sd, n+k-1, rule.Look); p >= statistics.SettlePower {
				t.Errorf("%d further pairs, but one less has a power of %g", k, p)
			}
		}
	})
	if k := further(0.5, 1e-6, 1000, 3); k != statistics.MaxPairs {
		t.Errorf("a hopeless case asks for %d pairs, want %d", k, statistics.MaxPairs)
	}
}

// TestNoSpread: differences without any spread leave nothing to estimate, and give no NaN either.
func TestNoSpread(t *testing.T) {
	for _, c := range []struct {
		mean float64
		want Decision
	}{{0, Equivalent}, {0.5, Equivalent}, {1, Different}, {-2, Different}} {
		inf := statistics.Infer(c.mean, 0, 3, 1, 0.05)
		if got := decide(c.mean, inf, 1); got != c.want {
			t.Errorf("difference %g without spread: %s, want %s", c.mean, got, c.want)
		}
		if math.IsNaN(float64(inf.PDifference)) || math.IsNaN(float64(*inf.PEquivalence)) {
			t.Errorf("difference %g without spread: p %v and %v", c.mean, inf.PDifference, *inf.PEquivalence)
		}
	}
}

// near fails unless got is want to the digits that were published.
func near(t *testing.T, what string, got, want, half float64) {
	t.Helper()
	if !(math.Abs(got-want) <= half) {
		t.Errorf("%s is %.7g, want %.7g", what, got, want)
	}
}
