package kernels

import "unsafe"

// Micro-kernels are bound by multiplication, packing by memory. So while a micro-kernel computes a block, it
// prefetches what the following blocks will read, two lines for eight steps along K, which are in the second level
// cache by the time they are packed or multiplied.

// lines are cache lines to prefetch, two for eight steps of a micro-kernel, in pieces of 1 KB that begin apart
// floats from each other. Prefetching beyond the end of memory does no harm.
type lines struct {
	at    uintptr
	apart int
}

const piece = 1 << 10 // bytes, prefetched in 64 steps of a micro-kernel

// A region is the part of a matrix that a block reads: rows as stored.
type region struct {
	at         uintptr
	ld         int // floats between rows
	rows, size int // size in bytes, of a row
	row, from  int // where the next piece begins
}

// newRegion is x[first + r·ld + c] for r < rows, c < cols. Rows shorter than a piece count as one array, gaps
// included. Of a row that does not begin at a cache line, the last line may be left out.
func newRegion(x []float32, first, ld, rows, cols int) region {
	if 4*ld <= piece {
		rows, cols, ld = (4*((rows-1)*ld+cols)+piece-1)/piece, piece/4, piece/4
	}
	return region{at: uintptr(unsafe.Pointer(&x[first])), ld: ld, rows: rows, size: 4 * cols}
}

// ahead is what following blocks read: the next block of A, and the next part of B to be packed or read in place.
type ahead struct {
	a, b region
	idle uintptr // something to prefetch when there is nothing
}

// take returns the next lines for a micro-kernel that computes panels of rows and kc products for each strip of B,
// and how many strips they last for: one where a strip does not end with a piece.
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

// nextA is the part of A that the block after the one at i, j, k reads.
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

// nextB is the part of B that follows the products from k on of the columns from j on.
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

// operandRegion is the part i:i+m, k:k+kc of an operand that is stored with a row for each i, or for each k.
func operandRegion(x []float32, ld int, rows bool, i, m, k, kc int) region {
	if rows {
		return newRegion(x, i*ld+k, ld, m, kc)
	}
	return newRegion(x, k*ld+i, ld, kc, m)
}
