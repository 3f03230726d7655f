package kernels

import (
	"testing"
	"unsafe"
)

// lineOf is the address of the cache line of an element.
func lineOf(x []float32, i int) uintptr { return uintptr(unsafe.Pointer(&x[i])) &^ 63 }

// TestAheadTakesTheRegion: what micro-kernels are told to prefetch is all of a region, whatever its shape and alignment, and not more
// than the last call of each row of lines, and the last row, overshoot.
func TestAheadTakesTheRegion(t *testing.T) {
	x := make([]float32, 300*200)
	for _, c := range []struct{ first, ld, rows, cols, panels, kc int }{
		{0, 128, 240, 128, 2, 256}, {5, 208, 100, 70, 4, 256}, {3, 128, 17, 1, 1, 8}, {1, 208, 256, 200, 3, 64}, {0, 64, 9, 33, 1, 5},
	} {
		h := ahead{of: [2]region{newRegion(x, c.first, c.ld, c.rows, c.cols)}}
		asked, count := map[uintptr]bool{}, 0
		for l := h.take(c.panels, c.kc); l.at != h.idle; l = h.take(c.panels, c.kc) {
			for n := range max(1, c.kc/8) {
				for p := range 2 * c.panels {
					asked[l.at+uintptr(4*l.apart*n+64*p)] = true
					count++
				}
			}
		}
		want := map[uintptr]bool{}
		for r := range c.rows {
			for j := range c.cols {
				at := lineOf(x, c.first+r*c.ld+j)
				if want[at] = true; !asked[at] {
					t.Fatalf("%+v: element (%d, %d) is not prefetched", c, r, j)
				}
			}
		}
		steps, columns := max(1, c.kc/8), (c.cols+30)/16+2*c.panels
		if most := (c.rows + steps) * columns; count > most {
			t.Errorf("%+v: %d lines are prefetched for %d, want at most %d", c, count, len(want), most)
		}
	}
}

// TestAheadIsTheNextBlock: after each block of a task comes what the following one reads, in the order of the task's loops.
func TestAheadIsTheNextBlock(t *testing.T) {
	for trans := range 6 { // the last two with B in place
		g := newGemm(100, 300, 90, trans&1 != 0, trans&2 != 0, 3)
		w := area{i0: 10, i1: 100, j0: 128, j1: 300, rows: 40, cols: 128, depth: 32, kc: 16, packB: trans < 4}
		if !w.packB {
			w.depth = w.kc
		}
		var told *ahead
		for j := w.j0; j < w.j1; j += w.cols {
			for k0 := 0; k0 < g.K; k0 += w.depth {
				for i := w.i0; i < w.i1; i += w.rows {
					for k := k0; k < min(g.K, k0+w.depth); k += w.kc {
						a, b := i*g.LDA+k, k*g.LDB+j
						if g.TransA {
							a = k*g.LDA + i
						}
						if g.TransB {
							b = j*g.LDB + k
						}
						if told != nil {
							if told.of[0].at != lineOf(g.A, a) {
								t.Fatalf("trans %d: A of the block at %d, %d, %d was not told before", trans, i, j, k)
							}
							anew := !w.packB || i == w.i0 && k == k0
							if want := lineOf(g.B, b); anew != (told.of[1].at == want) {
								t.Fatalf("trans %d: B of the block at %d, %d, %d: told %#x, read anew %v at %#x", trans, i, j, k, told.of[1].at, anew, want)
							}
						}
						next := w.after(g, i, j, k)
						told = &next
					}
				}
			}
		}
		if told.of != [2]region{} {
			t.Errorf("trans %d: after the last block comes %+v", trans, told.of)
		}
	}
}
