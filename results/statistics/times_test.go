package statistics

import (
	"math"
	"testing"
)

// TestTimes: the median of 10 values has a 95% interval from the 2nd to the 9th, whose level is 1 -
// 2·P(Binomial(10, ½) ≤ 1) = 97.85% (Conover 1999, Practical Nonparametric Statistics, 3.2).
func TestTimes(t *testing.T) {
	times := NewTimes([]float64{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 0.95)
	near(t, "median", float64(times.Median), 5.5, 0)
	near(t, "low", float64(times.Interval.Low), 2, 0)
	near(t, "high", float64(times.Interval.High), 9, 0)
	near(t, "level", times.Interval.Level, 1-22.0/1024, 1e-12)
	near(t, "olympic mean", float64(*times.OlympicMean), 5.5, 1e-12)
	near(t, "spread", float64(*times.Spread), 2.5/5.5, 1e-12)
	if few := NewTimes([]float64{1, 2, 3, 4, 5}, 0.95); few.Interval != nil || few.OlympicMean == nil {
		t.Errorf("5 values: %+v, want no interval and an olympic mean", few)
	}
	inf := math.Inf(1)
	for _, c := range []struct {
		values []float64
		median float64
	}{{[]float64{inf, inf}, inf}, {[]float64{3, inf}, inf}, {[]float64{3, 4, inf, inf}, inf}, {[]float64{3, 4, 5, inf}, 4.5}} {
		got := NewTimes(c.values, 0.95)
		if float64(got.Median) != c.median {
			t.Errorf("%v: median %v, want %v", c.values, got.Median, c.median)
		}
		if math.IsInf(c.median, 1) && got.Spread != nil {
			t.Errorf("%v: spread %v, want none", c.values, *got.Spread)
		}
	}
	if none := NewTimes(nil, 0.95); none.N != 0 || !math.IsNaN(float64(none.Median)) {
		t.Errorf("no values: %+v", none)
	}
}

// TestMannWhitney: the permeability constants of the human chorioamnion at term and at 12 to 26 weeks, W = 35 and a
// one-sided p of 0.1272. Source: Hollander, Wolfe 1973, Nonparametric Statistical Methods, p. 69, in the examples
// of R's wilcox.test. Ties aside the distribution is symmetric, so the two-sided p is twice that.
func TestMannWhitney(t *testing.T) {
	x := []float64{0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46}
	y := []float64{1.15, 0.88, 0.90, 0.74, 1.21}
	d := CompareTimes(x, y, 0.05)
	near(t, "p", float64(d.P), 2*0.1272, 1e-4)
	near(t, "ratio", float64(d.Ratio), 0.90/1.415, 1e-9)
	if d := CompareTimes([]float64{1, 2, 3}, []float64{4, 5, 6}, 0.05); math.Abs(float64(d.P)-0.1) > 1e-12 || d.Warning == "" {
		t.Errorf("3 and 3 runs: %+v, want p = 0.1 and a warning that there are too few", d)
	}
}

// TestOlympicMean: MLPerf drops the fastest and the slowest; one run that does not converge is the slowest.
func TestOlympicMean(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{5, 1, 2, 3, 100}, 10.0 / 3}, {[]float64{3, inf, 1, 2}, 2.5}, {[]float64{1, 2, inf, inf}, inf}, {[]float64{7, 7, 7}, 7}} {
		if got := OlympicMean(c.values); got != c.want {
			t.Errorf("%v: %g, want %g", c.values, got, c.want)
		}
	}
	if !math.IsNaN(OlympicMean([]float64{1, 2})) {
		t.Error("2 values have an olympic mean")
	}
}
