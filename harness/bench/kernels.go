package bench

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"harness.invalid/core/kernels"
	"harness.invalid/core/numerics"
	"harness.invalid/core/random"
)

// Kernels returns benchmarks of the matrix products, relative to the peak of multiply-adds, and of the passes over
// activations, relative to a pass that only multiplies.
func Kernels() []Benchmark {
	var list []Benchmark
	for _, s := range gemms() {
		name := fmt.Sprintf("Gemm/%s/%dx%dx%d", s.name, s.m, s.n, s.k)
		list = append(list, Benchmark{name, func(b *testing.B) (Figure, error) { return s.measure(b), nil }})
	}
	return append(list, elementwise()...)
}

// elementwise returns benchmarks of passes over activations in cache. Half a megabyte each for input and output
// fits into a second-level cache of one megabyte.
func elementwise() []Benchmark {
	const n = 128 << 10
	const width = 512
	x, y, g := values(n), values(n), values(n)
	gamma, beta := values(width), values(width)
	mean, rstd := make([]float32, n/width), make([]float32, n/width)
	for i := range mean {
		rstd[i] = 1
	}
	stream := random.New(1, random.Rounding)
	var list []Benchmark
	add := func(name string, f func()) {
		list = append(list, Benchmark{"Kernel/" + name, func(b *testing.B) (Figure, error) {
			var s samples
			s.pair(b, f, func() { kernels.Scale(y, 1, x) })
			out := s.figure()
			out.Threads = 1
			out.GBs, out.PeakGBs = out.against(&s, 8*n, 8*n)
			return out, nil
		}})
	}
	add("exp", func() { kernels.Exp(y, x) })
	add("tanh", func() { kernels.Tanh(y, x) })
	add("gelu-erf", func() { kernels.GeluErf(y, x) })
	add("gelu-erf-grad", func() { kernels.GeluErfGrad(y, g, x) })
	add("gelu-tanh", func() { kernels.GeluTanh(y, x) })
	add("gelu-tanh-grad", func() { kernels.GeluTanhGrad(y, g, x) })
	add("dropout", func() { kernels.Dropout(y, x, 0.1, stream, 0) })
	for _, f := range []numerics.Format{numerics.TF32, numerics.BF16, numerics.FP16} {
		add(fmt.Sprintf("round-%v-nearest", f), func() { kernels.Round(y, x, numerics.Rounding{Format: f}, 0) })
	}
	add("round-fp16-stochastic", func() {
		kernels.Round(y, x, numerics.Rounding{Format: numerics.FP16, Stochastic: true, Stream: stream}, 0)
	})
	add("layer-norm", func() { kernels.LayerNorm(y, mean, rstd, x, gamma, beta, 1e-12) })
	dgamma, dbeta := make([]float32, width), make([]float32, width)
	add("layer-norm-grad", func() { kernels.LayerNormGrad(y, dgamma, dbeta, g, x, gamma, mean, rstd) })
	add("softmax", func() {
		for i := 0; i < n; i += width {
			kernels.Softmax(y[i:i+width], x[i:i+width], nil, 1)
		}
	})
	add("softmax-grad", func() {
		for i := 0; i < n; i += width {
			kernels.SoftmaxGrad(y[i:i+width], g[i:i+width], x[i:i+width], 1)
		}
	})
	return list
}

func values(n int) []float32 {
	r := rand.New(rand.NewPCG(1, 2))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}
