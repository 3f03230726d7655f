package kernels

import (
	"fmt"
	"runtime"
	"sync"

	"harness.invalid/core/numerics"
)

// Gemm is the matrix product C = op(A)·op(B), or C += op(A)·op(B).
//
//	op(A)  [M, K]  A is [M, K], or [K, M] with TransA
//	op(B)  [K, N]  B is [K, N], or [N, K] with TransB
//	C      [M, N]
//
// All are row-major; LDA, LDB and LDC are the distances between rows as stored. C must not overlap A or B.
//
// Products are summed in float32, in runs of at most 256 along K that are added to C in order. Where runs end
// depends only on K, so the result does not depend on GOMAXPROCS, nor on which part of C one call computes. Vector
// levels fuse multiplication and addition.
type Gemm struct {
	TransA, TransB bool
	M, N, K        int
	A, B, C        []float32
	LDA, LDB, LDC  int
	Accumulate     bool // add to C instead of replacing it

	// RoundA and RoundB round the inputs to the nearest value of a format while packing them; FP32 leaves them as they
	// are.
	RoundA, RoundB numerics.Format
	// Inputs promises that all inputs are in a format, after RoundA and RoundB. It changes no input: a processor with
	// a matrix unit computes products of narrow formats there. FP32 promises nothing.
	Inputs numerics.Format

	Partials Partials

	// Epilogue, if set, is called once for every finished segment c = C[row·LDC+col:][:len(c)] while it is in cache,
	// from any worker. A segment is part of a row that begins at a multiple of 128 columns or, where C is contiguous,
	// any number of whole rows. Segments depend on the number of workers; what the epilogue does to an element must
	// not.
	Epilogue func(row, col int, c []float32)
}

// Partials rounds partial sums, like a device that keeps them in a narrow format: C is rounded after every Chunk
// products and after the last. Chunk is at most 256; the zero value never rounds.
//
// FP16 sums of 16 products each are rounded in registers, see roundedKernel: the c-th rounding of C[i, j], counted from
// 0, takes the bits (i, j, c) of the stream's grid. Else a chunk is summed first and then added, and the
// rounding takes the random bits at position (c·M + i)·N + j of the stream.
type Partials struct {
	Chunk    int
	Rounding numerics.Rounding
}

// Run computes the product on GOMAXPROCS workers.
func (g *Gemm) Run() { g.run(runtime.GOMAXPROCS(0)) }

// RunSerial computes the product on the calling goroutine, for use inside a body of Parallel.
func (g *Gemm) RunSerial() { g.run(1) }

func (g *Gemm) run(workers int) {
	if g.check(); g.M == 0 || g.N == 0 {
		return
	}
	if g.K == 0 {
		g.empty()
		return
	}
	p := plan(g, &active.gemm, workers)
	if p.rowTasks*p.colTasks == 1 {
		var t gemmTask
		t.set(&p, g, 0, g.M, 0, g.N)
		t.run()
		return
	}
	p.share(g, workers)
}

func (g *Gemm) checkInputs() {
	check := func(x []float32, rows, cols, ld int, trans bool, round numerics.Format) {
		if trans {
			rows, cols = cols, rows
		}
		for r := 0; r < rows && round == numerics.FP32; r++ {
			for _, v := range x[r*ld:][:cols] {
				if narrow := g.Inputs.Round(v); narrow != v && v == v {
					panic(fmt.Sprintf("kernels: an input is %v, which %v does not have", v, g.Inputs))
				}
			}
		}
	}
	check(g.A, g.M, g.K, g.LDA, g.TransA, g.RoundA)
	check(g.B, g.K, g.N, g.LDB, g.TransB, g.RoundB)
}

// CheckInputs makes products panic whose inputs are not in the format that they promise. Tests set it.
var CheckInputs bool

func (g *Gemm) check() {
	if g.M < 0 || g.N < 0 || g.K < 0 {
		panic("kernels: negative dimension of a matrix product")
	}
	check := func(x []float32, rows, cols, ld int, trans bool) {
		if trans {
			rows, cols = cols, rows
		}
		if ld < cols || rows > 0 && cols > 0 && len(x) < (rows-1)*ld+cols {
			panic("kernels: matrix is shorter than its shape says, or its leading dimension than a row")
		}
	}
	check(g.A, g.M, g.K, g.LDA, g.TransA)
	check(g.B, g.K, g.N, g.LDB, g.TransB)
	check(g.C, g.M, g.N, g.LDC, false)
	if CheckInputs {
		g.checkInputs()
	}
	if g.Partials.Chunk < 0 || g.Partials.Chunk > runLength {
		panic("kernels: chunk of partial sums is not in 0..256")
	}
}

// microKernel computes c[i·ldc + j] (+)= Σ_k a(i, k)·b[j/nr·next + k·ldb + j%nr] for i < m, j < cols, k < kc; kc >
// 0. It may read all columns of the last strip of b. It may prefetch the lines ahead, starting again with each
// strip or going on from one to the next.
type microKernel func(m, kc int, a []float32, lda int, b []float32, ldb, next int, c []float32, ldc, cols int, add bool, ahead lines)

// gemmLevel is one implementation of the inner loops. B is read in place, or packed into strips of nr columns,
// strip[k·nr + j], with zeros after the last column. A is read in place, or packed into rows of one run each, or
// into panels of width rows, panel[k·width + i]. A micro-kernel holds mr rows of C at a time; width is a multiple
// of mr that fills cache lines.
type gemmLevel struct {
	mr, nr, width int

	// rows and panels multiply with strips. rows has a(i, k) = a[i·lda + k]; panels has a(i, k) = a[i + k·lda].
	rows, panels microKernel

	// roundedRows and roundedPanels do so with partial sums that are rounded in registers.
	roundedRows, roundedPanels roundedKernel

	// copyPanels and transposePanel pack. copyPanels writes panels of a width side by side, dst[p·width·kc + k·width +
	// j] = src[k·ld + p·width + j], and zeros beyond the last of cols columns; transposePanel writes one, dst[k·width
	// + j] = src[j·ld + k], likewise.
	copyPanels     func(dst []float32, width int, src []float32, ld, kc, cols int)
	transposePanel func(dst []float32, width int, src []float32, ld, kc, cols int)

	tiles *tileLevel // a matrix unit for narrow formats, or nil
}

// gemmBuffers are the packing buffers of one task.
type gemmBuffers struct {
	a, b  []float32
	stage []float32                      // inputs to be packed into tiles
	pairs [2 * tileSize]float32          // a tile to be transposed, in parts
	tile  [tileBlock * tileBlock]float32 // a block that reaches beyond C
	noise gemmNoise
}

var gemmPool = sync.Pool{New: func() any { return new(gemmBuffers) }}

func grow(x []float32, n int) []float32 {
	if cap(x) < n {
		return make([]float32, n)
	}
	return x[:n]
}

// finish calls the epilogue for C[i:i+m, j:j+n].
func (g *Gemm) finish(i, m, j, n int) {
	if g.Epilogue == nil {
		return
	}
	if n == g.LDC {
		g.Epilogue(i, 0, g.C[i*n:(i+m)*n])
		return
	}
	for r := i; r < i+m; r++ {
		g.Epilogue(r, j, g.C[r*g.LDC+j:][:n])
	}
}

// empty computes a product without terms.
func (g *Gemm) empty() {
	for i := 0; i < g.M && !g.Accumulate; i++ {
		clear(g.C[i*g.LDC:][:g.N])
	}
	g.finish(0, g.M, 0, g.N)
}

// packB packs op(B)[k0:k1, j:j+n], run after run, strip after strip.
func (p *gemmPlan) packB(g *Gemm, dst []float32, k0, k1, j, n int) {
	nr := p.level.nr
	for k := k0; k < k1; k += p.kc {
		kc := min(p.kc, k1-k)
		run := dst[:kc*((n+nr-1)/nr*nr)]
		if g.TransB {
			for s := 0; s < n; s += nr {
				p.level.transposePanel(run[s*kc:(s+nr)*kc], nr, g.B[(j+s)*g.LDB+k:], g.LDB, kc, min(nr, n-s))
			}
		} else {
			p.level.copyPanels(run, nr, g.B[k*g.LDB+j:], g.LDB, kc, n)
		}
		if g.RoundB != numerics.FP32 {
			Round(run, run, numerics.Rounding{Format: g.RoundB}, 0)
		}
		dst = dst[len(run):]
	}
}

// operandA is a block of op(A) as a micro-kernel reads it: element (r, k) is a[r/width·next + r%width·row + k·along].
type operandA struct {
	a                       []float32
	width, next, row, along int
	kernel                  microKernel
	rounded                 roundedKernel // the same, with sums that are rounded
	stride                  int           // of the kernel
}

func (a *operandA) from(r, k int) []float32 { return a.a[r/a.width*a.next+r%a.width*a.row+k*a.along:] }

// operandB is a block of op(B) as a micro-kernel reads it: element (k, j) of strip s is b[at + s·next + k·along + j].
type operandB struct {
	b               []float32
	at, next, along int
}

func (b *operandB) from(s, k int) []float32 { return b.b[b.at+s*b.next+k*b.along:] }

// block adds the products k..k+kc to C[i:i+m, j:j+n], and finishes it after the last; b is op(B)[k:k+kc, j:j+n].
func (p *gemmPlan) block(g *Gemm, buf *gemmBuffers, i, m, j, n, k, kc int, b operandB, next *ahead) {
	mr, nr, width := p.level.mr, p.level.nr, p.level.width
	var a operandA
	switch {
	case g.TransA && p.packA:
		buf.a = grow(buf.a, (m+width-1)/width*width*kc)
		a = operandA{buf.a, width, width * kc, 1, width, p.level.panels, p.level.roundedPanels, width}
		p.level.copyPanels(a.a, width, g.A[k*g.LDA+i:], g.LDA, kc, m)
		if g.RoundA != numerics.FP32 {
			Round(a.a, a.a, numerics.Rounding{Format: g.RoundA}, 0)
		}
	case g.TransA:
		a = operandA{g.A[k*g.LDA+i:], m, 0, 1, g.LDA, p.level.panels, p.level.roundedPanels, g.LDA}
	case p.packA:
		buf.a = grow(buf.a, m*kc)
		a = operandA{buf.a, m, 0, kc, 1, p.level.rows, p.level.roundedRows, kc}
		for r := range m {
			Round(buf.a[r*kc:(r+1)*kc], g.A[(i+r)*g.LDA+k:][:kc], numerics.Rounding{Format: g.RoundA}, 0)
		}
	default:
		a = operandA{g.A[i*g.LDA+k:], m, 0, g.LDA, 1, p.level.rows, p.level.roundedRows, g.LDA}
	}
	add := g.Accumulate || k > 0
	var noise *gemmNoise
	if g.rounded() {
		noise = &buf.noise
		*noise = p.noise.from(i, j, k)
	} else if g.Partials.Chunk > 0 {
		p.chunks(g, a, i, m, j, n, k, kc, b, next)
		return
	}
	// Rows or columns of A in place stay in the first level cache while all strips pass, and C is written along its
	// rows. (Measured against all rows for each strip: 4096 x 1024 x 256 from 79 to 88% of peak, 1024 x 768 x 3072
	// from 65 to 86%.) Packed columns are taken one panel of width rows at a time.
	group := panelsAtOnce * mr
	switch {
	case a.width < m:
		group = a.width
	case !g.TransA && b.along == nr && 0 < l1.size() && l1.size() <= runLength*nr:
		group = mr
	}
	for r := 0; r < m; r += group {
		rows := min(group, m-r)
		p.multiply(&a, r, rows, &b, 0, kc, g.C[(i+r)*g.LDC+j:], g.LDC, n, add, next, noise)
		if noise != nil {
			noise.row += rows
		}
		if k+kc == g.K {
			g.finish(i+r, rows, j, n)
		}
	}
}

// multiply computes n columns of c (+)= a·b, for so many rows of the block of A from r on, and kc products from k on.
// It changes noise, if there is any, and leaves it as it was.
func (p *gemmPlan) multiply(a *operandA, r, rows int, b *operandB, k, kc int, c []float32, ldc, n int, add bool, next *ahead,
	noise *gemmNoise) {
	nr, panels, from := p.level.nr, (rows+p.level.mr-1)/p.level.mr, a.from(r, k)
	for s := 0; s < n; {
		ahead, strips := next.take(panels, kc, (n-s+nr-1)/nr)
		cols := min(strips*nr, n-s)
		if noise == nil {
			a.kernel(rows, kc, from, a.stride, b.from(s/nr, k), b.along, b.next, c[s:], ldc, cols, add, ahead)
		} else {
			noise.column += s
			a.rounded(rows, kc, from, a.stride, b.from(s/nr, k), b.along, b.next, c[s:], ldc, cols, add, ahead, noise)
			noise.column -= s
		}
		s += cols
	}
}

// chunks does what block does and rounds C after every chunk, one panel of rows at a time.
func (p *gemmPlan) chunks(g *Gemm, a operandA, i, m, j, n, k, kc int, b operandB, next *ahead) {
	mr := p.level.mr
	for r := 0; r < m; r += mr {
		rows := min(mr, m-r)
		for q := 0; q < kc; q += g.Partials.Chunk {
			qc := min(g.Partials.Chunk, kc-q)
			p.multiply(&a, r, rows, &b, q, qc, g.C[(i+r)*g.LDC+j:], g.LDC, n, g.Accumulate || k+q > 0, next, nil)
			g.roundPartials(i+r, rows, j, n, (k+q)/g.Partials.Chunk)
		}
		if k+kc == g.K {
			g.finish(i+r, rows, j, n)
		}
	}
}

// roundPartials rounds C[i:i+m, j:j+n] after it was rounded count times.
func (g *Gemm) roundPartials(i, m, j, n, count int) {
	if n == g.LDC { // rows are contiguous, and so are their random bits
		c := g.C[i*n:][:m*n]
		Round(c, c, g.Partials.Rounding, (count*g.M+i)*n)
		return
	}
	for r := i; r < i+m; r++ {
		c := g.C[r*g.LDC+j:][:n]
		Round(c, c, g.Partials.Rounding, (count*g.M+r)*g.N+j)
	}
}
