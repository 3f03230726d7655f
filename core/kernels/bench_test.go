package kernels

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"
)

// BenchmarkGemm reports GFLOPS and the share of the peak of multiply-adds that the same number of workers reached in turn with it. Set GOMAXPROCS in the
// environment for one worker: -cpu does not reach the first run of a benchmark that uses b.Loop.
func BenchmarkGemm(b *testing.B) {
	type shape struct {
		name           string
		m, n, k        int
		transA, transB bool
	}
	var shapes []shape
	add := func(name string, m, n, k int) {
		shapes = append(shapes, shape{name + "/NT", m, n, k, false, true}, shape{name + "/NN", m, k, n, false, false}, shape{name + "/TN", n, k, m, true, false})
	}
	shapes = append(shapes, shape{"cube/NN", 1024, 1024, 1024, false, false})
	// Output, input gradient and weight gradient of a layer with M tokens, N outputs, K inputs.
	add("base-projection", 1024, 768, 768)
	add("base-up", 1024, 3072, 768)
	add("base-down", 1024, 768, 3072)
	add("base-4096", 4096, 768, 768)
	add("tiny-projection", 4096, 128, 128)
	add("tiny-up", 4096, 512, 128)
	add("tiny-down", 4096, 128, 512)
	add("mini-projection", 4096, 256, 256)
	add("mini-up", 4096, 1024, 256)
	add("mini-down", 4096, 256, 1024)
	add("head-tiny", 640, 30522, 128)
	for _, s := range shapes {
		g := newGemm(s.m, s.n, s.k, s.transA, s.transB, 0)
		b.Run(fmt.Sprintf("%s/%dx%dx%d", s.name, s.m, s.n, s.k), func(b *testing.B) { share(b, 2*s.m*s.n*s.k, g.Run) })
	}
}

// BenchmarkAttention is the products of attention for one head: serial, small, with the rows of a whole batch between those of a head.
func BenchmarkAttention(b *testing.B) {
	for _, s := range []struct {
		name           string
		m, n, k        int
		transA, transB bool
	}{
		{"scores", 128, 128, 64, false, true}, {"context", 128, 64, 128, false, false}, {"values", 128, 64, 128, true, false},
		{"scores", 384, 384, 64, false, true}, {"context", 384, 64, 384, false, false}, {"values", 384, 64, 384, true, false},
	} {
		g := newGemm(s.m, s.n, s.k, s.transA, s.transB, 256)
		b.Run(fmt.Sprintf("%s/%dx%dx%d", s.name, s.m, s.n, s.k), func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			share(b, 2*s.m*s.n*s.k, g.RunSerial)
		})
	}
}

// BenchmarkGemmRounding shows what the emulation of formats costs.
func BenchmarkGemmRounding(b *testing.B) {
	for i, name := range []string{"plain", "partials-16", "partials-64", "partials-256", "partials-64-stochastic"} {
		g := newGemm(1024, 768, 768, false, true, 0)
		if i > 0 {
			r := roundings()[4]
			if i == 4 {
				r = roundings()[5]
			}
			g.Partials = Partials{Chunk: []int{0, 16, 64, 256, 64}[i], Rounding: r}
		}
		b.Run(name, func(b *testing.B) { share(b, 2*g.M*g.N*g.K, g.Run) })
	}
}

// share runs f in turn with a measurement of the peak, and reports the median rate and the median share of the peak;
// and the best rate over the best peak, which a busy machine disturbs less.
func share(b *testing.B, flop int, f func()) {
	const rounds = 50_000 // about a quarter of a millisecond with AVX-512
	procs := runtime.GOMAXPROCS(0)
	top := float64(procs * rounds * Peak(1))
	var rates, peaks, shares []float64
	f()
	for b.Loop() {
		t0 := time.Now()
		Parallel(procs, func(_, _ int) { Peak(rounds) })
		t1 := time.Now()
		f()
		work := time.Since(t1)
		rates = append(rates, float64(flop)/float64(work.Nanoseconds()))
		peaks = append(peaks, top/float64(t1.Sub(t0).Nanoseconds()))
		shares = append(shares, rates[len(rates)-1]/peaks[len(peaks)-1])
	}
	slices.Sort(rates)
	slices.Sort(shares)
	b.ReportMetric(rates[len(rates)/2], "GFLOPS")
	b.ReportMetric(100*shares[len(shares)/2], "%peak")
	b.ReportMetric(100*slices.Max(rates)/slices.Max(peaks), "%peak-best")
	b.ReportMetric(0, "ns/op")
}
