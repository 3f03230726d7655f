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
// Products are summed in float32, in runs of at most 256 along K that are added to C in order: where the runs end depends on K alone, so
// the result does not depend on GOMAXPROCS nor on which part of C is asked for in one call. Vector levels fuse multiplication and addition.
type Gemm struct {
	TransA, TransB bool
	M, N, K        int
	A, B, C        []float32
	LDA, LDB, LDC  int
	Accumulate     bool // add to C instead of replacing it

	// RoundA and RoundB round the inputs to nearest in a format while they are packed; FP32 takes them as they are.
	RoundA, RoundB numerics.Format
	// Inputs is the format that all inputs are in, after RoundA and RoundB. It changes no value: a processor with a matrix unit takes the products of narrow
	// formats there. FP32 promises nothing.
	Inputs numerics.Format

	Partials Partials

	// Epilogue, when it is set, is called once for every finished segment c = C[row·LDC+col:][:len(c)] while it is in cache, from any worker. A segment
	// is part of a row, beginning at a multiple of 128 columns, or, where rows have no gaps between them, any number of whole rows. Which it is
	// depends on the number of workers; what is done to an element must not.
	Epilogue func(row, col int, c []float32)
}

// Partials rounds the partial sums as a device does that keeps them in a narrow format: C is rounded after every Chunk products, and
// after the last. Chunk is at most 256; the zero value never rounds.
//
// The c-th rounding of C[i, j], counted from 0, takes the random bits at position (c·M + i)·N + j of the stream.
type Partials struct {
	Chunk    int
	Rounding numerics.Rounding
}

// Run computes the product on GOMAXPROCS workers.
func (g *Gemm) Run() { g.run(runtime.GOMAXPROCS(0)) }

// RunSerial computes the product on the calling goroutine, for use inside a body of Parallel. Packing buffers are pooled.
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

// segment is the granule of columns: an Epilogue's segments start at its multiples. It is also random.Group.
const segment = 128

// cut returns where part i of n begins when it is cut in parts at multiples of unit.
func cut(n, parts, i, unit int) int {
	units := (n + unit - 1) / unit
	return min(n, units*i/parts*unit)
}

// CheckInputs, which tests set, makes a product panic whose inputs are not in the format that it names.
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

// microKernel computes c[i·ldc + j] (+)= Σ_k a(i, k)·b[j/nr·next + k·ldb + j%nr] for i < m, j < cols, k < kc; kc > 0. It may read all columns of the last strip
// of b. Meanwhile it may prefetch, ahead for each strip anew or from one on to the next.
type microKernel func(m, kc int, a []float32, lda int, b []float32, ldb, next int, c []float32, ldc, cols int, add bool, ahead lines)

// gemmLevel is one implementation of the inner loops. B is read in place, or packed into strips of nr columns: strip[k·nr + j], with zeros beyond the
// last column. A is read in place, or packed: into rows of one run each, or into panels of width rows, panel[k·width + i]. A micro-kernel holds mr rows
// of C at a time; width is a multiple of it that fills cache lines.
type gemmLevel struct {
	mr, nr, width int

	// rows and panels multiply with strips. rows has a(i, k) = a[i·lda + k]; panels has a(i, k) = a[i + k·lda].
	rows, panels microKernel

	// copyPanels and transposePanel pack. copyPanels writes panels of a width side by side, dst[p·width·kc + k·width + j] = src[k·ld + p·width + j],
	// and zeros beyond the last of cols columns; transposePanel writes one, dst[k·width + j] = src[j·ld + k], likewise.
	copyPanels     func(dst []float32, width int, src []float32, ld, kc, cols int)
	transposePanel func(dst []float32, width int, src []float32, ld, kc, cols int)

	tiles *tileLevel // a matrix unit for narrow formats, or nil
}

// Blocking. A packed block of B (packedB floats) stays in the second level cache while all rows of A pass. It reaches as far as it can along the rows of B as
// stored, since that is how memory is read fastest, up to blockLength; where that is along K, C comes back less often, too. A strip of B (runLength·nr floats,
// 32 KiB) stays in the first level cache while panelsAtOnce panels of A pass, or all of them where they are columns. A cache that is not larger than a packed
// strip serves one panel of rows better.
const (
	runLength    = 256
	packedB      = 256 << 10
	blockLength  = 1024
	rowsAhead    = 144 // of A, which pass while the next block of B is prefetched
	longRows     = 480 // of a transposed A with long rows as stored: it is read along them, and memory is faster the more of one is read
	panelsAtOnce = 2
)

// What is read down its columns can stay where it is while its rows as stored are short, since micro-kernels prefetch it. Packing B is worthwhile for many rows
// of A.
const (
	shortRow    = 768
	rowsInPlace = 384 // the most rows of A that a B in place is multiplied with
)

// cache is the first level cache for data: lines that are a multiple of way floats apart share as many places as it has ways.
type cache struct{ ways, way int }

func (c cache) size() int { return c.ways * c.way }

var l1 = firstLevel() // of size 0 where it is not known

// sharesPlaces says whether the lines of A that a micro-kernel reads side by side, one of each of its rows, want the same places and are too many for them. A is
// packed, then. (Measured on 8 ways: 1024³ and 1024 x 768 x 3072 7 to 10% faster.)
func (l *gemmLevel) sharesPlaces(ld int) bool { return 0 < l1.ways && l1.ways < l.mr && ld%l1.way == 0 }

// columnsInPlace says whether a transposed A with so many floats in a row as stored can stay where it is. Long rows can, too, unless the lines of a column all
// want the same places. (Measured on 8 ways: 30522 x 128 x 640 9 to 12%, 30522 x 256 x 640 5 to 9%, 1536 x 384 x 4096 1 to 5% faster.)
func columnsInPlace(ld int) bool { return ld <= shortRow || 0 < l1.ways && ld%l1.way > 0 }

// rowUnit is the granule of rows: what remains of a multiple of it after full panels is a panel that is nearly as fast.
const rowUnit = 8

// gemmPlan says how one product is cut.
type gemmPlan struct {
	level              *gemmLevel
	tiles              bool // on the matrix unit
	unit               int  // granule of rows
	rowTasks, colTasks int
	kc                 int // length of a run along K
	packA              bool
}

// packsB says whether a task of so many rows packs B.
func (p *gemmPlan) packsB(g *Gemm, rows int) bool {
	return g.TransB || g.RoundB != numerics.FP32 || g.N%p.level.nr > 0 || g.LDB > shortRow || rows > rowsInPlace
}

// plan chooses the grid of tasks by the time that the slowest worker would take: products, reading A and B, and nothing else. It may depend on the
// number of workers because no grid changes the result.
func plan(g *Gemm, level *gemmLevel, workers int) gemmPlan {
	p := gemmPlan{level: level, unit: rowUnit, rowTasks: 1, colTasks: 1, kc: runs(g.K, g.Partials.Chunk)}
	p.packA = g.RoundA != numerics.FP32 || g.TransA && !columnsInPlace(g.LDA) || !g.TransA && level.sharesPlaces(g.LDA)
	readA, readB, products := 0.3, 0.5, 32.0 // cycles for an element that is packed or comes from memory, and products a cycle; a task costs 1000 cycles
	if g.onTiles() {
		n := float64(parts(g.Inputs))
		p.tiles, p.packA, p.unit = true, true, tileBlock
		readA, readB, products = 0.4*n, 0.4*n, 300/(n*n)
	}
	if workers == 1 || g.M*g.N*g.K < 1<<15 {
		return p
	}
	maxCols, maxRows := (g.N+segment-1)/segment, (g.M+p.unit-1)/p.unit
	best := 0.0
	for cols := 1; cols <= min(maxCols, 4*workers); cols++ {
		for rows := 1; rows <= min(maxRows, 4*workers); rows++ {
			tasks := rows * cols
			if tasks > 4*workers {
				break
			}
			m := (maxRows + rows - 1) / rows * p.unit
			n := (maxCols + cols - 1) / cols * segment
			cost := (readA*float64(m) + readB*float64(n)) * float64(g.K)
			cost = (cost + float64(m)*float64(min(n, g.N))*float64(g.K)/products + 1000) * float64((tasks+workers-1)/workers)
			if best == 0 || cost < best {
				best, p.rowTasks, p.colTasks = cost, rows, cols
			}
		}
	}
	return p
}

// runs returns the length of the runs along K: equal ones of at most runLength, a multiple of chunk where partial sums are rounded.
func runs(k, chunk int) int {
	if chunk > 0 {
		return max(chunk, runLength/chunk*chunk)
	}
	n := (k + runLength - 1) / runLength
	return ((k+n-1)/n + 15) &^ 15
}

// gemmBuffers are the packing buffers of one task.
type gemmBuffers struct {
	a, b  []float32
	stage []float32                      // inputs before they are packed into tiles
	pairs [2 * tileSize]float32          // a tile that is to be transposed, in parts
	tile  [tileBlock * tileBlock]float32 // a block that C has only a part of
}

var gemmPool = sync.Pool{New: func() any { return new(gemmBuffers) }}

func grow(x []float32, n int) []float32 {
	if cap(x) < n {
		return make([]float32, n)
	}
	return x[:n]
}

// area is a task, C[i0:i1, j0:j1], and the blocks in which it is computed: of so many rows of A, columns of B and, for B, products along K, whose
// runs have length kc.
type area struct {
	i0, i1, j0, j1        int
	rows, cols, depth, kc int
	packB                 bool
	chunk                 int // rows that a worker takes at a time
	bAhead                int // the row from which on the next block of B is prefetched
}

func (p *gemmPlan) area(g *Gemm, i0, i1, j0, j1 int) area {
	w := area{i0: i0, i1: i1, j0: j0, j1: j1, rows: p.level.width, kc: p.kc, packB: p.packsB(g, i1-i0)}
	w.cols = min(blockLength, (j1-j0+segment-1)/segment*segment)
	switch {
	case g.TransA && p.packA || !w.packB:
		w.depth = p.kc
	case g.TransB:
		w.depth = min((g.K+p.kc-1)/p.kc, blockLength/p.kc) * p.kc
		w.cols = min(w.cols, packedB/w.depth/segment*segment)
	default:
		w.depth = packedB / (w.cols * p.kc) * p.kc
	}
	w.chunk = w.rows
	switch {
	case g.TransA && (p.packA || g.LDA > shortRow):
		w.rows = longRows / p.level.width * p.level.width
		w.chunk = w.rows
	case g.TransA:
		w.rows = i1 - i0
	}
	w.bAhead = i0 + max(0, i1-i0-rowsAhead)/w.rows*w.rows
	return w
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
	stride                  int // of the kernel
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
		a = operandA{buf.a, width, width * kc, 1, width, p.level.panels, width}
		p.level.copyPanels(a.a, width, g.A[k*g.LDA+i:], g.LDA, kc, m)
		if g.RoundA != numerics.FP32 {
			Round(a.a, a.a, numerics.Rounding{Format: g.RoundA}, 0)
		}
	case g.TransA:
		a = operandA{g.A[k*g.LDA+i:], m, 0, 1, g.LDA, p.level.panels, g.LDA}
	case p.packA:
		buf.a = grow(buf.a, m*kc)
		a = operandA{buf.a, m, 0, kc, 1, p.level.rows, kc}
		for r := range m {
			Round(buf.a[r*kc:(r+1)*kc], g.A[(i+r)*g.LDA+k:][:kc], numerics.Rounding{Format: g.RoundA}, 0)
		}
	default:
		a = operandA{g.A[i*g.LDA+k:], m, 0, g.LDA, 1, p.level.rows, g.LDA}
	}
	add := g.Accumulate || k > 0
	if g.Partials.Chunk > 0 {
		p.chunks(g, a, i, m, j, n, k, kc, b, next)
		return
	}
	// Rows or columns of A in place stay in the first level cache while all strips pass, and C is written along its rows. (Measured against all rows for each
	// strip: 4096 x 1024 x 256 79 -> 88% of peak, 1024 x 768 x 3072 65 -> 86%.) Packed columns come panel of width by panel of width.
	group := panelsAtOnce * mr
	switch {
	case a.width < m:
		group = a.width
	case !g.TransA && b.along == nr && 0 < l1.size() && l1.size() <= runLength*nr:
		group = mr
	}
	for r := 0; r < m; r += group {
		rows := min(group, m-r)
		p.multiply(&a, r, rows, &b, 0, kc, g.C[(i+r)*g.LDC+j:], g.LDC, n, add, next)
		if k+kc == g.K {
			g.finish(i+r, rows, j, n)
		}
	}
}

// multiply computes c (+)= a·b, in n columns, for so many rows of the block of A from r on and kc products from k on.
func (p *gemmPlan) multiply(a *operandA, r, rows int, b *operandB, k, kc int, c []float32, ldc, n int, add bool, next *ahead) {
	nr, panels, from := p.level.nr, (rows+p.level.mr-1)/p.level.mr, a.from(r, k)
	for s := 0; s < n; {
		ahead, strips := next.take(panels, kc, (n-s+nr-1)/nr)
		cols := min(strips*nr, n-s)
		a.kernel(rows, kc, from, a.stride, b.from(s/nr, k), b.along, b.next, c[s:], ldc, cols, add, ahead)
		s += cols
	}
}

// chunks is block with C rounded after every chunk, one panel of rows at a time.
func (p *gemmPlan) chunks(g *Gemm, a operandA, i, m, j, n, k, kc int, b operandB, next *ahead) {
	mr := p.level.mr
	for r := 0; r < m; r += mr {
		rows := min(mr, m-r)
		for q := 0; q < kc; q += g.Partials.Chunk {
			qc := min(g.Partials.Chunk, kc-q)
			p.multiply(&a, r, rows, &b, q, qc, g.C[(i+r)*g.LDC+j:], g.LDC, n, g.Accumulate || k+q > 0, next)
			g.roundPartials(i+r, rows, j, n, (k+q)/g.Partials.Chunk)
		}
		if k+kc == g.K {
			g.finish(i+r, rows, j, n)
		}
	}
}

// roundPartials rounds C[i:i+m, j:j+n] for the time after the first count times.
func (g *Gemm) roundPartials(i, m, j, n, count int) {
	if n == g.LDC { // the rows lie one after the other, and so do their random bits
		c := g.C[i*n:][:m*n]
		Round(c, c, g.Partials.Rounding, (count*g.M+i)*n)
		return
	}
	for r := i; r < i+m; r++ {
		c := g.C[r*g.LDC+j:][:n]
		Round(c, c, g.Partials.Rounding, (count*g.M+r)*g.N+j)
	}
}
