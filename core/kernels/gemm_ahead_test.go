package kernels

import (
	"testing"
	"unsafe"
)

func addressOf(x []float32, i int) uintptr { return uintptr(unsafe.Pointer(&x[i])) }

// lineOf is the address of the cache line of an element.
func lineOf(x []float32, i int) uintptr { return addressOf(x, i) &^ 63 }

// TestAheadTakesTheRegion: micro-kernels prefetch all of a region, whatever its shape and alignment, and no more
// beyond it than the last call of each column of pieces and the last piece of each row.
func TestAheadTakesTheRegion(t *testing.T) {
	x := make([]float32, 300*700)
	for _, c := range []struct{ first, ld, rows, cols, panels, kc int }{
		{0, 128, 240, 128, 2, 256}, {5, 208, 100, 70, 4, 256}, {3, 128, 17, 1, 1, 64}, {1, 700, 256, 650, 3, 64},
		{0, 64, 9, 33, 1, 128}, {7, 512, 48, 256, 2, 192},
	} {
		h := ahead{b: newRegion(x, c.first, c.ld, c.rows, c.cols)}
		asked, count := map[uintptr]bool{}, 0
		for l, strips := h.take(c.panels, c.kc, 5); l.at != h.idle; l, strips = h.take(c.panels, c.kc, 5) {
			for n := range strips * c.panels * c.kc / 64 {
				for at := 0; at < piece; at += 64 {
					asked[(l.at+uintptr(4*l.apart*n+at))&^63] = true
					count++
				}
			}
		}
		want := map[uintptr]bool{}
		for r := range c.rows {
			for j := 0; j < c.cols; j += 16 {
				at := lineOf(x, c.first+r*c.ld+j)
				if want[at] = true; !asked[at] {
					t.Fatalf("%+v: element (%d, %d) is not prefetched", c, r, j)
				}
			}
		}
		rows, columns := c.rows, (4*c.cols+piece-1)/piece
		if 4*c.ld <= piece {
			rows, columns = (4*c.rows*c.ld+piece-1)/piece, 1
		}
		if most := (rows + c.panels*c.kc/64) * columns * piece / 64; count > most {
			t.Errorf("%+v: %d lines are prefetched for %d, want at most %d", c, count, len(want), most)
		}
	}
}

// TestAheadIsTheNextBlock: what is prefetched is what the next block of a task reads of A and, where it reads
// another part of B, that part, in the order of the task's loops.
func TestAheadIsTheNextBlock(t *testing.T) {
	for trans := range 4 {
		g := newGemm(100, 300, 90, trans&1 != 0, trans&2 != 0, 3)
		w := area{i0: 10, i1: 100, j0: 128, j1: 300, rows: 40, cols: 128, depth: 32, kc: 16}
		var nextA, nextB region
		for j := w.j0; j < w.j1; j += w.cols {
			for k0 := 0; k0 < g.K; k0 += w.depth {
				b := k0*g.LDB + j
				if g.TransB {
					b = j*g.LDB + k0
				}
				if (j > w.j0 || k0 > 0) && nextB.at != addressOf(g.B, b) {
					t.Fatalf("trans %d: B from %d, %d on was not told before", trans, k0, j)
				}
				for i := w.i0; i < w.i1; i += w.rows {
					for k := k0; k < min(g.K, k0+w.depth); k += w.kc {
						a := i*g.LDA + k
						if g.TransA {
							a = k*g.LDA + i
						}
						if (j > w.j0 || k > 0 || i > w.i0) && nextA.at != addressOf(g.A, a) {
							t.Fatalf("trans %d: A of the block at %d, %d, %d was not told before", trans, i, j, k)
						}
						nextA = w.nextA(g, i, j, k)
					}
				}
				nextB = w.nextB(g, j, k0)
			}
		}
		if nextA != (region{}) || nextB != (region{}) {
			t.Errorf("trans %d: after the last block come %+v and %+v", trans, nextA, nextB)
		}
	}
}

// TestAheadBegins: prefetching of the next block of B begins at the last block of A that still has enough rows.
func TestAheadBegins(t *testing.T) {
	for _, trans := range []bool{false, true} {
		g := newGemm(1000, 300, 90, trans, false, 3)
		for _, rows := range []int{1, 47, 48, 143, 144, 145, 191, 192, 193, 990} {
			p := plan(g, &active.gemm, 1)
			w := p.area(g, 10, 10+rows, 0, 300)
			if left := w.i1 - w.bAhead; (w.bAhead-w.i0)%w.rows != 0 || left < min(rows, rowsAhead) || left >= rowsAhead+w.rows {
				t.Errorf("%d rows, transposed %v: B is prefetched from row %d on", rows, trans, w.bAhead)
			}
		}
	}
}
