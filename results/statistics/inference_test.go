package statistics

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/stat"
	"pgregory.net/rapid"
)

// sleep is the gain of sleep, in hours, of ten patients under two drugs. Source: Student 1908, "The probable error
// of a mean", Biometrika 6:1, table on p. 20, the data that R calls sleep.
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

// TestStudentSleep: R's documentation of t.test prints t = -4.0621, df = 9, p-value = 0.002833, 95 percent
// confidence interval -2.4598858 -0.7001142, mean of the differences -1.58.
//
// TOSTER's vignette "Introduction to t_TOST" tests the same against bounds of 0.5: SE 0.389, t(9) = -2.777 with p =
// 0.989 at the lower bound, a 90% interval from -2.293 to -0.867.
func TestStudentSleep(t *testing.T) {
	mean, sd := stat.MeanStdDev(differences(sleep[0], sleep[1]), nil)
	inf := Infer(mean, sd, 10, 0.5, 0.05)
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

// TestIntervalsAreTests: both one-sided tests reject at α exactly when the 1-2α interval lies within the margin
// (Schuirmann 1987), and the test against 0 when the 1-α interval does not hold it. Which arm comes first changes
// signs alone.
func TestIntervalsAreTests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mean := rapid.Float64Range(-10, 10).Draw(t, "mean")
		sd := rapid.Float64Range(0.1, 10).Draw(t, "sd")
		n := rapid.IntRange(2, 12).Draw(t, "n")
		margin := rapid.Float64Range(0.01, 20).Draw(t, "margin")
		alpha := rapid.Float64Range(0.001, 0.2).Draw(t, "alpha")
		inf, turned := Infer(mean, sd, n, margin, alpha), Infer(-mean, sd, n, margin, alpha)
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

// TestDarwin: the differences in height, in eighths of an inch, between 15 pairs of crossed and self-fertilized
// maize. Source: Fisher 1935, The Design of Experiments, section 17: mean 20.933, its standard error 9.746, t =
// 2.148, where 5% is at 2.145.
func TestDarwin(t *testing.T) {
	d := []float64{49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48}
	mean, sd := stat.MeanStdDev(d, nil)
	inf := Infer(mean, sd, len(d), 0, 0.05)
	near(t, "mean", mean, 20.933, 5e-4)
	near(t, "standard error", float64(inf.SE), 9.746, 5e-4)
	near(t, "t", mean/float64(inf.SE), 2.148, 5e-4)
	near(t, "half of the interval, in standard errors", float64(inf.Interval.High-inf.Interval.Low)/2/float64(inf.SE), 2.145, 5e-4)
	if inf.PDifference > 0.05 || inf.PDifference < 0.049 || inf.PEquivalence != nil {
		t.Errorf("p of the difference is %.4f, want just below 0.05; p of equivalence without a margin is %v, want none", inf.PDifference,
			inf.PEquivalence)
	}
}

// TestSignTest: Conover 1999, 3.4, and by hand: all of 6 pairs on one side is 2/64.
func TestSignTest(t *testing.T) {
	for _, c := range []struct {
		better, n int
		want      float64
	}{{0, 6, 2.0 / 64}, {6, 6, 2.0 / 64}, {0, 5, 2.0 / 32}, {1, 8, 18.0 / 256}, {3, 6, 1}, {0, 0, 1}} {
		near(t, "p", SignTest(c.better, c.n), c.want, 1e-12)
	}
}
