package bench

import (
	"fmt"
	"runtime"
	"testing"

	"harness.invalid/core/kernels"
	"harness.invalid/core/numerics"
	"harness.invalid/core/random"
)

// gemm is the shape of a matrix product, C[m, n] with a sum over k.
type gemm struct {
	name           string
	m, n, k        int
	transA, transB bool
	serial         bool // on one thread, as for an attention head
	ld             int  // stride between rows; 0: the rows are contiguous
	inputs         numerics.Format
	partials       kernels.Partials
}

// layer returns the three products of a dense layer with m tokens, n outputs and k inputs: its output, the gradient
// of its input, and the gradient of its weight.
func layer(name string, m, n, k int) []gemm {
	return []gemm{
		{name: name + "/NT", m: m, n: n, k: k, transB: true},
		{name: name + "/NN", m: m, n: k, k: n},
		{name: name + "/TN", m: n, n: k, k: m, transA: true},
	}
}

// gemms are the matrix products of BERT's sizes.
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
	// Narrow inputs, for which a processor may have matrix instructions.
	for _, f := range []numerics.Format{numerics.BF16, numerics.FP16} {
		name := fmt.Sprintf("narrow-%v", f)
		all = append(all, gemm{name: name + "/NN", m: 1024, n: 1024, k: 1024, inputs: f})
		for _, s := range layer(name, 4096, 1024, 256) {
			s.inputs = f
			all = append(all, s)
		}
	}
	// The cost of storing partial sums in FP16.
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

// measure runs the product with random factors, against the peak of multiply-adds.
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
	g := kernels.Gemm{
		TransA: s.transA, TransB: s.transB, M: s.m, N: s.n, K: s.k,
		A: values(ra * lda), LDA: lda, B: values(rb * ldb), LDB: ldb, C: values(rc * ldc), LDC: ldc,
		Inputs: s.inputs, Partials: s.partials,
	}
	kernels.Round(g.A, g.A, numerics.Rounding{Format: s.inputs}, 0)
	kernels.Round(g.B, g.B, numerics.Rounding{Format: s.inputs}, 0)
	f := g.Run
	if s.serial {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		f = g.RunSerial
	}
	limit := peak(s.inputs) // floating point operations per call
	var pairs samples
	pairs.pair(b, f, func() { peak(s.inputs) })
	out := pairs.figure()
	out.GFLOPS, out.PeakGFLOPS = out.against(&pairs, 2*float64(s.m)*float64(s.n)*float64(s.k), limit)
	return out
}
