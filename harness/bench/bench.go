// Package bench measures how fast the parts of a run are here: whole training steps through real plugins, the kernels under them, the optimizers, the
// tokenizer. Beside every figure stands the chip's own limit for that kind of work, measured in turn with it, and the share of it that was reached:
// machines are shared and change their clocks, so a figure without the limit of the same minute says little.
//
// Benchmarks are those of package testing. The command harness bench runs them through Measure; `go test -bench . ./harness/bench` runs the same ones,
// and benchstat reads both.
package bench

import (
	"flag"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"harness.invalid/core/kernels"
	"harness.invalid/core/numerics"
)

// Benchmark is one thing to measure.
type Benchmark struct {
	Name string
	run  func(b *testing.B) (Figure, error)
}

// Run is the benchmark for package testing.
func (m *Benchmark) Run(b *testing.B) {
	f, err := m.run(b)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(f.Time.Median*1e6, "ns/op")
	for _, x := range f.metrics() {
		b.ReportMetric(x.value, x.unit)
	}
}

// Measure runs the benchmark count times, or for about a second when count is 0.
func (m *Benchmark) Measure(count int) (f Figure, err error) {
	length := "1s"
	if count > 0 {
		length = fmt.Sprintf("%dx", count)
	}
	setBenchtime.Do(testing.Init)
	if err := flag.Set("test.benchtime", length); err != nil {
		return Figure{}, err
	}
	testing.Benchmark(func(b *testing.B) { f, err = m.run(b) })
	f.Name = m.Name
	return f, err
}

var setBenchtime sync.Once // the flags of package testing are registered once

// Spread is the smallest, median and greatest of several times, in milliseconds.
type Spread struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
}

// Figure is what one benchmark came to. Fields that do not apply are left out.
type Figure struct {
	Name     string `json:"name"`
	Threads  int    `json:"threads"`
	CPULevel string `json:"cpu_level"` // of core/kernels
	Count    int    `json:"count"`     // how often it ran
	Time     Spread `json:"ms"`

	GFLOPS     float64 `json:"gflops,omitempty"`      // at the median
	PeakGFLOPS float64 `json:"peak_gflops,omitempty"` // of multiply-adds on registers, median of measurements in turn
	GBs        float64 `json:"gb_per_second,omitempty"`
	PeakGBs    float64 `json:"peak_gb_per_second,omitempty"` // of memory, likewise
	Share      float64 `json:"share,omitempty"`              // of the peak, 0 to 1: median over the pairs
	MBs        float64 `json:"mb_per_second,omitempty"`      // of text

	AllocationsPerLine float64            `json:"allocations_per_line,omitempty"`
	SequencesPerSecond float64            `json:"sequences_per_second,omitempty"`
	StepMS             *Spread            `json:"step_ms,omitempty"`
	GFLOP              float64            `json:"gflop_per_step,omitempty"` // of matrix products
	Parts              map[string]float64 `json:"parts_ms,omitempty"`       // of a step, medians

	Samples []Sample `json:"samples"` // one by one, in the order in which they were taken
}

// Sample is one measurement.
type Sample struct {
	MS    float64 `json:"ms"`
	Share float64 `json:"share,omitempty"` // of the peak, 0 to 1
	// ProbeNS is the greater of the times, in nanoseconds, that a round of the probe took before and after the work, see probe. It is 0 where nothing is known.
	ProbeNS float64 `json:"probe_ns"`
}

// Alone returns the shares of the peak of those samples, of each figure, during which the processor's cores did not serve others: as far as is known, which
// is that the probe took at most a quarter longer, before and after, than in the best of all the samples. What takes longer than two seconds is left out, since
// that is long enough for others to come and go unseen.
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

// samples are the paired times of a benchmark and of what limits it, and the probes between which it ran.
type samples struct {
	work, limit []time.Duration
	probes      []float64
	elsewhere   bool // other processes do the work
}

// take measures f, and limit before and after it. The first limit runs twice: a processor that comes from other work, or from waiting for another process,
// needs up to a millisecond for its threads to wake.
func (s *samples) take(f, limit func()) {
	limit()
	before := elapsed(limit)
	quiet := s.probe()
	s.work = append(s.work, elapsed(f))
	s.probes = append(s.probes, max(quiet, s.probe()))
	s.limit = append(s.limit, (before+elapsed(limit))/2)
}

// probe is that of the processors which do the work, 0 where it is not known which those are.
func (s *samples) probe() float64 {
	if s.elsewhere && runtime.GOMAXPROCS(0) < runtime.NumCPU() {
		return 0
	}
	return probe()
}

func elapsed(f func()) time.Duration {
	t0 := time.Now()
	f()
	return time.Since(t0)
}

// pair measures f in turn with limit, once for each iteration. The first call of f, which may allocate and fault pages in, is not counted.
func (s *samples) pair(b *testing.B, f, limit func()) {
	f()
	b.ResetTimer()
	for b.Loop() {
		s.take(f, limit)
	}
}

// probe returns how many nanoseconds a round of a few integer instructions takes on the slowest of all threads.
//
// A core that has two hardware threads gives each half of its instructions while both are busy. A virtual machine is not told who has the other one, and
// integer instructions, which wait for nothing, notice at once. Multiply-adds on registers do not: their two ports are the limit, and half of the
// instructions is enough for them, but not for products, which must load as well.
func probe() float64 {
	const rounds = 50_000
	took := make([]time.Duration, runtime.GOMAXPROCS(0))
	kernels.Parallel(len(took), func(i0, i1 int) {
		for i := i0; i < i1; i++ {
			t0 := time.Now()
			runtime.KeepAlive(integers(rounds))
			took[i] = time.Since(t0)
		}
	})
	return float64(slices.Max(took).Nanoseconds()) / rounds
}

// integers does additions and exclusive ors, none of which waits for more than one other.
func integers(rounds uint64) uint64 {
	var a, b, c, d uint64
	for i := range rounds {
		a += rounds
		b ^= i
		c += i
		d ^= rounds
	}
	return a ^ b ^ c ^ d
}

func milliseconds(d []time.Duration) []float64 {
	ms := make([]float64, len(d))
	for i, t := range d {
		ms[i] = t.Seconds() * 1e3
	}
	return ms
}

func spread(ms []float64) Spread {
	if len(ms) == 0 {
		return Spread{}
	}
	return Spread{Min: slices.Min(ms), Median: Median(ms), Max: slices.Max(ms)}
}

// Median is that of the values; of an even number of them the lower of the middle two.
func Median(values []float64) float64 {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return sorted[(len(sorted)-1)/2]
}

// against is done over each time, in units of 1e9 a second, and what of the limit is done over its times. It sets the shares, which are the ratios in each pair.
func (f *Figure) against(s *samples, done, limitDone float64) (rate, peak float64) {
	var rates, peaks, shares []float64
	for i := range s.work {
		rates = append(rates, done/1e9/s.work[i].Seconds())
		peaks = append(peaks, limitDone/1e9/s.limit[i].Seconds())
		shares = append(shares, rates[i]/peaks[i])
		f.Samples[i].Share = shares[i]
	}
	f.Share = Median(shares)
	return Median(rates), Median(peaks)
}

// figure has the times alone.
func (s *samples) figure() Figure {
	ms := milliseconds(s.work)
	f := Figure{Threads: runtime.GOMAXPROCS(0), CPULevel: kernels.Level(), Count: len(s.work), Time: spread(ms)}
	for i := range ms {
		f.Samples = append(f.Samples, Sample{MS: ms[i], ProbeNS: s.probes[i]})
	}
	return f
}

// peak keeps all threads busy with multiply-adds of a format for a millisecond or more, and returns the number of floating point operations.
func peak(inputs numerics.Format) float64 {
	const rounds = 200_000
	procs := runtime.GOMAXPROCS(0)
	kernels.Parallel(procs, func(i0, i1 int) {
		for range i1 - i0 {
			kernels.Peak(inputs, rounds)
		}
	})
	return float64(procs * rounds * kernels.Peak(inputs, 1))
}

// stream scales an array in place that is far larger than any cache, on all threads, and returns the bytes that it moved: the limit of everything
// that passes over memory once.
func stream(x []float32) float64 {
	inStretches(len(x), func(i0, i1 int) { kernels.Scale(x[i0:i1], 1, x[i0:i1]) })
	return 8 * float64(len(x))
}

// inStretches calls body for stretches that stay in cache, in parallel.
func inStretches(n int, body func(i0, i1 int)) {
	const stretch = 16 << 10
	kernels.Parallel((n+stretch-1)/stretch, func(s0, s1 int) {
		for s := s0; s < s1; s++ {
			body(s*stretch, min(n, (s+1)*stretch))
		}
	})
}

// Line is the figure as a line of Go's benchmark format, which benchstat reads.
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

// metrics are what a figure has beside its time.
func (f *Figure) metrics() []metric {
	all := []metric{{"sequences/s", f.SequencesPerSecond}, {"GFLOPS", f.GFLOPS}, {"GB/s", f.GBs}, {"MB/s", f.MBs}, {"%peak", 100 * f.Share}}
	return slices.DeleteFunc(all, func(m metric) bool { return m.value == 0 })
}
