package format

import (
	"math"

	"harness.invalid/core/random"
)

// Quantizer rounds matrices as Format.Quantize does, bit for bit. It may be used by several goroutines.
type Quantizer struct {
	format *Format
	cast   *Caster
}

// Quantizer returns the fast form of a valid format.
func (f *Format) Quantizer() *Quantizer { return &Quantizer{f, f.Element.Caster()} }

// Quantize rounds a matrix; dst may be src. Random bits of element i are stream.Uint16(i).
func (q *Quantizer) Quantize(dst, src []float32, rows, columns int, stream random.Stream) {
	if len(src) != rows*columns || len(dst) != len(src) {
		panic("format: length of dst or src is not rows x columns")
	}
	scale := q.format.Scale
	if scale == nil {
		q.cast.Cast(dst, src, stream, 0)
		return
	}
	tensor := float32(0)
	if scale.Tensor {
		tensor = largest(src)
	}
	height, width := scale.Rows, scale.Columns
	if height == 0 {
		height = max(rows, 1)
	}
	if width == 0 {
		width = max(columns, 1)
	}
	for r := 0; r < rows; r += height {
		for c := 0; c < columns; c += width {
			q.tile(dst, src, columns, r, min(r+height, rows), c, min(c+width, columns), tensor, stream)
		}
	}
}

func (q *Quantizer) tile(dst, src []float32, columns, r0, r1, c0, c1 int, tensor float32, stream random.Stream) {
	amax := float32(0)
	for r := r0; r < r1; r++ {
		amax = worse(amax, largest(src[r*columns+c0:r*columns+c1]))
	}
	finite := amax <= math.MaxFloat32
	s := q.format.Scale.choose(&q.format.Element, amax, tensor)
	for r := r0; r < r1; r++ {
		i, j := r*columns+c0, r*columns+c1
		if finite {
			q.cast.scaled(dst[i:j], src[i:j], s.encode, s.decode, stream, i)
			continue
		}
		for k := i; k < j; k++ {
			dst[k] = float32(math.NaN())
		}
	}
}
