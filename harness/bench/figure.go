package bench

import (
	"fmt"
	"math"
	"slices"
)

// Spread is the minimum, median and maximum of several times, in milliseconds.
type Spread struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
}

// Figure is the result of a benchmark. Fields that do not apply are 0.
type Figure struct {
	Name     string `json:"name"`
	Threads  int    `json:"threads"`
	CPULevel string `json:"cpu_level"` // of core/kernels
	Count    int    `json:"count"`     // of runs
	Time     Spread `json:"ms"`

	GFLOPS     float64 `json:"gflops,omitempty"`      // at the median time
	PeakGFLOPS float64 `json:"peak_gflops,omitempty"` // of multiply-adds on registers, median of alternating measurements
	GBs        float64 `json:"gb_per_second,omitempty"`
	PeakGBs    float64 `json:"peak_gb_per_second,omitempty"` // of memory, likewise
	Share      float64 `json:"share,omitempty"`              // of the peak, 0 to 1: median over the pairs
	MBs        float64 `json:"mb_per_second,omitempty"`      // of text

	AllocationsPerLine float64            `json:"allocations_per_line,omitempty"`
	SequencesPerSecond float64            `json:"sequences_per_second,omitempty"`
	StepMS             *Spread            `json:"step_ms,omitempty"`
	GFLOP              float64            `json:"gflop_per_step,omitempty"` // of matrix products
	Parts              map[string]float64 `json:"parts_ms,omitempty"`       // of a step, medians

	Samples []Sample `json:"samples"` // in the order in which they were taken
}

// Sample is one measurement.
type Sample struct {
	MS    float64 `json:"ms"`
	Share float64 `json:"share,omitempty"` // of the peak, 0 to 1
	// ProbeNS is the time of a round of the probe in nanoseconds, before or after the work, whichever is longer; 0:
	// unknown.
	ProbeNS float64 `json:"probe_ns"`
}

// Alone returns, for each figure, the shares of the peak of those samples during which, as far as is known, nobody
// else used the processor's cores: the probe took at most a quarter longer than in the best of all samples, both
// before and after. It leaves out samples of more than two seconds, in which others could come and go unnoticed.
func Alone(figures []Figure) [][]float64 {
	least := math.Inf(1)
	for _, f := range figures {
		for _, s := range f.Samples {
			if s.ProbeNS > 0 {
				least = min(least, s.ProbeNS)
			}
		}
	}
	shares := make([][]float64, len(figures))
	for i, f := range figures {
		for _, s := range f.Samples {
			if s.ProbeNS > 0 && s.ProbeNS <= 1.25*least && s.MS <= 2000 {
				shares[i] = append(shares[i], s.Share)
			}
		}
	}
	return shares
}

func spread(ms []float64) Spread {
	if len(ms) == 0 {
		return Spread{}
	}
	return Spread{Min: slices.Min(ms), Median: Median(ms), Max: slices.Max(ms)}
}

// Median is the median of the values, the lower one of the middle two if their number is even.
func Median(values []float64) float64 {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return sorted[(len(sorted)-1)/2]
}

// Line is the figure as a line in Go's benchmark format, which benchstat reads.
func (f *Figure) Line() string {
	line := fmt.Sprintf("Benchmark%s-%d\t%d\t%.0f ns/op", f.Name, f.Threads, f.Count, f.Time.Median*1e6)
	for _, m := range f.metrics() {
		line += fmt.Sprintf("\t%.5g %s", m.value, m.unit)
	}
	return line
}

type metric struct {
	unit  string
	value float64
}

// metrics are what a figure has besides its time.
func (f *Figure) metrics() []metric {
	all := []metric{
		{"sequences/s", f.SequencesPerSecond}, {"GFLOPS", f.GFLOPS}, {"GB/s", f.GBs}, {"MB/s", f.MBs}, {"%peak", 100 * f.Share},
	}
	return slices.DeleteFunc(all, func(m metric) bool { return m.value == 0 })
}
