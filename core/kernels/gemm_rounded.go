package kernels

import (
	"harness.invalid/core/numerics"
	"harness.invalid/core/random"
)

// inRegisters is the chunk of FP16 partial sums that micro-kernels round while the sums are in registers. It is the
// number of products that an IPU's matrix unit takes to one.
const inRegisters = 16

// rounded reports whether micro-kernels round the partial sums. It must depend on nothing that could differ between
// two computations of one result.
func (g *Gemm) rounded() bool {
	return g.Partials.Chunk == inRegisters && g.Partials.Rounding.Format == numerics.FP16
}

// gemmNoise says how a micro-kernel rounds its sums, and which row and column of the product, and which chunk, are
// its first. The column is a multiple of random.Lanes.
type gemmNoise struct {
	rounding           numerics.Rounding
	grid               random.Grid
	row, column, chunk int
}

// roundedKernel is a microKernel whose sums begin with C, or 0, and are rounded after every inRegisters products and
// after the last. Products are added to a sum one by one, in order, each exact where the inputs have at most 12
// significant bits: there all levels agree. A stochastic sum that is rounded to zero is +0.
type roundedKernel func(m, kc int, a []float32, lda int, b []float32, ldb, next int, c []float32, ldc, cols int, add bool,
	ahead lines, noise *gemmNoise)

// noise is that of the whole product.
func (g *Gemm) noise() gemmNoise {
	r := g.Partials.Rounding
	return gemmNoise{rounding: r, grid: r.Stream.Grid()}
}

// from is that of rows from i on, columns from j on and products from k on.
func (n gemmNoise) from(i, j, k int) gemmNoise {
	n.row, n.column, n.chunk = n.row+i, n.column+j, n.chunk+k/inRegisters
	return n
}

// round rounds a sum, counted from the first.
func (n *gemmNoise) round(sum float32, i, j, chunk int) float32 {
	if !n.rounding.Stochastic {
		return n.rounding.RoundWith(sum, 0)
	}
	bits := n.grid.Bits(uint32(n.row+i), uint32(n.column+j), uint32(n.chunk+chunk))
	if sum = n.rounding.RoundWith(sum, uint16(bits<<(16-random.GridBits))); sum == 0 {
		return 0
	}
	return sum
}

// gemmRoundedRowsGeneric is the twin of the micro-kernels on rows of A that round.
func gemmRoundedRowsGeneric(m, kc int, a []float32, lda int, b []float32, ldb, next int, c []float32, ldc, cols int, add bool,
	_ lines, noise *gemmNoise) {
	gemmRoundedGeneric(m, kc, a, lda, 1, b, ldb, next, c, ldc, cols, add, noise)
}

// gemmRoundedPanelsGeneric is the twin of the micro-kernels on columns of A that round.
func gemmRoundedPanelsGeneric(m, kc int, a []float32, lda int, b []float32, ldb, next int, c []float32, ldc, cols int, add bool,
	_ lines, noise *gemmNoise) {
	gemmRoundedGeneric(m, kc, a, 1, lda, b, ldb, next, c, ldc, cols, add, noise)
}

// gemmRoundedGeneric has a(i, k) = a[i·row + k·along].
func gemmRoundedGeneric(m, kc int, a []float32, row, along int, b []float32, ldb, next int, c []float32, ldc, cols int, add bool,
	noise *gemmNoise) {
	var sums [4]float32
	for i := range m {
		for s := 0; s < cols; s += len(sums) {
			n, strip := min(len(sums), cols-s), b[s/4*next:]
			clear(sums[:])
			if add {
				copy(sums[:n], c[i*ldc+s:])
			}
			for k := 0; k < kc; k += inRegisters {
				for q := k; q < min(k+inRegisters, kc); q++ {
					x, y := a[i*row+q*along], strip[q*ldb:][:4]
					for j := range sums {
						sums[j] += float32(x * y[j])
					}
				}
				for j := range sums {
					sums[j] = noise.round(sums[j], i, s+j, k/inRegisters)
				}
			}
			copy(c[i*ldc+s:][:n], sums[:])
		}
	}
}
