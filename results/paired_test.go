package results

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"
)

// Extra hours of sleep under two drugs in ten patients. Source: Cushny and Peebles 1905; Student 1908, Biometrika 6:20, as in R's data set
// "sleep".
var (
	sleepA = []float64{0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0}
	sleepB = []float64{1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4}
)

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s is %.8g, want %.8g within %g", what, got, want, tolerance)
	}
}

// TestSleep holds the paired t-test against R's documentation of t.test (t = 4.0621, df = 9, p = 0.002833, interval 0.7001142 to 2.4598858) and
// TOST against the introduction of R's package TOSTER (margin 0.5: t(9) = 2.777, p = 0.989). Tolerances are half of the last printed digit.
func TestSleep(t *testing.T) {
	p := NewPaired(sleepA, sleepB)
	near(t, "mean", p.Mean, 1.58, 5e-9)
	near(t, "t", p.Mean/p.se(), 4.0621, 5e-5)
	near(t, "p", p.PDifferent(), 0.002833, 5e-7)
	low, high := p.Interval(0.95)
	near(t, "low", low, 0.7001142, 5e-8)
	near(t, "high", high, 2.4598858, 5e-8)
	near(t, "t of the upper test", (p.Mean-0.5)/p.se(), 2.777, 5e-4)
	near(t, "p of TOST", p.PEquivalent(0.5), 0.989, 5e-4)
}

// TestEquivalenceIsTheInterval: TOST at alpha is the 1 - 2·alpha interval within the margin (Schuirmann 1987), and the t-test is the interval without 0.
func TestEquivalenceIsTheInterval(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 12).Draw(t, "n")
		value := rapid.Float64Range(-10, 10)
		a := rapid.SliceOfN(value, n, n).Draw(t, "a")
		b := rapid.SliceOfN(value, n, n).Draw(t, "b")
		margin := rapid.Float64Range(0.01, 20).Draw(t, "margin")
		alpha := rapid.Float64Range(0.001, 0.2).Draw(t, "alpha")
		p := NewPaired(a, b)
		low, high := p.Interval(1 - 2*alpha)
		if q := p.PEquivalent(margin); math.Abs(q-alpha) > 1e-9 && (q < alpha) != (-margin < low && high < margin) {
			t.Fatalf("p is %g at alpha %g, but the interval is %g to %g and the margin %g", q, alpha, low, high, margin)
		}
		low, high = p.Interval(1 - alpha)
		if q := p.PDifferent(); math.Abs(q-alpha) > 1e-9 && (q < alpha) != (low > 0 || high < 0) {
			t.Fatalf("p is %g at alpha %g, but the interval is %g to %g", q, alpha, low, high)
		}
	})
}

// TestSeedsNeeded draws samples with the number of seeds that is promised to settle the question, and counts how often it does: nine times in
// ten or more. 4000 trials have a standard error of 0.5%; the shifted central t is off by a few percent where seeds are few.
func TestSeedsNeeded(t *testing.T) {
	const trials, alpha = 4000, 0.05
	r := rand.New(rand.NewPCG(1, 2))
	for _, test := range []struct{ mean, sd, margin float64 }{
		{0, 0.3, 0.2}, {0.05, 0.3, 0.2}, {0, 1, 1}, {1, 1, 0.2}, {0.5, 0.25, 0}, {0.3, 0.5, 1},
	} {
		n := Paired{N: 2, Mean: test.mean, SD: test.sd}.SeedsNeeded(test.margin, alpha)
		if n == 0 {
			t.Errorf("%+v: no number of seeds is enough", test)
			continue
		}
		settled := 0
		a, b := make([]float64, n), make([]float64, n)
		for range trials {
			for i := range b {
				b[i] = test.mean + test.sd*r.NormFloat64()
			}
			p := NewPaired(a, b)
			if test.margin > 0 && p.PEquivalent(test.margin) < alpha || p.PDifferent() < alpha {
				settled++
			}
		}
		if share := float64(settled) / trials; share < 0.86 {
			t.Errorf("%+v: %d seeds settle %.1f%% of the trials, want 90%% or more", test, n, 100*share)
		}
	}
	if n := (Paired{N: 2, Mean: 1, SD: 100}).SeedsNeeded(1, alpha); n != 0 && n < 1000 {
		t.Errorf("%d seeds are promised to settle a difference that lies on the margin", n)
	}
}

// TestPublishedSampleSizes: with many seeds the t-tests turn into normal ones, whose sample size for equivalence at a true difference of 0 is
// sd²·(2·1.6449)²/margin² at alpha 0.05 and power 0.9 (Chow, Shao, Wang, Sample Size Calculations in Clinical Research, 2nd ed., 3.1.3).
func TestPublishedSampleSizes(t *testing.T) {
	z := distuv.UnitNormal.Quantile(0.95)
	for _, ratio := range []float64{0.1, 0.2, 0.05} { // margin over sd
		want := math.Pow(2*z/ratio, 2)
		got := Paired{N: 2, Mean: 0, SD: 1}.SeedsNeeded(ratio, 0.05)
		// t(n-1) is wider than the normal: about one or two seeds more, never fewer.
		if float64(got) < want || float64(got) > want+3 {
			t.Errorf("margin %g sd: %d seeds, want %.1f and up to 3 more", ratio, got, want)
		}
	}
}

func TestPFailures(t *testing.T) {
	for _, test := range []struct {
		a, b int
		want float64
	}{
		{0, 0, 1}, {1, 1, 1}, {0, 1, 1}, {5, 0, 0.0625}, {0, 6, 0.03125}, {1, 7, 2 * 9.0 / 256}, // 2·(1 + 8)/2^8
	} {
		near(t, "p", PFailures(test.a, test.b), test.want, 1e-12)
	}
}

func TestNoVariance(t *testing.T) {
	same := NewPaired([]float64{1, 2, 3}, []float64{1, 2, 3})
	if same.PEquivalent(0.1) != 0 || same.PDifferent() != 1 {
		t.Errorf("equal arms: p of TOST is %g, of the t-test %g, want 0 and 1", same.PEquivalent(0.1), same.PDifferent())
	}
	shifted := NewPaired([]float64{1, 2, 3}, []float64{2, 3, 4})
	if shifted.PEquivalent(0.5) != 1 || shifted.PDifferent() != 0 {
		t.Errorf("arms 1 apart: p of TOST is %g, of the t-test %g, want 1 and 0", shifted.PEquivalent(0.5), shifted.PDifferent())
	}
}
