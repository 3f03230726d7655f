package kernels

import (
	"math"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"harness.invalid/core/numerics"
)

// roundedProduct is C as roundedKernel says, one element after the other.
func roundedProduct(g *Gemm) []float32 {
	r := g.Partials.Rounding
	grid := r.Stream.Grid()
	c := clone(g.C)
	for i := range g.M {
		for j := range g.N {
			var sum float32
			if g.Accumulate {
				sum = g.C[i*g.LDC+j]
			}
			for k := range g.K {
				a, b := i*g.LDA+k, k*g.LDB+j
				if g.TransA {
					a = k*g.LDA + i
				}
				if g.TransB {
					b = j*g.LDB + k
				}
				sum += float32(g.A[a] * g.B[b])
				if k%16 == 15 || k == g.K-1 {
					sum = r.RoundWith(sum, uint16(grid.Bits(uint32(i), uint32(j), uint32(k/16))<<3))
					if r.Stochastic && sum == 0 {
						sum = 0
					}
				}
			}
			c[i*g.LDC+j] = sum
		}
	}
	return c
}

// halves puts factors in FP16 whose products span its range: normal, subnormal and too large sums, zeros of both
// signs, and now and then an infinity or a NaN.
func halves(x []float32, scale float32, special int) {
	for i := range x {
		x[i] = numerics.FP16.Round(x[i] * scale)
		if x[i] == 0 || i%7 == 3 {
			x[i] = float32(math.Copysign(0, float64(x[i])))
		}
	}
	for i := special; special > 0 && i < len(x); i += 5000 {
		x[i] = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}[i/5000%3]
	}
}

func checkRounded(t interface {
	Helper()
	Fatalf(string, ...any)
}, g *Gemm) {
	t.Helper()
	want := roundedProduct(g)
	g.Run()
	for i, v := range g.C {
		if !same(v, want[i]) {
			t.Fatalf("%dx%dx%d, transposed %v %v, %+v: C[%d, %d] = %x, want %x",
				g.M, g.N, g.K, g.TransA, g.TransB, g.Partials, i/g.LDC, i%g.LDC, word(v), word(want[i]))
		}
	}
}

// TestGemmRounded: every level has the bits of the plain loop, for shapes that end anywhere, all roundings, and sums of
// all sizes.
func TestGemmRounded(t *testing.T) {
	onEachLevel(t, func(t *testing.T) {
		for at, shape := range [][3]int{
			{1, 1, 1}, {1, 33, 7}, {12, 32, 256}, {13, 31, 257}, {11, 64, 64}, {128, 128, 64}, {40, 130, 300},
			{15, 300, 129}, {30, 40, 1030}, {5, 16, 529}, {37, 17, 16}, {23, 48, 5}, {26, 160, 272}, {400, 64, 48},
			{13, 512, 33},
		} {
			for trans := range 4 {
				for _, scale := range []float32{1, 0x1p-9, 0x1p-12, 60} {
					g := newGemm(shape[0], shape[1], shape[2], trans&1 != 0, trans&2 != 0, trans)
					halves(g.A, scale, at%3)
					halves(g.B, scale, at%2)
					halves(g.C, scale*scale, 0)
					g.Accumulate, g.Inputs = (at+trans)%2 == 0, numerics.FP16
					g.Partials = Partials{Chunk: 16, Rounding: numerics.Rounding{Format: numerics.FP16,
						Stochastic: at%4 > 0, Overflow: numerics.Overflow(at % 3), Stream: testStream}}
					checkRounded(t, g)
				}
			}
		}
	})
}

func TestGemmRoundedRandomShapes(t *testing.T) {
	onEachLevel(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			dim := rapid.IntRange(1, 90)
			g := newGemm(dim.Draw(t, "M"), dim.Draw(t, "N"), dim.Draw(t, "K"), rapid.Bool().Draw(t, "transA"),
				rapid.Bool().Draw(t, "transB"), rapid.IntRange(0, 5).Draw(t, "pad"))
			g.Accumulate, g.Inputs = rapid.Bool().Draw(t, "accumulate"), numerics.FP16
			scale := rapid.SampledFrom([]float32{1, 0x1p-9, 0x1p-12, 60}).Draw(t, "scale")
			halves(g.A, scale, 0)
			halves(g.B, scale, 0)
			halves(g.C, scale, 0)
			g.Partials = Partials{Chunk: 16, Rounding: numerics.Rounding{Format: numerics.FP16,
				Stochastic: rapid.Bool().Draw(t, "stochastic"), Overflow: numerics.Overflow(rapid.IntRange(0, 2).Draw(t, "overflow")),
				Stream: testStream}}
			checkRounded(t, g)
		})
	})
}

// TestGemmRoundedWorkers: equal bits for any number of workers.
func TestGemmRoundedWorkers(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	onEachLevel(t, func(t *testing.T) {
		for trans := range 4 {
			var first []float32
			for _, procs := range []int{1, 2, 3} {
				runtime.GOMAXPROCS(procs)
				g := newGemm(150, 270, 600, trans&1 != 0, trans&2 != 0, trans)
				halves(g.A, 1, 0)
				halves(g.B, 1, 0)
				g.Partials = Partials{Chunk: 16, Rounding: numerics.Rounding{Format: numerics.FP16, Stochastic: true, Stream: testStream}}
				g.Run()
				if first == nil {
					first = g.C
				}
				if !slices.Equal(g.C, first) {
					t.Errorf("trans %d: another result with %d workers", trans, procs)
				}
			}
		}
	})
}

// TestGemmRoundedUnbiased: the mean of stochastically rounded products is the exact product, and the variance of their
// sums over rows, over columns and over both that of independent errors. Over 400 streams a mean is off by more than
// 4.5 standard errors once in 150,000, of which there are fewer tests; a variance over as many streams has a relative
// standard error of √(2/400) = 7%, or 10% where errors are far from normal, and may be off by 40%.
func TestGemmRoundedUnbiased(t *testing.T) {
	const M, N, K, streams = 24, 64, 64, 400
	g := newGemm(M, N, K, false, false, 0)
	halves(g.A, 1, 0)
	halves(g.B, 1, 0)
	exact, _ := product(g, 0, K)
	mean, square := make([]float64, M*N), make([]float64, M*N)
	groups := map[string]func(i, j int) int{
		"row": func(i, _ int) int { return i }, "column": func(_, j int) int { return j }, "all": func(_, _ int) int { return 0 },
		"minor": func(i, j int) int { return i/4*16 + j/4 },
	}
	sums := map[string][]float64{}
	for s := range streams {
		stream := testStream
		stream.Step = uint32(s)
		g.Partials = Partials{Chunk: 16, Rounding: numerics.Rounding{Format: numerics.FP16, Stochastic: true, Stream: stream}}
		g.Run()
		each := map[string][]float64{}
		for name := range groups {
			each[name] = make([]float64, 128)
		}
		for i := range M {
			for j := range N {
				e := float64(g.C[i*N+j]) - exact[i*N+j]
				mean[i*N+j] += e / streams
				square[i*N+j] += e * e / streams
				for name, group := range groups {
					each[name][group(i, j)] += e
				}
			}
		}
		for name := range groups {
			if sums[name] == nil {
				sums[name] = make([]float64, 128)
			}
			for n, e := range each[name] {
				sums[name][n] += e * e / streams
			}
		}
	}
	for i, m := range mean {
		if z := m / math.Sqrt(square[i]/streams); math.Abs(z) > 4.5 {
			t.Errorf("element %d is off by %.1f standard errors in the mean", i, z)
		}
	}
	for name, group := range groups {
		independent := make([]float64, 128)
		for i := range square {
			independent[group(i/N, i%N)] += square[i]
		}
		for n, want := range independent {
			if ratio := sums[name][n] / want; want > 0 && !(ratio > 0.6 && ratio < 1.4) {
				t.Errorf("%s %d: the sum's error has a variance of %.2f times that of independent errors", name, n, ratio)
			}
		}
	}
}
