package kernels

import (
	"math"
	"testing"
)

func TestReductions(t *testing.T) {
	onEachLevel(t, func(t *testing.T) {
		shapes(t, func(n, offset int) {
			x, _ := guarded(t, n, offset)
			copy(x, normals(n, 3))
			y := normals(n, 4)
			if got, want := active.dot(x, y), dotGeneric(x, y); got != want {
				t.Fatalf("dot of %d is %v, twin has %v", n, got, want)
			}
			if got, want := active.sumSquares(x), sumSquaresGeneric(x); got != want {
				t.Fatalf("sum of squares of %d is %v, twin has %v", n, got, want)
			}
			if got, want := active.max(x), maxGeneric(x); got != want {
				t.Fatalf("max of %d is %v, twin has %v", n, got, want)
			}
			if !active.allFinite(x) {
				t.Fatalf("%d finite elements are said not to be", n)
			}
		})
	})
}

// TestReductionsSeeEveryElement puts one special value at each place in turn.
func TestReductionsSeeEveryElement(t *testing.T) {
	onEachLevel(t, func(t *testing.T) {
		for _, n := range []int{1, 7, 16, 31, 64, 100, 129, 200} {
			for i := range n {
				for _, v := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), -math.Float32frombits(0x7f800001)} {
					x := make([]float32, n)
					x[i] = v
					if AllFinite(x) {
						t.Fatalf("%g at %d of %d is said to be finite", v, i, n)
					}
					if got := Max(x); v != v && got == got {
						t.Fatalf("max with NaN at %d of %d is %g", i, n, got)
					}
				}
				x := make([]float32, n)
				for j := range x {
					x[j] = -2
				}
				x[i] = -1
				if got := Max(x); got != -1 {
					t.Fatalf("max is %g, want the -1 at %d of %d", got, i, n)
				}
				if got := ArgMax(x); got != i {
					t.Fatalf("argmax is %d, want %d of %d", got, i, n)
				}
			}
		}
		if got := Max(nil); !math.IsInf(float64(got), -1) {
			t.Errorf("max of nothing is %g", got)
		}
	})
	if got := ArgMax([]float32{3, 5, 5}); got != 1 {
		t.Errorf("argmax of two largest is %d, want the first", got)
	}
}

// TestDotIsExact: a sum that cancels in float32 but not in float64.
func TestDotIsExact(t *testing.T) {
	onEachLevel(t, func(t *testing.T) {
		x := make([]float32, 100)
		y := make([]float32, 100)
		x[3], x[50], x[99] = 1<<24, 1, -(1 << 24)
		y[3], y[50], y[99] = 1<<24, 1, 1<<24
		if got := Dot(x, y); got != 1 {
			t.Errorf("got %v, want 1", got)
		}
	})
}

// TestColumnSums: 64 terms and then 4 partial sums in float32, each sum below 64, so an error below 68 units of
// 2^-18; and equal bits when the columns are shared.
func TestColumnSums(t *testing.T) {
	onEachLevel(t, func(t *testing.T) {
		for _, cols := range []int{1, 5, 16, 17, 31, 64, 65, 100, 128, 200} {
			for _, rows := range []int{0, 1, 3, 64, 65, 200} {
				ldx := cols + 3
				if cols%100 == 0 && rows%64 == 1 {
					ldx += 8 << 10 // rows that come from memory
				}
				x := normals(max(1, rows)*ldx, 5)
				y, intact := guarded(t, cols, 1)
				clear(y)
				y[0] = 1
				ColumnSums(y, x, rows, ldx)
				intact()
				for j := range y {
					want := 0.0
					if j == 0 {
						want = 1
					}
					for i := range rows {
						want += float64(x[i*ldx+j])
					}
					if math.Abs(float64(y[j])-want) > 68*0x1p-18 {
						t.Fatalf("%d x %d: column %d is %v, want %v", rows, cols, j, y[j], want)
					}
				}
				split := make([]float32, cols)
				split[0] = 1
				ColumnSums(split[:cols/2], x, rows, ldx)
				ColumnSums(split[cols/2:], x[cols/2:], rows, ldx)
				for j := range y {
					if split[j] != y[j] {
						t.Fatalf("%d x %d: column %d is %v when split, %v at once", rows, cols, j, split[j], y[j])
					}
				}
			}
		}
	})
}

func BenchmarkReduce(b *testing.B) {
	const n = 4096
	x, y := normals(n, 1), normals(n, 2)
	b.Run("Dot", func(b *testing.B) { perElement(b, n, func() { Dot(x, y) }) })
	b.Run("SumSquares", func(b *testing.B) { perElement(b, n, func() { SumSquares(x) }) })
	b.Run("Max", func(b *testing.B) { perElement(b, n, func() { Max(x) }) })
	b.Run("AllFinite", func(b *testing.B) { perElement(b, n, func() { AllFinite(x) }) })
	b.Run("ColumnSums", func(b *testing.B) { perElement(b, n, func() { ColumnSums(y[:128], x, 32, 128) }) })
}
