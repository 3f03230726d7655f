package bench

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"harness.invalid/core/kernels"
	"harness.invalid/core/numerics"
)

// samples are the times of a benchmark, each paired with a time of what limits it, and with probes before and after.
type samples struct {
	work, limit []time.Duration
	probes      []float64
	elsewhere   bool // other processes do the work
}

// take measures f, and limit before and after it. The first limit runs twice, because threads that come from other
// work, or from waiting for another process, need up to a millisecond to wake up.
func (s *samples) take(f, limit func()) {
	limit()
	before := elapsed(limit)
	quiet := s.probe()
	s.work = append(s.work, elapsed(f))
	s.probes = append(s.probes, max(quiet, s.probe()))
	s.limit = append(s.limit, (before+elapsed(limit))/2)
}

// probe probes the processors that do the work. It returns 0 if it is unknown which ones those are.
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

// pair measures f alternately with limit, once per iteration. The first call of f, which may allocate memory and
// cause page faults, does not count.
func (s *samples) pair(b *testing.B, f, limit func()) {
	f()
	b.ResetTimer()
	for b.Loop() {
		s.take(f, limit)
	}
}

// figure is a figure with the times alone.
func (s *samples) figure() Figure {
	ms := make([]float64, len(s.work))
	for i, t := range s.work {
		ms[i] = t.Seconds() * 1e3
	}
	f := Figure{Threads: runtime.GOMAXPROCS(0), CPULevel: kernels.Level(), Count: len(s.work), Time: spread(ms)}
	for i := range ms {
		f.Samples = append(f.Samples, Sample{MS: ms[i], ProbeNS: s.probes[i]})
	}
	return f
}

// against returns the median rates of the work and of its limit in 1e9 units per second, where work does done units
// in each run and limit does limitDone. It sets the shares, which are the ratios of the pairs.
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

// probe returns how many nanoseconds a round of a few integer instructions takes on the slowest of all threads.
//
// A core with two hardware threads divides its issue slots between them while both are busy, and a virtual machine
// is not told who uses the other one. Independent integer instructions slow down at once. Multiply-adds on
// registers do not, since half of the issue slots suffice to keep their two ports busy; matrix products do, since
// they also load.
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

// integers does additions and exclusive ors in independent chains.
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

// peak keeps all threads busy with multiply-adds of a format for at least a millisecond, and returns the number of
// floating point operations.
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

// stream scales an array in place on all threads and returns the number of bytes moved. For an array far larger
// than any cache it is the limit of everything that passes over memory once.
func stream(x []float32) float64 {
	inChunks(len(x), func(i0, i1 int) { kernels.Scale(x[i0:i1], 1, x[i0:i1]) })
	return 8 * float64(len(x))
}

// inChunks calls body for chunks that fit into the cache, in parallel.
func inChunks(n int, body func(i0, i1 int)) {
	const chunk = 16 << 10
	kernels.Parallel((n+chunk-1)/chunk, func(c0, c1 int) {
		for c := c0; c < c1; c++ {
			body(c*chunk, min(n, (c+1)*chunk))
		}
	})
}
