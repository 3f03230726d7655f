package format

import (
	"fmt"
	"math"
)

// Quantize rounds a matrix to the values that the format has: dst[r·columns+c] for src, which may be the same slice.
// Each tile is multiplied by the inverse of its scale, cast, and multiplied by the scale, in float32. random gives the
// random bits of element i where elements are rounded stochastically, and may be nil elsewhere.
//
// A tile that holds NaN or infinity becomes NaN as a whole, as the OCP's does whose scale is NaN; elements without a
// scale follow Element.Round, each for itself.
func (f *Format) Quantize(dst, src []float32, rows, columns int, random func(i int) uint16) error {
	if len(src) != rows*columns || len(dst) != len(src) {
		return fmt.Errorf("format %s: %d and %d values, want %d x %d", f.Name, len(dst), len(src), rows, columns)
	}
	if f.Element.Rounding == Stochastic && random == nil {
		return fmt.Errorf("format %s is rounded stochastically, and there are no random bits", f.Name)
	}
	if random == nil {
		random = func(int) uint16 { return 0 }
	}
	if f.Scale == nil {
		for i, x := range src {
			dst[i] = float32(f.Element.Round(float64(x), random(i)))
		}
		return nil
	}
	tensor := largest(src)
	height, width := f.Scale.Rows, f.Scale.Columns
	if height == 0 {
		height = max(rows, 1)
	}
	if width == 0 {
		width = max(columns, 1)
	}
	for r := 0; r < rows; r += height {
		for c := 0; c < columns; c += width {
			f.tile(dst, src, columns, r, min(r+height, rows), c, min(c+width, columns), tensor, random)
		}
	}
	return nil
}

// tile quantizes rows r0 to r1 and columns c0 to c1.
func (f *Format) tile(dst, src []float32, columns, r0, r1, c0, c1 int, tensor float32, random func(i int) uint16) {
	amax := float32(0)
	for r := r0; r < r1; r++ {
		amax = worse(amax, largest(src[r*columns+c0:r*columns+c1]))
	}
	s := f.Scale.choose(&f.Element, amax, tensor)
	for r := r0; r < r1; r++ {
		for i := r*columns + c0; i < r*columns+c1; i++ {
			if !(amax <= math.MaxFloat32) {
				dst[i] = float32(math.NaN())
				continue
			}
			dst[i] = float32(f.Element.Round(float64(src[i]*s.encode), random(i)) * s.decode)
		}
	}
}

// largest is the greatest magnitude; NaN if there is one.
func largest(x []float32) float32 {
	amax := float32(0)
	for _, v := range x {
		amax = worse(amax, v)
	}
	return amax
}

func worse(amax, v float32) float32 {
	v = math.Float32frombits(math.Float32bits(v) &^ (1 << 31))
	if v > amax || v != v {
		return v
	}
	return amax
}
