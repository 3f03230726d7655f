package format

import "math"

// Effect says what quantisation did to a tensor. Effects of its parts add up.
type Effect struct {
	Values    int64
	Saturated int64 // by half a step or more beyond the largest value of the format, once scaled
	Flushed   int64 // that became zero
	Subnormal int64 // kept with fewer digits than the format has
	Largest   float32
	Scale     float32 // by which values were multiplied; the least of the parts, 0 where blocks have their own

	noise, before, after, both float64 // sums of squares: of the error, of the values, of the results; and of products
}

// RelError is the norm of the error over the norm of the values, 0 for a tensor of zeros.
func (e *Effect) RelError() float64 {
	if e.before == 0 {
		return 0
	}
	return math.Sqrt(e.noise / e.before)
}

// Cosine of the angle between values and results, 1 where either is zero throughout.
func (e *Effect) Cosine() float64 {
	if e.before == 0 || e.after == 0 {
		return 1
	}
	return e.both / math.Sqrt(e.before*e.after)
}

// Add adds the effect on another part of the tensor.
func (e *Effect) Add(o Effect) {
	if e.Values == 0 || o.Scale < e.Scale {
		e.Scale = o.Scale
	}
	e.Values, e.Saturated = e.Values+o.Values, e.Saturated+o.Saturated
	e.Flushed, e.Subnormal = e.Flushed+o.Flushed, e.Subnormal+o.Subnormal
	e.Largest = worse(e.Largest, o.Largest)
	e.noise, e.before, e.after, e.both = e.noise+o.noise, e.before+o.before, e.after+o.after, e.both+o.both
}

// Effect is that of Quantize on a matrix, whose Src and Dst must differ; tensor is what Quantize was given. Values that
// are not finite count as saturated, and in nothing else. It is scalar and slow.
func (q *Quantizer) Effect(m *Matrix, tensor float32) Effect {
	height, width, whole := q.tile(m)
	if whole {
		height = max(m.Rows, 1)
	}
	var e Effect
	for r := 0; r < m.Rows; r += height {
		for c := 0; c < m.Columns; c += width {
			q.tileEffect(&e, m, [4]int{r, min(r+height, m.Rows), c, min(c+width, m.Columns)}, whole, tensor)
		}
	}
	return e
}

// tileEffect adds the effect on a tile of rows and columns.
func (q *Quantizer) tileEffect(e *Effect, m *Matrix, tile [4]int, whole bool, tensor float32) {
	scale := float32(1)
	if s := q.format.Scale; s != nil {
		amax := tensor
		if !whole {
			amax = 0
			for r := tile[0]; r < tile[1]; r++ {
				amax = worse(amax, largest(m.Src[r*m.Columns+tile[2]:r*m.Columns+tile[3]]))
			}
		}
		scale = s.choose(&q.format.Element, amax, tensor).encode
	}
	if whole {
		e.Scale = scale
	}
	element := &q.format.Element
	normal, step := element.Normal(), element.step()
	if element.Exponent > 0 {
		step = math.Ilogb(element.Max()) - element.Mantissa
	}
	beyond := element.Max() + math.Ldexp(0.5, step)
	for r := tile[0]; r < tile[1]; r++ {
		for i := r*m.Columns + tile[2]; i < r*m.Columns+tile[3]; i++ {
			x, y := float64(m.Src[i]), float64(m.Dst[i])
			size := math.Abs(float64(m.Src[i] * scale))
			e.Values++
			e.Largest = worse(e.Largest, m.Src[i])
			switch {
			case !(size < beyond):
				e.Saturated++
			case x != 0 && y == 0:
				e.Flushed++
			case x != 0 && size < normal:
				e.Subnormal++
			}
			if d := y - x; !math.IsNaN(d) && !math.IsInf(d, 0) {
				e.noise, e.before, e.after, e.both = e.noise+d*d, e.before+x*x, e.after+y*y, e.both+x*y
			}
		}
	}
}
