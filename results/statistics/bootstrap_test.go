package statistics

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat"
)

// spatial are the scores of 26 children in test A of spatial perception. Source: Efron, Tibshirani 1993, An
// Introduction to the Bootstrap, table 14.1.
var spatial = []float64{48, 36, 20, 29, 42, 42, 20, 42, 22, 41, 45, 14, 6, 0, 33, 28, 34, 4, 32, 24, 47, 41, 24, 26, 30, 41}

func populationVariance(v []float64) float64 {
	return stat.PopVariance(v, nil)
}

// TestSpatialData: the book's table 14.2 has a variance of 171.5 with an acceleration of 0.061, and the 90%
// intervals (115.8, 259.6) by BCa and (100.8, 233.9) by percentiles, from 2000 draws. Ends from 2000 draws have a
// standard error of about 3, those here of half that.
func TestSpatialData(t *testing.T) {
	near(t, "variance", populationVariance(spatial), 171.5, 0.05)
	near(t, "acceleration", acceleration(spatial, populationVariance), 0.061, 0.0005)
	i := bca(spatial, populationVariance, 0.9)
	near(t, "low end", float64(i.Low), 115.8, 6)
	near(t, "high end", float64(i.High), 259.6, 8)
	near(t, "acceleration of the mean", accelerationOfMean(spatial), acceleration(spatial, meanOf), 1e-12)
	if again := bca(spatial, populationVariance, 0.9); *again != *i {
		t.Errorf("the same values gave %v and %v", i, again)
	}
}

// TestBCaOfSymmetric: without skewness BCa is the percentile interval, which for a mean of many values is the
// normal one.
func TestBCaOfSymmetric(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var values []float64
	for range 100 {
		v := rng.NormFloat64()
		values = append(values, 5+v, 5-v)
	}
	mean, sd := stat.MeanStdDev(values, nil)
	i := bcaOfMean(values, 0.95)
	se := sd / math.Sqrt(float64(len(values)))
	near(t, "low end in standard errors", (float64(i.Low)-mean)/se, -1.96, 0.08)
	near(t, "high end in standard errors", (float64(i.High)-mean)/se, 1.96, 0.08)
}

func TestBCaDegenerate(t *testing.T) {
	if i := bcaOfMean([]float64{1, 2, 3}, 0.95); i != nil {
		t.Errorf("3 values have the interval %v, want none", i)
	}
	if i := bcaOfMean([]float64{2, 2, 2, 2, 2}, 0.95); i.Low != 2 || i.High != 2 {
		t.Errorf("equal values have the interval %v, want 2 to 2", i)
	}
}

// TestMultiBootstrap: for d = μ + seed + example + rest, all independent, the mean has the variance σ²_seed/S +
// σ²_example/X + σ²_rest/(SX), and resampling both estimates it (Sellam et al. 2022, appendix A). The interval
// holds μ as often as it says.
func TestMultiBootstrap(t *testing.T) {
	const seeds, examples, trials = 20, 50, 150
	want := math.Sqrt(1.0/seeds + 4.0/examples + 1.0/(seeds*examples))
	rng := rand.New(rand.NewPCG(5, 6))
	var held int
	var se float64
	for range trials {
		column := make([]float64, examples)
		for i := range column {
			column[i] = 2 * rng.NormFloat64()
		}
		rows := make([][]float64, seeds)
		for i := range rows {
			rows[i] = make([]float64, examples)
			seed := rng.NormFloat64()
			for j := range rows[i] {
				rows[i][j] = 10 + seed + column[j] + rng.NormFloat64()
			}
		}
		m := NewMultiBootstrap(rows, 0.9)
		se += float64(m.SE) / trials
		if m.Interval.Contains(10) {
			held++
		}
		if m.P != 0 {
			t.Fatalf("a difference of 10 with a standard error of %.2g has p = %g", want, float64(m.P))
		}
	}
	if math.Abs(se/want-1) > 0.08 {
		t.Errorf("mean standard error is %.3f, want %.3f", se, want)
	}
	// 0.9 less what percentiles of 20 seeds lose, with four standard errors of a rate of 150.
	if rate := float64(held) / trials; rate < 0.77 || rate > 0.98 {
		t.Errorf("the 90%% interval holds the truth at a rate of %.3f", rate)
	}
}

// TestMultiBootstrapOfNothing: p is 1 for no difference, and there is no interval from one seed or one example.
func TestMultiBootstrapOfNothing(t *testing.T) {
	if m := NewMultiBootstrap([][]float64{{0, 0}, {0, 0}}, 0.95); m.P != 1 || m.Interval.Low != 0 || m.Interval.High != 0 {
		t.Errorf("no difference: %+v", m)
	}
	if NewMultiBootstrap([][]float64{{1, 2}}, 0.95) != nil || NewMultiBootstrap([][]float64{{1}, {2}}, 0.95) != nil {
		t.Error("one seed or one example has an interval")
	}
}
