package bench

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"harness.invalid/core/kernels"
	"harness.invalid/core/numerics"
	"harness.invalid/core/random"
)

// gemm is the shape of one matrix product, C[m, n] with a sum over k.
type gemm struct {
	name           string
	m, n, k        int
	transA, transB bool
	serial         bool // one head's, on one thread
	ld             int  // between rows as stored; 0: none is left out
	inputs         numerics.Format
	partials       kernels.Partials
}

// layer is the three products of a linear layer with m tokens, n outputs and k inputs: its output, the gradient of its input, that of its weights.
func layer(name string, m, n, k int) []gemm {
	return []gemm{{name: name + "/NT", m: m, n: n, k: k, transB: true}, {name: name + "/NN", m: m, n: k, k: n}, {name: name + "/TN", m: n, n: k, k: m, transA: true}}
}

// gemms are the products of BERT's sizes.
func gemms() []gemm {
	all := []gemm{{name: "cube/NN", m: 1024, n: 1024, k: 1024}}
	for _, l := range []struct {
		name    string
		m, n, k int
	}{
		{"base-projection", 1024, 768, 768}, {"base-up", 1024, 3072, 768}, {"base-down", 1024, 768, 3072}, {"base-4096", 4096, 768, 768},
		{"mini-projection", 4096, 256, 256}, {"mini-up", 4096, 1024, 256}, {"mini-down", 4096, 256, 1024},
		{"tiny-projection", 4096, 128, 128}, {"tiny-up", 4096, 512, 128}, {"tiny-down", 4096, 128, 512},
		{"tiny-head", 640, 30522, 128}, {"base-head", 160, 30522, 768},
	} {
		all = append(all, layer(l.name, l.m, l.n, l.k)...)
	}
	// Narrow inputs, for which a processor may have a matrix unit.
	for _, f := range []numerics.Format{numerics.BF16, numerics.FP16} {
		name := fmt.Sprintf("narrow-%v", f)
		all = append(all, gemm{name: name + "/NN", m: 1024, n: 1024, k: 1024, inputs: f})
		for _, s := range layer(name, 4096, 1024, 256) {
			s.inputs = f
			all = append(all, s)
		}
	}
	// What it costs to store partial sums in FP16.
	for _, chunk := range []int{16, 64, 256} {
		for _, stochastic := range []bool{false, true} {
			r := numerics.Rounding{Format: numerics.FP16, Stochastic: stochastic}
			name := fmt.Sprintf("partials-%d-nearest", chunk)
			if stochastic {
				name, r.Stream = fmt.Sprintf("partials-%d-stochastic", chunk), random.New(1, random.Rounding)
			}
			all = append(all, gemm{name: name, m: 1024, n: 768, k: 768, transB: true, partials: kernels.Partials{Chunk: chunk, Rounding: r}})
		}
	}
	for _, s := range []int{128, 384} {
		name := fmt.Sprintf("attention-%d/", s)
		all = append(all,
			gemm{name: name + "scores", m: s, n: s, k: 64, transB: true, serial: true, ld: 768},
			gemm{name: name + "context", m: s, n: 64, k: s, serial: true, ld: 768},
			gemm{name: name + "values", m: s, n: 64, k: s, transA: true, serial: true, ld: 768})
	}
	return all
}

// elementwise are passes over activations in cache: a megabyte, which the second level cache of the chips at hand holds.
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

// Kernels are the matrix products, as a share of the peak of multiply-adds, and the passes over activations, as a share of a pass that only multiplies.
func Kernels() []Benchmark {
	var list []Benchmark
	for _, s := range gemms() {
		list = append(list, Benchmark{fmt.Sprintf("Gemm/%s/%dx%dx%d", s.name, s.m, s.n, s.k), func(b *testing.B) (Figure, error) { return s.measure(b), nil }})
	}
	return append(list, elementwise()...)
}

func (s *gemm) measure(b *testing.B) Figure {
	rows := func(n, m int, trans bool) (count, ld int) {
		if trans {
			n, m = m, n
		}
		return n, max(m, s.ld)
	}
	ra, lda := rows(s.m, s.k, s.transA)
	rb, ldb := rows(s.k, s.n, s.transB)
	rc, ldc := rows(s.m, s.n, false)
	g := kernels.Gemm{TransA: s.transA, TransB: s.transB, M: s.m, N: s.n, K: s.k,
		A: values(ra * lda), LDA: lda, B: values(rb * ldb), LDB: ldb, C: values(rc * ldc), LDC: ldc, Inputs: s.inputs, Partials: s.partials}
	kernels.Round(g.A, g.A, numerics.Rounding{Format: s.inputs}, 0)
	kernels.Round(g.B, g.B, numerics.Rounding{Format: s.inputs}, 0)
	f := g.Run
	if s.serial {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		f = g.RunSerial
	}
	limit := peak(s.inputs) // floating point operations of a call
	var pairs samples
	pairs.pair(b, f, func() { peak(s.inputs) })
	out := pairs.figure()
	out.GFLOPS, out.PeakGFLOPS = out.against(&pairs, 2*float64(s.m)*float64(s.n)*float64(s.k), limit)
	return out
}
