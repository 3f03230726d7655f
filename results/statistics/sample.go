package statistics

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"

	"harness.invalid/results"
)

// Paired is a quantity of pairs.
type Paired struct {
	Baseline   Sample         `json:"baseline"`
	Arm        Sample         `json:"arm"`
	Difference results.Number `json:"difference"` // mean of arm - baseline
	// Inference is nil for one pair, and where a value is not finite.
	Inference *Inference `json:"inference,omitempty"`
}

func NewPaired(x, y []float64, alpha float64) Paired {
	d := Differences(x, y)
	s := NewSample(d)
	p := Paired{Baseline: NewSample(x), Arm: NewSample(y), Difference: s.Mean}
	if len(d) == 0 {
		p.Difference = results.Number(math.NaN())
	}
	if s.SD == nil || math.IsNaN(float64(*s.SD)) || math.IsInf(float64(s.Mean), 0) {
		return p
	}
	inf := Infer(float64(s.Mean), float64(*s.SD), s.N, 0, alpha)
	inf.PPermutation, inf.BootstrapInterval = results.Number(SignFlip(d)), BCa(d, Mean, 1-alpha)
	p.Inference = &inf
	return p
}

func Differences(x, y []float64) []float64 {
	d := make([]float64, len(x))
	for i := range d {
		d[i] = y[i] - x[i]
	}
	return d
}

// Sample sums up a metric over runs.
type Sample struct {
	N    int             `json:"n"`
	Mean results.Number  `json:"mean"`
	SD   *results.Number `json:"sd,omitempty"` // with N-1 below; nil for one run
	// Interval is Student's interval of the mean, BootstrapInterval the BCa one; nil for too few values, or where they were not asked for.
	Interval          *Interval `json:"interval,omitempty"`
	BootstrapInterval *Interval `json:"bootstrap_interval,omitempty"`
}

// NewSample sums up values. Those that are not finite make mean and sd so too.
func NewSample(values []float64) Sample {
	mean, variance := stat.MeanVariance(values, nil)
	s := Sample{N: len(values), Mean: results.Number(mean)}
	if s.N > 1 {
		sd := results.Number(math.Sqrt(variance))
		s.SD = &sd
	}
	return s
}

// newSample is NewSample with intervals at a level.
func NewSampleWithIntervals(values []float64, level float64) Sample {
	s := NewSample(values)
	if s.SD == nil || math.IsNaN(float64(*s.SD)) || math.IsInf(float64(s.Mean), 0) {
		return s
	}
	inf := Infer(float64(s.Mean), float64(*s.SD), s.N, 0, 1-level)
	s.Interval, s.BootstrapInterval = &inf.Interval, BCa(values, Mean, level)
	return s
}

// Interval is a confidence interval, ends included.
type Interval struct {
	Low   results.Number `json:"low"`
	High  results.Number `json:"high"`
	Level float64        `json:"level"` // 0.95
}

// Contains reports whether x lies in the interval.
func (i Interval) Contains(x float64) bool { return float64(i.Low) <= x && x <= float64(i.High) }

// String is such as "90% interval -0.31 to 0.42".
func (i Interval) String() string {
	return fmt.Sprintf("%.3g%% interval %.3g to %.3g", 100*i.Level, float64(i.Low), float64(i.High))
}
