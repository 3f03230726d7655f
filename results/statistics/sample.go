package statistics

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"

	"harness.invalid/results"
)

// Sample summarizes a metric over runs.
type Sample struct {
	N    int             `json:"n"`
	Mean results.Number  `json:"mean"`
	SD   *results.Number `json:"sd,omitempty"` // divides by N-1; nil for one run
	// Interval is Student's interval of the mean, BootstrapInterval the BCa interval. Both are nil for too few values, and
	// where nobody asked for them.
	Interval          *Interval `json:"interval,omitempty"`
	BootstrapInterval *Interval `json:"bootstrap_interval,omitempty"`
}

// NewSample summarizes values. If one is not finite, neither are mean and standard deviation.
func NewSample(values []float64) Sample {
	mean, variance := stat.MeanVariance(values, nil)
	s := Sample{N: len(values), Mean: results.Number(mean)}
	if s.N > 1 {
		sd := results.Number(math.Sqrt(variance))
		s.SD = &sd
	}
	return s
}

// NewSampleWithIntervals is NewSample with both confidence intervals at the given level.
func NewSampleWithIntervals(values []float64, level float64) Sample {
	s := NewSample(values)
	if !s.hasSpread() {
		return s
	}
	inf := Infer(float64(s.Mean), float64(*s.SD), s.N, 0, 1-level)
	s.Interval, s.BootstrapInterval = &inf.Interval, bcaOfMean(values, level)
	return s
}

// hasSpread reports whether there are two or more values, all of them finite.
func (s Sample) hasSpread() bool {
	return s.SD != nil && !math.IsNaN(float64(*s.SD)) && !math.IsInf(float64(s.Mean), 0)
}

// Interval is a confidence interval, both ends included.
type Interval struct {
	Low   results.Number `json:"low"`
	High  results.Number `json:"high"`
	Level float64        `json:"level"` // 0.95
}

// Contains reports whether x lies in the interval.
func (i Interval) Contains(x float64) bool { return float64(i.Low) <= x && x <= float64(i.High) }

// String formats the interval like "90% interval -0.31 to 0.42".
func (i Interval) String() string {
	return fmt.Sprintf("%.3g%% interval %.3g to %.3g", 100*i.Level, float64(i.Low), float64(i.High))
}

func meanOf(values []float64) float64 { return stat.Mean(values, nil) }
