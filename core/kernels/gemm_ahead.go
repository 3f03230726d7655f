package kernels

import "unsafe"

// Micro-kernels are bound by multiplication, packing by memory. So while a block is computed, a micro-kernel asks
// for some lines of what the following blocks will read, two for eight steps along K, which come into the second
// level cache by the time they are packed or multiplied.

// lines are cache lines to prefetch, two for eight steps of a micro-kernel: pieces of 1 KB that begin apart floats
// from each other, so that a page of memory is done with before the next. Lines that do not exist do no harm.
type lines struct {
	at    uintptr
	apart int
}

const piece = 1 << 10 // bytes; a micro-kernel takes 64 steps for it

// A region is the part of a matrix that a block reads: rows as stored.
type region struct {
	at         uintptr
	ld         int // floats between rows
	rows, size int // size in bytes, of a row
	row, from  int // where the next piece begins
}

// newRegion is x[first + r·ld + c] for r < rows, c < cols. Rows that are shorter than a piece are one array with
// what lies between them. Of a row that does not begin at a cache line, the last may be left out.
func newRegion(x []float32, first, ld, rows, cols int) region {
	if 4*ld <= piece {
		rows, cols, ld = (4*((rows-1)*ld+cols)+piece-1)/piece, piece/4, piece/4
	}
	return region{at: uintptr(unsafe.Pointer(&x[first])), ld: ld, rows: rows, size: 4 * cols}
}

// ahead is what following blocks read: the next one of A, and the next for which it is packed, or that reads
// another part in place, of B.
type ahead struct {
	a, b region
	idle uintptr // something to prefetch when there is nothing
}

// take returns the next lines for a micro-kernel that passes over panels of rows and kc products, once for each
// strip of B, and for how many of the strips they are: where a strip does not end with a piece, for one.
func (h *ahead) take(panels, kc, strips int) (lines, int) {
	if kc%64 > 0 {
		strips = 1
	}
	pieces := max(1, panels*kc/64) // of one strip
	for _, r := range []*region{&h.a, &h.b} {
		if r.row >= r.rows {
			continue
		}
		l := lines{r.at + uintptr(4*r.row*r.ld+r.from), r.ld}
		strips = min(strips, (r.rows-r.row+pieces-1)/pieces)
		if r.row += strips * pieces; r.row >= r.rows && r.from+piece < r.size {
			r.row, r.from = 0, r.from+piece
		}
		return l, strips
	}
	return lines{at: h.idle}, strips
}

// nextA is what the block after the one at i, j, k reads of A.
func (w *area) nextA(g *Gemm, i, j, k int) region {
	first := k / w.depth * w.depth // of the products for which B is packed
	switch {
	case k+w.kc < min(first+w.depth, g.K):
		k += w.kc
	case i+w.rows < w.i1:
		i, k = i+w.rows, first
	case first+w.depth < g.K:
		i, k = w.i0, first+w.depth
	case j+w.cols < w.j1:
		i, k = w.i0, 0
	default:
		return region{}
	}
	return operandRegion(g.A, g.LDA, !g.TransA, i, min(w.rows, w.i1-i), k, min(w.kc, g.K-k))
}

// nextB is what is read of B after the products from k on for the columns from j on.
func (w *area) nextB(g *Gemm, j, k int) region {
	switch {
	case k+w.depth < g.K:
		k += w.depth
	case j+w.cols < w.j1:
		j, k = j+w.cols, 0
	default:
		return region{}
	}
	return operandRegion(g.B, g.LDB, g.TransB, j, min(w.cols, w.j1-j), k, min(w.depth, g.K-k))
}

// operandRegion is the part i:i+m, k:k+kc of an operand whose rows as stored are those of i, or those of k.
func operandRegion(x []float32, ld int, rows bool, i, m, k, kc int) region {
	if rows {
		return newRegion(x, i*ld+k, ld, m, kc)
	}
	return newRegion(x, k*ld+i, ld, kc, m)
}
