package emulator

import (
	"harness.invalid/core/kernels"
)

// hadamardSize is the number of tokens that a transform mixes, and hadamardSigns are the random signs that their values
// get before. Source: Transformer Engine, get_wgrad_sign_vector (pytorch/tensor/nvfp4_tensor.py), whose signs are these
// in every step and tensor.
const hadamardSize = 16

var hadamardSigns = [hadamardSize]float32{1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1}

// hadamard sets y to blocks of 16 rows of x, each multiplied by the transpose of diag(signs)·H/4, H Sylvester's Hadamard
// matrix. It is orthogonal, so that dYᵀ·X stays as it is when both are transformed. x has rows rows, y as many as whole
// blocks have; what x lacks is 0. Sums are in float32, in an order that does not depend on the processor.
func hadamard(y, x []float32, rows, columns int) {
	blocks := (rows + hadamardSize - 1) / hadamardSize
	kernels.Parallel(blocks, func(b0, b1 int) {
		for b := b0; b < b1; b++ {
			r := b * hadamardSize
			block := y[r*columns:][:hadamardSize*columns]
			for i := range hadamardSize {
				row := block[i*columns:][:columns]
				if r+i < rows {
					kernels.Scale(row, hadamardSigns[i]/4, x[(r+i)*columns:][:columns])
				} else {
					clear(row)
				}
			}
			butterflies(block, columns)
		}
	})
}

// butterflies multiplies the 16 rows of a block by H, as sums and differences of rows 1, 2, 4 and 8 apart. Columns are
// taken in parts that stay in the first level cache.
func butterflies(block []float32, columns int) {
	const part = 128
	var kept [part]float32
	for c := 0; c < columns; c += part {
		n := min(part, columns-c)
		for apart := 1; apart < hadamardSize; apart *= 2 {
			for i := range hadamardSize {
				if i&apart != 0 {
					continue
				}
				a, b := block[i*columns+c:][:n], block[(i+apart)*columns+c:][:n]
				copy(kept[:n], a)
				kernels.Add(a, a, b)
				kernels.Scale(b, -1, b)
				kernels.Add(b, b, kept[:n])
			}
		}
	}
}

// transform replaces the factors of a product that sums over rows by their transforms.
func (o *operands) transform(g *kernels.Gemm, a, b *factor) {
	rows := (a.rows + hadamardSize - 1) / hadamardSize * hadamardSize
	for _, t := range []struct {
		f  *factor
		to *[]float32
	}{{a, &g.A}, {b, &g.B}} {
		s := o.d.scratch.get()
		o.taken = append(o.taken, s)
		y := s.take(rows * t.f.columns)
		hadamard(y, *t.to, t.f.rows, t.f.columns)
		*t.to, t.f.rows = y, rows
	}
	g.K = rows
}
