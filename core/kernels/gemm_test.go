package kernels

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"harness.invalid/core/numerics"
)

// product returns op(A)·op(B)[:, k0:k1] in float64, and the sums of the magnitudes of the terms, which bound errors.
func product(g *Gemm, k0, k1 int) (sum, size []float64) {
	sum, size = make([]float64, g.M*g.N), make([]float64, g.M*g.N)
	b := make([]float64, g.N)
	for k := k0; k < k1; k++ {
		for j := range b {
			at := k*g.LDB + j
			if g.TransB {
				at = j*g.LDB + k
			}
			b[j] = float64(g.RoundB.Round(g.B[at]))
		}
		for i := range g.M {
			at := i*g.LDA + k
			if g.TransA {
				at = k*g.LDA + i
			}
			a := float64(g.RoundA.Round(g.A[at]))
			s, z := sum[i*g.N:][:g.N], size[i*g.N:][:g.N]
			for j, v := range b {
				p := a * v
				s[j] += p
				z[j] += math.Abs(p)
			}
		}
	}
	return sum, size
}

// newGemm fills a product of the given shape. Leading dimensions are a little larger than needed.
func newGemm(m, n, k int, transA, transB bool, pad int) *Gemm {
	g := &Gemm{M: m, N: n, K: k, TransA: transA, TransB: transB, LDA: k + pad, LDB: n + pad, LDC: n + pad}
	rowsA, rowsB := m, k
	if transA {
		rowsA, g.LDA = k, m+pad
	}
	if transB {
		rowsB, g.LDB = n, k+pad
	}
	g.A, g.B, g.C = normals(rowsA*g.LDA, 1), normals(rowsB*g.LDB, 2), normals(m*g.LDC, 3)
	return g
}

// checkGemm runs g and compares it with float64. A sum of K products in float32, each rounded at most twice, in any
// order, has an error of at most (K+2)·2^-24 times the sum of the magnitudes (Higham, Accuracy and Stability,
// section 3.1).
func checkGemm(t interface {
	Helper()
	Fatalf(string, ...any)
}, g *Gemm) {
	t.Helper()
	before := clone(g.C)
	g.Run()
	sum, size := product(g, 0, g.K)
	for i := range g.M {
		for j := range g.LDC {
			got := g.C[i*g.LDC+j]
			if j >= g.N {
				if got != before[i*g.LDC+j] {
					t.Fatalf("element (%d, %d) beyond the %d columns was written", i, j, g.N)
				}
				continue
			}
			want, terms := sum[i*g.N+j], size[i*g.N+j]
			if g.Accumulate {
				old := float64(before[i*g.LDC+j])
				want, terms = want+old, terms+math.Abs(old)
			}
			if d := math.Abs(float64(got) - want); !(d <= float64(g.K+2)*0x1p-24*terms) {
				t.Fatalf("C[%d, %d] = %v, want %v, off by %g of the sizes", i, j, got, want, d/terms)
			}
		}
	}
}

func TestGemm(t *testing.T) {
	onEachLevel(t, func(t *testing.T) {
		for at, shape := range [][3]int{
			{0, 3, 4}, {3, 0, 4}, {3, 4, 0}, {1, 1, 1}, {1, 33, 7}, {12, 32, 256}, {13, 31, 257}, {11, 64, 64}, {128, 128, 64}, {40, 130, 300},
			{15, 300, 129}, {30, 40, 1030}, {5, 16, 2049}, {37, 17, 16}, {23, 48, 5},
		} {
			for trans := range 4 {
				g := newGemm(shape[0], shape[1], shape[2], trans&1 != 0, trans&2 != 0, trans)
				g.Accumulate = (at+trans)%2 == 0
				g.Inputs = numerics.Format((at + trans) % 4)
				g.RoundA, g.RoundB = g.Inputs, g.Inputs
				t.Run(fmt.Sprintf("%dx%dx%d/transA=%v/transB=%v/add=%v",
					g.M, g.N, g.K, g.TransA, g.TransB, g.Accumulate), func(t *testing.T) { checkGemm(t, g) })
			}
		}
	})
}

func TestGemmRandomShapes(t *testing.T) {
	onEachLevel(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			dim := rapid.IntRange(1, 90)
			g := newGemm(dim.Draw(t, "M"), dim.Draw(t, "N"), dim.Draw(t, "K"), rapid.Bool().Draw(t, "transA"),
				rapid.Bool().Draw(t, "transB"), rapid.IntRange(0, 5).Draw(t, "pad"))
			g.Accumulate = rapid.Bool().Draw(t, "accumulate")
			g.RoundA = numerics.Format(rapid.IntRange(0, 3).Draw(t, "roundA"))
			g.RoundB = numerics.Format(rapid.IntRange(0, 3).Draw(t, "roundB"))
			if g.RoundA == g.RoundB {
				g.Inputs = g.RoundA
			}
			checkGemm(t, g)
		})
	})
}

// TestGemmDoesNotDependOnWorkers: equal bits for 1, 2 and 3 workers, with every feature on.
func TestGemmDoesNotDependOnWorkers(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	onEachLevel(t, func(t *testing.T) {
		for _, shape := range [][3]int{{30, 270, 270}, {37, 400, 64}, {17, 257, 600}, {400, 128, 270}} {
			inPlace := shape[1] == 128 // for two workers and three, of half and a third of the rows; one packs B
			for trans := range 4 {
				var first []float32
				for procs := 1; procs <= 4; procs++ {
					runtime.GOMAXPROCS(min(procs, 3))
					g := newGemm(shape[0], shape[1], shape[2], trans&1 != 0, trans&2 != 0, trans&1)
					if !inPlace {
						g.RoundB = numerics.BF16
					}
					if trans > 0 && !inPlace {
						g.Inputs = numerics.Format(trans)
						g.RoundA, g.RoundB = g.Inputs, g.Inputs
					}
					if trans == 2 {
						g.Partials = Partials{Chunk: 64, Rounding: numerics.Rounding{Format: numerics.FP16, Stochastic: true, Stream: testStream}}
					}
					g.Epilogue = func(row, col int, c []float32) { Dropout(c, c, 0.25, testStream, row*g.N+col) }
					if procs <= 3 {
						g.Run()
					} else {
						g.RunSerial()
					}
					if first == nil {
						first = g.C
						continue
					}
					for i := range first {
						if word(first[i]) != word(g.C[i]) {
							t.Fatalf("%v, trans %d: element %d is %v with 1 worker, %v otherwise (%d)", shape, trans, i, first[i], g.C[i], procs)
						}
					}
				}
			}
		}
	})
}

// TestGemmSharedPlaces: equal bits whether or not A is packed because its rows share places in the cache, or its
// columns might.
func TestGemmSharedPlaces(t *testing.T) {
	defer func(c cache) { l1 = c }(l1)
	onEachLevel(t, func(t *testing.T) {
		for trans := range 4 {
			g := newGemm(700, 300, 640, trans&1 != 0, trans&2 != 0, 128)
			if trans == 2 {
				g.Partials = Partials{Chunk: 64, Rounding: numerics.Rounding{Format: numerics.FP16, Stochastic: true, Stream: testStream}}
			}
			var results [2][]float32
			for i, c := range []cache{{}, {ways: 1, way: 64}} {
				l1 = c
				if got, want := plan(g, &active.gemm, 1).packA, (i == 1) != g.TransA; got != want {
					t.Fatalf("trans %d: A is packed: %v, want %v", trans, got, want)
				}
				clear(g.C)
				g.Run()
				results[i] = slices.Clone(g.C)
			}
			if !slices.Equal(results[0], results[1]) {
				t.Errorf("trans %d: another result when A is packed", trans)
			}
		}
	})
}

// TestGemmHelp: a second worker takes rows of a task, and they have the same bits.
func TestGemmHelp(t *testing.T) {
	for trans := range 4 {
		g := newGemm(400, 300, 600, trans&1 != 0, trans&2 != 0, 0)
		g.RunSerial()
		want := slices.Clone(g.C)
		clear(g.C)
		// Whoever finishes rows first waits for another one to finish some.
		var calls atomic.Int32
		other := make(chan bool, 1)
		g.Epilogue = func(int, int, []float32) {
			switch calls.Add(1) {
			case 1:
				select {
				case <-other:
				case <-time.After(10 * time.Second):
					t.Errorf("trans %d: nobody helps", trans)
				}
			case 2:
				other <- true
			}
		}
		p := plan(g, &active.gemm, 1)
		tasks := make([]gemmTask, 1)
		tasks[0].set(&p, g, 0, g.M, 0, g.N)
		var running sync.WaitGroup
		running.Go(tasks[0].run)
		help(tasks)
		running.Wait()
		if !slices.Equal(g.C, want) {
			t.Errorf("trans %d: another result with help", trans)
		}
	}
}

// TestGemmEpilogue: every element is in exactly one segment, finished and at the right place, and segments start
// where Gemm.Epilogue says.
func TestGemmEpilogue(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	onEachLevel(t, func(t *testing.T) {
		for _, shape := range [][4]int{{70, 300, 600, 2}, {300, 128, 64, 2}, {3, 1000, 1100, 2}, {4, 5, 0, 2},
			{300, 128, 64, 0}, {70, 200, 600, 0}, {30, 1000, 40, 0}, {4, 5, 0, 0}} {
			g := newGemm(shape[0], shape[1], shape[2], false, true, shape[3])
			plain := *g
			plain.C = clone(g.C)
			plain.Run()
			seen := make([]int32, g.M*g.N) // each element belongs to one segment, so to one worker
			g.Epilogue = func(row, col int, c []float32) {
				if col%segment != 0 {
					t.Errorf("segment starts at column %d", col)
				}
				if len(c) > g.N-col && (g.LDC != g.N || col != 0 || len(c)%g.N != 0) {
					t.Errorf("segment of %d elements from column %d is no part of a row, nor whole rows of %d without gaps", len(c), col, g.N)
				}
				for j := range c {
					seen[row*g.N+col+j]++
					c[j] = 2*c[j] + float32(row+(col+j)/g.N) // exact or rounded once: the same below
				}
			}
			g.Run()
			for i := range g.M {
				for j := range g.N {
					if want := 2*plain.C[i*g.LDC+j] + float32(i); seen[i*g.N+j] != 1 || g.C[i*g.LDC+j] != want {
						t.Fatalf("%v: element (%d, %d) is %v, seen %d times, want %v", shape, i, j, g.C[i*g.LDC+j], seen[i*g.N+j], want)
					}
				}
			}
		}
	})
}

// TestGemmPartials compares the rounding of partial sums with a plain loop. Inputs are small integers, so that
// float32 sums are exact in any order and the rounded results must be equal bit for bit.
func TestGemmPartials(t *testing.T) {
	onEachLevel(t, func(t *testing.T) {
		for at, r := range []numerics.Rounding{ // with 140 columns, and with 160 that need no padding
			{Format: numerics.FP16, Stochastic: true, Stream: testStream}, {Format: numerics.BF16},
		} {
			for _, chunk := range []int{24, 256} {
				for trans := range 4 {
					g := newGemm(13, 140+20*at, 300, trans&1 != 0, trans&2 != 0, 0)
					for i := range g.A {
						g.A[i] = float32(math.Trunc(float64(20 * g.A[i])))
					}
					g.Inputs = numerics.FP16
					for i := range g.B {
						g.B[i] = float32(math.Trunc(float64(20 * g.B[i])))
					}
					g.Partials = Partials{Chunk: chunk, Rounding: r}
					g.Run()
					wants := make([]float32, g.M*g.N)
					for k := 0; k < g.K; k += chunk {
						sum, _ := product(g, k, min(k+chunk, g.K))
						for i := range wants {
							wants[i] = r.Round(wants[i]+float32(sum[i]), k/chunk*g.M*g.N+i)
						}
					}
					for i := range g.M {
						for j := range g.N {
							want := wants[i*g.N+j]
							if got := g.C[i*g.LDC+j]; got != want {
								t.Fatalf("%v chunk %d trans %d: C[%d, %d] = %v, want %v", r.Format, chunk, trans, i, j, got, want)
							}
						}
					}
				}
			}
		}
	})
}

// TestGemmPropagates: a NaN or an infinity in A reaches its row of C even when it meets zeros, and no other row; in
// B its column.
func TestGemmPropagates(t *testing.T) {
	onEachLevel(t, func(t *testing.T) {
		for _, v := range []float32{float32(math.NaN()), float32(math.Inf(1))} {
			g := newGemm(30, 50, 40, false, false, 0)
			clear(g.B)
			g.A[7*g.LDA+39] = v
			g.Run()
			for i := range g.M {
				for j := range g.N {
					if got := g.C[i*g.LDC+j]; (i == 7) != (got != got) {
						t.Fatalf("A holds %v at (7, 39), B zeros: C[%d, %d] = %v", v, i, j, got)
					}
				}
			}
			g = newGemm(30, 50, 40, false, false, 0)
			clear(g.A)
			g.B[11] = v
			g.Run()
			for i := range g.M {
				for j := range g.N {
					if got := g.C[i*g.LDC+j]; (j == 11) != (got != got) {
						t.Fatalf("B holds %v at (0, 11), A zeros: C[%d, %d] = %v", v, i, j, got)
					}
				}
			}
		}
	})
}

func TestGemmPanics(t *testing.T) {
	for name, g := range map[string]*Gemm{
		"short A":   {M: 2, N: 2, K: 2, A: make([]float32, 3), B: make([]float32, 4), C: make([]float32, 4), LDA: 2, LDB: 2, LDC: 2},
		"small LDB": {M: 2, N: 2, K: 2, A: make([]float32, 4), B: make([]float32, 4), C: make([]float32, 4), LDA: 2, LDB: 1, LDC: 2},
		"negative":  {M: -1},
		"large chunk": {M: 1, N: 1, K: 1, A: make([]float32, 1), B: make([]float32, 1), C: make([]float32, 1), LDA: 1, LDB: 1,
			LDC: 1, Partials: Partials{Chunk: 257}},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			g.Run()
		}()
	}
}

// TestGemmAllocates: products allocate nothing in steady state.
func TestGemmAllocates(t *testing.T) {
	g := newGemm(128, 128, 64, false, true, 0)
	g.RunSerial()
	// A garbage collection in between empties the pool, so one allocation in ten runs is allowed.
	if n := testing.AllocsPerRun(100, g.RunSerial); n > 0.1 {
		t.Errorf("%v allocations per run", n)
	}
}
