package results

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat"
	"pgregory.net/rapid"
)

// sleep is the gain of sleep, in hours, of ten patients under two drugs. Source: Student 1908, "The probable error of a mean", Biometrika
// 6:1, table on p. 20, the data that R calls sleep.
var sleep = [2][]float64{
	{0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0},
	{1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4},
}

func differences(a, b []float64) []float64 {
	d := make([]float64, len(a))
	for i := range d {
		d[i] = a[i] - b[i]
	}
	return d
}

// near fails unless got is want to the digits that were published.
func near(t *testing.T, what string, got, want, half float64) {
	t.Helper()
	if !(math.Abs(got-want) <= half) {
		t.Errorf("%s is %.7g, want %.7g", what, got, want)
	}
}

// TestStudentSleep: R's documentation of t.test prints t = -4.0621, df = 9, p-value = 0.002833, 95 percent confidence interval -2.4598858
// -0.7001142, mean of the differences -1.58.
//
// TOSTER's vignette "Introduction to t_TOST" tests the same against bounds of 0.5: SE 0.389, t(9) = -2.777 with p = 0.989 at the lower bound,
// a 90% interval from -2.293 to -0.867.
func TestStudentSleep(t *testing.T) {
	mean, sd := stat.MeanStdDev(differences(sleep[0], sleep[1]), nil)
	inf := infer(mean, sd, 10, 0.5, 0.05)
	near(t, "difference", mean, -1.58, 1e-12)
	near(t, "t", mean/float64(inf.SE), -4.0621, 5e-5)
	near(t, "p of the difference", float64(inf.PDifference), 0.002833, 5e-7)
	near(t, "low end", float64(inf.Interval.Low), -2.4598858, 5e-8)
	near(t, "high end", float64(inf.Interval.High), -0.7001142, 5e-8)
	near(t, "standard error", float64(inf.SE), 0.389, 5e-4)
	near(t, "p of equivalence", float64(*inf.PEquivalence), 0.989, 5e-4)
	near(t, "low end at 90%", float64(inf.EquivalenceInterval.Low), -2.293, 5e-4)
	near(t, "high end at 90%", float64(inf.EquivalenceInterval.High), -0.867, 5e-4)
}

// TestIntervalsAreTests: both one-sided tests reject at α exactly when the 1-2α interval lies within the margin (Schuirmann 1987), and the
// test against 0 when the 1-α interval does not hold it. Which arm comes first changes signs alone.
func TestIntervalsAreTests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mean := rapid.Float64Range(-10, 10).Draw(t, "mean")
		sd := rapid.Float64Range(0.1, 10).Draw(t, "sd")
		n := rapid.IntRange(2, 12).Draw(t, "n")
		margin := rapid.Float64Range(0.01, 20).Draw(t, "margin")
		alpha := rapid.Float64Range(0.001, 0.2).Draw(t, "alpha")
		inf, turned := infer(mean, sd, n, margin, alpha), infer(-mean, sd, n, margin, alpha)
		p := float64(*inf.PEquivalence)
		if e := inf.EquivalenceInterval; math.Abs(p-alpha) > 1e-9 && (p < alpha) != (-margin < float64(e.Low) && float64(e.High) < margin) {
			t.Errorf("p of equivalence is %g at α %g, the %s", p, alpha, e)
		}
		if p := float64(inf.PDifference); math.Abs(p-alpha) > 1e-9 && (p < alpha) != !inf.Interval.Contains(0) {
			t.Errorf("p of the difference is %g at α %g, the %s", p, alpha, inf.Interval)
		}
		if *turned.PEquivalence != *inf.PEquivalence || turned.PDifference != inf.PDifference || turned.Interval.Low != -inf.Interval.High {
			t.Errorf("turned around: %+v, want the mirror of %+v", turned, inf)
		}
	})
}

// TestDarwin: the differences in height, in eighths of an inch, between 15 pairs of crossed and self-fertilized maize. Source: Fisher 1935, The
// Design of Experiments, section 17: mean 20.933, its standard error 9.746, t = 2.148, where 5% is at 2.145.
func TestDarwin(t *testing.T) {
	d := []float64{49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48}
	mean, sd := stat.MeanStdDev(d, nil)
	inf := infer(mean, sd, len(d), 0, 0.05)
	near(t, "mean", mean, 20.933, 5e-4)
	near(t, "standard error", float64(inf.SE), 9.746, 5e-4)
	near(t, "t", mean/float64(inf.SE), 2.148, 5e-4)
	near(t, "half of the interval, in standard errors", float64(inf.Interval.High-inf.Interval.Low)/2/float64(inf.SE), 2.145, 5e-4)
	if inf.PDifference > 0.05 || inf.PDifference < 0.049 || inf.PEquivalence != nil {
		t.Errorf("p of the difference is %.4f, want just below 0.05; p of equivalence without a margin is %v, want none", inf.PDifference, inf.PEquivalence)
	}
}

// TestPowerOfBioequivalence: the 2x2 crossover at true ratio 0.95 and limits 0.8 to 1.25. The standard error is √(2/n) times the standard
// deviation within subjects on the log scale, √ln(1+CV²), with n-2 degrees of freedom. Sources: Diletti, Hauschke, Steinijans 1991, Int. J.
// Clin. Pharmacol. Ther. Toxicol. 29:1, table 1 (28 subjects at CV 25%, 40 at 30%), and the manual of R's PowerTOST, which prints these powers.
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

// TestPowerRegressed: with a tolerance of 0 it is the power of Student's test, as in the examples of R's power.t.test: n = 20 and delta = 1 come to 0.8689528
// (two-sided at 0.05, of which it counts the upper tail), and n = 17.84713 to 0.9 (one-sided).
func TestPowerRegressed(t *testing.T) {
	near(t, "power", powerRegressed(1, 0, math.Sqrt(2.0/20), 38, 0.025), 0.8689528, 5e-8)
	near(t, "power", powerRegressed(1, 0, math.Sqrt(2/17.84713), 2*17.84713-2, 0.05), 0.9, 5e-7)
}

// TestErrorRates draws pairs and counts verdicts: the wrong ones come at most with probability α, and those that settle as often as
// powerSettled says.
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
			counts[verdictOf(infer(mean, sd, c.n, margin, alpha), margin)]++
		}
		rate := func(d Decision) float64 { return float64(counts[d]) / trials }
		if c.delta == 0 && rate(Different) > alpha+slack(alpha) {
			t.Errorf("%+v: DIFFERENT at a rate of %.4f, want at most %g", c, rate(Different), alpha)
		}
		if math.Abs(c.delta) >= margin && rate(Equivalent) > alpha+slack(alpha) {
			t.Errorf("%+v: EQUIVALENT at a rate of %.4f, want at most %g", c, rate(Equivalent), alpha)
		}
		want := powerSettled(c.delta, margin, c.sd, c.n, alpha)
		if got := 1 - rate(Inconclusive); math.Abs(got-want) > slack(want)+1e-4 {
			t.Errorf("%+v: settled at a rate of %.4f, want %.4f", c, got, want)
		}
		want = powerEquivalence(c.delta, margin, c.sd/math.Sqrt(float64(c.n)), float64(c.n-1), alpha)
		if got := rate(Equivalent); math.Abs(got-want) > slack(want)+1e-4 {
			t.Errorf("%+v: EQUIVALENT at a rate of %.4f, want %.4f", c, got, want)
		}
	}
}

// TestEquivalenceRate: at the margin itself and with a precise estimate the error rate of TOST is α, not less: the test is not timid.
func TestEquivalenceRate(t *testing.T) {
	near(t, "rate", powerEquivalence(1, 1, 0.05, 9, 0.05), 0.05, 1e-6)
}

// TestFurtherPairs: the number that comes out is the least that has the power, and gets nothing from seeds that are not there.
func TestFurtherPairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		delta := rapid.Float64Range(-3, 3).Draw(t, "delta")
		sd := rapid.Float64Range(0.05, 3).Draw(t, "sd")
		n := rapid.IntRange(2, 30).Draw(t, "n")
		k := furtherPairs(delta, 1, sd, n, 0.05)
		if p := powerSettled(delta, 1, sd, n+k, 0.05); k < 1 || p < settlePower {
			t.Errorf("%d further pairs have a power of %g, want at least 1 and %g", k, p, settlePower)
		}
		if k > 1 {
			if p := powerSettled(delta, 1, sd, n+k-1, 0.05); p >= settlePower {
				t.Errorf("%d further pairs, but one less has a power of %g", k, p)
			}
		}
	})
	if k := furtherPairs(0.5, 1e-6, 1000, 3, 0.05); k != maxPairs {
		t.Errorf("a hopeless case asks for %d pairs, want %d", k, maxPairs)
	}
}

// TestSignTest: Conover 1999, 3.4, and by hand: all of 6 pairs on one side is 2/64.
func TestSignTest(t *testing.T) {
	for _, c := range []struct {
		better, n int
		want      float64
	}{{0, 6, 2.0 / 64}, {6, 6, 2.0 / 64}, {0, 5, 2.0 / 32}, {1, 8, 18.0 / 256}, {3, 6, 1}, {0, 0, 1}} {
		near(t, "p", signTest(c.better, c.n), c.want, 1e-12)
	}
}

// TestNoSpread: differences that are all the same leave nothing to estimate, and no NaN either.
func TestNoSpread(t *testing.T) {
	for _, c := range []struct {
		mean float64
		want Decision
	}{{0, Equivalent}, {0.5, Equivalent}, {1, Different}, {-2, Different}} {
		inf := infer(c.mean, 0, 3, 1, 0.05)
		if got := verdictOf(inf, 1); got != c.want {
			t.Errorf("difference %g without spread: %s, want %s", c.mean, got, c.want)
		}
		if math.IsNaN(float64(inf.PDifference)) || math.IsNaN(float64(*inf.PEquivalence)) {
			t.Errorf("difference %g without spread: p %v and %v", c.mean, inf.PDifference, *inf.PEquivalence)
		}
	}
}
