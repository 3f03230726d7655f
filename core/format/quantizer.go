package format

import (
	"math"

	"harness.invalid/core/kernels"
	"harness.invalid/core/random"
)

// Quantizer rounds matrices as Format.Quantize does, bit for bit, in bands of whole tiles that several goroutines may
// take.
type Quantizer struct {
	format *Format
	cast   *Caster
	scales *scales // nil where the format has none
}

// Quantizer returns the fast form of a valid format.
func (f *Format) Quantizer() *Quantizer {
	q := &Quantizer{format: f, cast: f.Element.Caster()}
	if f.Scale != nil {
		q.scales = newScales(f)
	}
	return q
}

// Format is what the quantizer rounds to.
func (q *Quantizer) Format() *Format { return q.format }

// Matrix is what a Quantizer rounds: [Rows, Columns], row-major. Dst may be Src. Random bits of element i are
// Stream.Uint16(i).
type Matrix struct {
	Dst, Src      []float32
	Rows, Columns int
	// AlongRows turns the tiles, for a product that sums over rows: the tile R x C is then C rows high and R columns wide.
	AlongRows bool
	Stream    random.Stream
}

// tile returns the size of a tile in a matrix; whole: the matrix is one tile, or needs none.
func (q *Quantizer) tile(m *Matrix) (height, width int, whole bool) {
	s := q.format.Scale
	if s == nil || s.Rows == 0 && s.Columns == 0 {
		return 1, max(m.Columns, 1), true
	}
	height, width = s.Rows, s.Columns
	if m.AlongRows {
		height, width = width, height
	}
	if height == 0 {
		height = max(m.Rows, 1)
	}
	if width == 0 {
		width = max(m.Columns, 1)
	}
	return height, width, false
}

// Bands is the number of bands of a matrix.
func (q *Quantizer) Bands(m *Matrix) int {
	height, _, _ := q.tile(m)
	return (m.Rows + height - 1) / height
}

// NeedsLargest reports whether Quantize wants the largest magnitude of the whole matrix.
func (q *Quantizer) NeedsLargest() bool {
	s := q.format.Scale
	return s != nil && (s.Tensor || s.Rows == 0 && s.Columns == 0)
}

// Largest is the largest magnitude in x, NaN if there is a NaN. The largest of parts is Worse of their largest.
func Largest(x []float32) float32 { return kernels.Magnitude(x) }

// Worse is the larger of two magnitudes, or NaN.
func Worse(a, b float32) float32 { return worse(a, b) }

// Quantize rounds bands b0 to b1 of a matrix. tensor is the largest magnitude of all of it, where NeedsLargest.
func (q *Quantizer) Quantize(m *Matrix, b0, b1 int, tensor float32) {
	if len(m.Src) < m.Rows*m.Columns || len(m.Dst) < m.Rows*m.Columns {
		panic("format: matrix is shorter than its shape says")
	}
	height, width, whole := q.tile(m)
	if whole {
		i, j := b0*m.Columns, b1*m.Columns
		f := factors{1, 1}
		if q.format.Scale != nil {
			if !(tensor <= math.MaxFloat32) {
				fill(m.Dst[i:j], float32(math.NaN()))
				return
			}
			f = q.format.Scale.choose(&q.format.Element, tensor, tensor)
		}
		q.cast.scaled(m.Dst[i:j], m.Src[i:j], f.encode, f.decode, m.Stream, i)
		return
	}
	b := newBand(q, m, height, width)
	for k := b0; k < b1; k++ {
		b.round(k*height, min((k+1)*height, m.Rows), tensor)
	}
}

func fill(x []float32, v float32) {
	for i := range x {
		x[i] = v
	}
}
