package kernels

import "harness.invalid/core/numerics"

// tileLevel is a matrix unit that multiplies tiles of BF16 pairs and sums in float32. A and B are packed into tiles
// of 16 x 16 lanes; a lane holds the upper halves of two float32. A factor with at most 8 significant bits, as in
// BF16, is one such half, or part. One with at most 16, as in FP16 and TF32, is the sum of two parts, and a product
// is the sum of the four products of parts, which are all exact.
//
// AMX sums the first 16 and the last 16 of a run of 32 products, adds both sums, and adds the result to C. With two
// parts it does so four times: for the first parts, the first of A and the second of B, the second parts, and the
// second of A and the first of B. On vectors of pairs each product is added to C. Numbers below 2^-126 count as
// zero, and an infinite factor of two parts may give NaN.
type tileLevel struct {
	// pair packs tiles, see pairTiles1AVX512. Its index, like multiply's, is the number of parts less 1.
	pair [2]pairTiles
	// transpose transposes a tile. dst and src must not overlap.
	transpose func(dst, src *float32)
	// multiply computes blocks of 32 x 32, see multiplyTiles1AMX. It is nil if products of this many parts are no faster than FP32.
	multiply [2]multiplyTiles

	peak func(rounds int) (flop int)
}

type (
	pairTiles     func(dst, src *float32, ld, apart, tiles, next, step int)
	multiplyTiles func(rows, cols, depth int, a, b, c *float32, ldc int, add bool)
)

const (
	tileGroup = 16                    // rows of A, or columns of B, of a tile
	tileDepth = 32                    // products of a tile
	tileSize  = tileGroup * tileGroup // lanes, which are pairs
	tileBlock = 2 * tileGroup         // rows and columns of C that are computed at once
)

// Blocking. A packed block of B fits the second level cache; tileBlock of its columns and as many rows of A nearly
// fit the first. More rows at a time would write to more pages than prefetchers follow. A transposed A, however, is
// stored along these rows and is read faster the more there are, as long as the block of C stays in the second
// level cache.
const (
	tileRun  = 512  // products, of one part
	tileCols = 1024 // columns of B
	tileRows = tileBlock
	longTile = 256      // rows of a transposed A, for at most
	tileC    = 64 << 10 // numbers in a block of C, else fewer
)

// parts is the number of BF16 parts of a factor in a format, 0 if it cannot be cut into such parts.
func parts(f numerics.Format) int {
	switch f {
	case numerics.BF16:
		return 1
	case numerics.FP16, numerics.TF32:
		return 2
	}
	return 0
}

// takes reports whether products of a format are computed on tiles.
func (t *tileLevel) takes(f numerics.Format) bool {
	return t != nil && parts(f) > 0 && t.multiply[parts(f)-1] != nil
}

// onTiles reports whether a product is computed on tiles. It must depend on nothing that could differ between two
// computations of one result.
func (g *Gemm) onTiles() bool {
	return active.gemm.tiles.takes(g.Inputs) && g.K > 0 && g.Partials.Chunk%tileDepth == 0
}

// tileTask computes C[i0:i1, j0:j1] on tiles; neither is empty.
func (g *Gemm) tileTask(i0, i1, j0, j1 int) {
	t, n := active.gemm.tiles, parts(g.Inputs)
	buf := gemmPool.Get().(*gemmBuffers)
	defer gemmPool.Put(buf)
	run := tileRun / n
	if g.Partials.Chunk > 0 {
		run = g.Partials.Chunk
	}
	run = min(run, up(g.K, tileDepth))
	cols, most := min(tileCols, j1-j0), tileRows
	if g.TransA {
		most = max(most, min(longTile, tileC/cols)&^(tileBlock-1))
	}
	buf.a, buf.b = grow(buf.a, most*run*n/2), grow(buf.b, up(cols, tileBlock)*run*n/2)
	a := factor{g.A, g.LDA, g.TransA, false, g.RoundA}
	b := factor{g.B, g.LDB, !g.TransB, true, g.RoundB}
	for j := j0; j < j1; j += cols {
		cols := min(cols, j1-j)
		for k := 0; k < g.K; k += run {
			depth := min(run, g.K-k)
			t.pack(buf, buf.b, &b, n, j, cols, k, depth)
			for i := i0; i < i1; i += most {
				rows := min(most, i1-i)
				t.pack(buf, buf.a, &a, n, i, rows, k, depth)
				t.block(buf, n, rows, cols, up(depth, tileDepth)/tileDepth, g.C[i*g.LDC+j:], g.LDC, g.Accumulate || k > 0)
				if g.Partials.Chunk > 0 {
					g.roundPartials(i, rows, j, cols, k/g.Partials.Chunk)
				}
				if k+depth == g.K {
					g.finish(i, rows, j, cols)
				}
			}
		}
	}
}

// up rounds up to a multiple of unit.
func up(n, unit int) int { return (n + unit - 1) / unit * unit }

// block multiplies packed operands. Blocks that reach beyond C are computed in a buffer.
func (t *tileLevel) block(buf *gemmBuffers, parts, rows, cols, depth int, c []float32, ldc int, add bool) {
	multiply := t.multiply[parts-1]
	whole, across := rows/tileBlock, cols/tileBlock
	if whole > 0 && across > 0 {
		multiply(whole, across, depth, &buf.a[0], &buf.b[0], &c[0], ldc, add)
	}
	size := 2 * depth * parts * tileSize // packed numbers of a block of rows or columns
	for r := 0; r < rows; r += tileBlock {
		from := across * tileBlock
		if r+tileBlock > rows {
			from = 0
		}
		for s := from; s < cols; s += tileBlock {
			h, w := min(tileBlock, rows-r), min(tileBlock, cols-s)
			tile := buf.tile[:]
			for y := 0; y < h && add; y++ {
				copy(tile[y*tileBlock:][:w], c[(r+y)*ldc+s:])
			}
			multiply(1, 1, depth, &buf.a[r/tileBlock*size], &buf.b[s/tileBlock*size], &tile[0], tileBlock, add)
			for y := range h {
				copy(c[(r+y)*ldc+s:][:w], tile[y*tileBlock:])
			}
		}
	}
}

// A factor is op(A) or op(B), as vectors along K: rows of op(A), columns of op(B).
type factor struct {
	x       []float32
	ld      int
	across  bool // product k of vector i is x[k·ld + i], else x[i·ld + k]
	columns bool // op(B)
	round   numerics.Format
}

// pack packs vectors i..i+count of a factor, products k..k+depth of each. Tile s of group g of vectors, part p, is
// dst[((g·steps + s)·parts + p)·tileSize:]; an even number of groups is written, padded with zeros.
// Lane (r, l) of a tile of op(A) is the pair of products l and l + 16 of vector r, and of a tile of op(B) the pair
// of products r and r + 16 of vector l.
func (t *tileLevel) pack(buf *gemmBuffers, dst []float32, f *factor, parts, i, count, k, depth int) {
	steps, groups := up(depth, tileDepth)/tileDepth, up(count, tileBlock)/tileGroup
	size := parts * tileSize
	if f.across { // a step of all vectors
		for s := range steps {
			products := min(tileDepth, depth-s*tileDepth)
			src, ld := f.x[(k+s*tileDepth)*f.ld+i:], f.ld
			if f.round != numerics.FP32 || products < tileDepth || count%tileBlock > 0 {
				src, ld = buf.staged(src, ld, products, tileDepth, count, groups*tileGroup, f.round)
			}
			t.tiles(buf, dst[s*size:], src, ld, tileGroup*ld, groups, tileGroup, steps*size, parts, !f.columns)
		}
		return
	}
	for g := range groups { // all steps of a group
		vectors := min(tileGroup, count-g*tileGroup)
		if vectors <= 0 {
			clear(dst[g*steps*size:][:steps*size])
			continue
		}
		src, ld := f.x[(i+g*tileGroup)*f.ld+k:], f.ld
		if f.round != numerics.FP32 || vectors < tileGroup || depth%tileDepth > 0 {
			src, ld = buf.staged(src, ld, vectors, tileGroup, depth, steps*tileDepth, f.round)
		}
		t.tiles(buf, dst[g*steps*size:], src, ld, tileGroup, steps, tileDepth, size, parts, f.columns)
	}
}

// tiles packs a row of tiles, see pair, through a buffer where they are to be transposed.
func (t *tileLevel) tiles(buf *gemmBuffers, dst, src []float32, ld, apart, tiles, next, step, parts int, transpose bool) {
	pair := t.pair[parts-1]
	if !transpose {
		pair(&dst[0], &src[0], ld, apart, tiles, next, step)
		return
	}
	for i := range tiles {
		pair(&buf.pairs[0], &src[i*next], ld, apart, 1, 0, 0)
		for p := range parts {
			t.transpose(&dst[i*step+p*tileSize], &buf.pairs[p*tileSize])
		}
	}
}

// staged copies rows x cols of x, rounded, into a larger buffer padded with zeros, and returns it with the distance
// between its rows.
func (b *gemmBuffers) staged(x []float32, ld, rows, ofRows, cols, ofCols int, round numerics.Format) ([]float32, int) {
	b.stage = grow(b.stage, ofRows*ofCols)
	for r := range ofRows {
		row := b.stage[r*ofCols : (r+1)*ofCols]
		if r >= rows {
			clear(row)
			continue
		}
		Round(row[:cols], x[r*ld:][:cols], numerics.Rounding{Format: round}, 0)
		clear(row[cols:])
	}
	return b.stage, ofCols
}
