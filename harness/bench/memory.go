package bench

import (
	"testing"

	"harness.invalid/core/kernels"
	"harness.invalid/core/numerics"
	"harness.invalid/core/random"
)

// Memory returns benchmarks of passes over arrays of 256 MiB, relative to the bandwidth of scaling one in place.
func Memory() []Benchmark {
	const n = 64 << 20
	var list []Benchmark
	add := func(name string, bytes float64, pass func(x, y []float32)) {
		list = append(list, Benchmark{"Memory/" + name, func(b *testing.B) (Figure, error) {
			x, y := make([]float32, n), make([]float32, n)
			var s samples
			s.pair(b, func() {
				inChunks(n, func(i0, i1 int) { pass(x[i0:i1], y[i0:i1]) })
			}, func() { stream(x) })
			f := s.figure()
			f.GBs, f.PeakGBs = f.against(&s, bytes*n, 8*n)
			return f, nil
		}})
	}
	r := random.New(1, random.Rounding)
	add("read", 4, func(x, _ []float32) { kernels.SumSquares(x) })
	add("scale-in-place", 8, func(x, _ []float32) { kernels.Scale(x, 1, x) })
	add("copy", 8, func(x, y []float32) { copy(y, x) })
	add("add", 12, func(x, y []float32) { kernels.Add(y, y, x) })
	add("round-fp16-nearest", 8, func(x, _ []float32) { kernels.Round(x, x, numerics.Rounding{Format: numerics.FP16}, 0) })
	add("round-fp16-stochastic", 8, func(x, _ []float32) {
		kernels.Round(x, x, numerics.Rounding{Format: numerics.FP16, Stochastic: true, Stream: r}, 0)
	})
	return list
}
