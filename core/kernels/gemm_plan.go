package kernels

import "harness.invalid/core/numerics"

// segment is the unit by which columns are divided: an Epilogue's segments start at its multiples. It equals
// random.Group.
const segment = 128

// cut returns where part i begins when n is cut into parts at multiples of unit.
func cut(n, parts, i, unit int) int {
	units := (n + unit - 1) / unit
	return min(n, units*i/parts*unit)
}

// Blocking. A packed block of B (packedB floats) stays in the second level cache while all rows of A pass. It
// extends as far as possible along the rows of B as stored, up to blockLength, since memory is read fastest that
// way; where that is along K, C is also read and written less often. A strip of B (runLength·nr floats, 32 KiB)
// stays in the first level cache while panelsAtOnce panels of A pass, or all of them where they are columns. A
// cache no larger than a packed strip works better with one panel of rows.
const (
	runLength    = 256
	packedB      = 256 << 10
	blockLength  = 1024
	rowsAhead    = 144 // of A: they pass while the next block of B is prefetched
	longRows     = 480 // of a transposed A whose rows as stored are long: memory is faster the more of a row is read at once
	panelsAtOnce = 2
)

// An operand that is read down its columns can stay in place while its rows as stored are short, since
// micro-kernels prefetch it. Packing B pays for many rows of A.
const (
	shortRow    = 768
	rowsInPlace = 384 // the most rows of A for a B in place
)

// cache is the first level data cache. Lines that are a multiple of way floats apart are in the same set, which
// holds as many lines as there are ways.
type cache struct{ ways, way int }

func (c cache) size() int { return c.ways * c.way }

var l1 = firstLevel() // of size 0 if unknown

// sharesPlaces says whether the lines of A that a micro-kernel reads together, one of each row, are in the same set
// of the cache and do not all fit. A is packed then. (Measured on 8 ways: 1024³ and 1024 x 768 x 3072 7 to 10%
// faster.)
func (l *gemmLevel) sharesPlaces(ld int) bool { return 0 < l1.ways && l1.ways < l.mr && ld%l1.way == 0 }

// columnsInPlace says whether a transposed A with so many floats in a row as stored can stay in place. It can with
// long rows, too, unless the lines of a column are all in the same set. (Measured on 8 ways: 30522 x 128 x 640 9 to
// 12%, 30522 x 256 x 640 5 to 9%, 1536 x 384 x 4096 1 to 5% faster.)
func columnsInPlace(ld int) bool { return ld <= shortRow || 0 < l1.ways && ld%l1.way > 0 }

// crowded says whether an operand whose rows as stored are so far apart is packed for a product that rounds its sums in
// turns. Groups of rows of a panel then read the same lines one after the other, up to a chunk of products apart, and the
// lines share so few sets of the first level cache that 32 of them do not fit. (Measured on 8 ways, as a ratio to FP32:
// 128 x 512 x 256 TN 1.48 in place and 1.28 packed, 512 x 128 x 256 TN 1.34 and 1.27, 360 x 512 x 128 NN 1.44 and 1.25.)
func (g *Gemm) crowded(ld int) bool {
	if !g.rounded() || !g.Partials.Rounding.Stochastic || l1.ways == 0 {
		return false
	}
	apart := l1.way // of rows in the same set
	for ld%apart > 0 {
		apart /= 2
	}
	return l1.ways*l1.way/apart < 32
}

// rowUnit is the unit by which rows are divided. The rest of a multiple after full panels is a panel that is nearly
// as fast.
const rowUnit = 8

// gemmPlan says how one product is cut.
type gemmPlan struct {
	level              *gemmLevel
	tiles              bool // on the matrix unit
	unit               int  // by which rows are divided
	rowTasks, colTasks int
	kc                 int // length of a run along K
	packA              bool
	noise              gemmNoise // where partial sums are rounded in registers
}

// packsB reports whether a task of the given number of rows packs B.
func (p *gemmPlan) packsB(g *Gemm, rows int) bool {
	return g.TransB || g.RoundB != numerics.FP32 || g.N%p.level.nr > 0 || g.LDB > shortRow || rows > rowsInPlace ||
		g.crowded(g.LDB)
}

// plan chooses the grid of tasks that minimises the time of the slowest worker, counting only products and reading
// A and B. It may depend on the number of workers because no grid changes the result.
func plan(g *Gemm, level *gemmLevel, workers int) gemmPlan {
	p := gemmPlan{level: level, unit: rowUnit, rowTasks: 1, colTasks: 1, kc: runs(g.K, g.Partials.Chunk)}
	if g.rounded() {
		p.noise = g.noise()
	}
	p.packA = g.RoundA != numerics.FP32 || g.TransA && (!columnsInPlace(g.LDA) || g.crowded(g.LDA)) ||
		!g.TransA && level.sharesPlaces(g.LDA)
	// Cycles for an element that is packed or comes from memory, and products a cycle. A task costs 1000 cycles.
	readA, readB, products := 0.3, 0.5, 32.0
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

// runs returns the length of the runs along K: they are equal, at most runLength, and a multiple of chunk where
// partial sums are rounded.
func runs(k, chunk int) int {
	if chunk > 0 {
		return max(chunk, runLength/chunk*chunk)
	}
	n := (k + runLength - 1) / runLength
	return ((k+n-1)/n + 15) &^ 15
}

// area is the part C[i0:i1, j0:j1] of a task, and the size of the blocks in which it is computed: rows of A,
// columns of B, and the depth of B along K, where runs have length kc.
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
