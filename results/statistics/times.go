package statistics

import (
	"cmp"
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
	"gonum.org/v1/gonum/stat"

	"harness.invalid/results"
)

// Times summarizes how long something took over runs. Times are rarely normal, having a floor and a tail, so it
// holds what benchstat prints.
type Times struct {
	N      int            `json:"n"`
	Median results.Number `json:"median"`
	// Interval of the median lies between two order statistics and states the level that these really have; nil for
	// too few values (6 for 0.95).
	Interval *Interval `json:"interval,omitempty"`
	// OlympicMean is MLPerf's score, the mean without the fastest and the slowest; nil for fewer than 3 values.
	OlympicMean *results.Number `json:"olympic_mean,omitempty"`
	// Spread is the median distance from the median, divided by the median: the machine's noise. nil for one value.
	Spread *results.Number `json:"spread,omitempty"`
}

// NewTimes summarizes measured seconds at a confidence level. Source: golang.org/x/perf/benchmath, AssumeNothing.
func NewTimes(seconds []float64, level float64) Times {
	t := Times{N: len(seconds), Median: results.Number(math.NaN())}
	if t.N == 0 {
		return t
	}
	thresholds := benchmath.DefaultThresholds
	sum := benchmath.AssumeNothing.Summary(benchmath.NewSample(slices.Clone(seconds), &thresholds), level)
	if math.IsNaN(sum.Center) { // between two runs that did not get there
		sum.Center = Median(seconds)
	}
	t.Median = results.Number(sum.Center)
	if !math.IsInf(sum.Lo, 0) && !math.IsInf(sum.Hi, 0) {
		t.Interval = &Interval{results.Number(sum.Lo), results.Number(sum.Hi), sum.Confidence}
	}
	if mean := OlympicMean(seconds); !math.IsNaN(mean) {
		t.OlympicMean = new(results.Number(mean))
	}
	if t.N > 1 && sum.Center > 0 && !math.IsInf(sum.Center, 0) {
		t.Spread = new(results.Number(MedianDistance(seconds, sum.Center) / sum.Center))
	}
	return t
}

// MedianDistance is the median of |v - center|.
func MedianDistance(values []float64, center float64) float64 {
	d := make([]float64, len(values))
	for i, v := range values {
		d[i] = math.Abs(v - center)
	}
	return Median(d)
}

// Median is the middle value, or the mean of the two in the middle; NaN for no values.
func Median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	if n == 0 {
		return math.NaN()
	}
	return (s[(n-1)/2] + s[n/2]) / 2
}

// OlympicMean is the mean without the smallest and the largest value; NaN for fewer than 3 values. A run that never
// reached its target counts as infinite: one such run is dropped as the slowest, two make the mean infinite.
// Source: mlcommons/training_policies, training_rules.adoc, section 11.
func OlympicMean(values []float64) float64 {
	if len(values) < 3 {
		return math.NaN()
	}
	s := slices.SortedFunc(slices.Values(values), cmp.Compare[float64])
	return stat.Mean(s[1:len(s)-1], nil)
}

// TimesDifference compares the times of two arms.
type TimesDifference struct {
	Ratio results.Number `json:"ratio"` // of the medians, arm : baseline
	// P of the two-sided Mann-Whitney U test, which assumes that runs are independent and nothing else.
	P results.Number `json:"p"`
	// Warning says what the test lacks, such as enough runs.
	Warning string `json:"warning,omitempty"`
}

// CompareTimes compares seconds of the baseline with those of the arm.
func CompareTimes(baseline, arm []float64, alpha float64) TimesDifference {
	d := TimesDifference{Ratio: results.Number(Median(arm) / Median(baseline)), P: 1}
	if len(baseline) == 0 || len(arm) == 0 {
		return d
	}
	thresholds := benchmath.Thresholds{CompareAlpha: alpha}
	sample := func(seconds []float64) *benchmath.Sample {
		return benchmath.NewSample(slices.Clone(seconds), &thresholds)
	}
	test := benchmath.AssumeNothing.Compare(sample(baseline), sample(arm))
	d.P = results.Number(test.P)
	for _, w := range test.Warnings {
		d.Warning = w.Error()
	}
	return d
}

// Withhold takes back the test of a difference that has another cause than the arms.
func (d *TimesDifference) Withhold(why string) { d.P, d.Warning = results.Number(math.NaN()), why }

// WarmUp is the number of a phase's first steps that times leave out: caches, memory and clock rates have to settle.
func WarmUp(steps int) int { return min(max(1, steps/20), max(0, steps-1)) }
