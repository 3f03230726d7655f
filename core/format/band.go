package format

import (
	"math"

	"harness.invalid/core/kernels"
	"harness.invalid/core/random"
)

// band is a row of tiles: what their quantisation needs, for one goroutine.
type band struct {
	q      *Quantizer
	m      *Matrix
	width  int
	top    []float32 // largest magnitudes by column, where tiles have several rows
	encode []float32 // by tile; first the largest magnitudes
	decode []float64
	exact  []float32 // decode, where float32 has all that the rule gives; else empty
}

func newBand(q *Quantizer, m *Matrix, height, width int) *band {
	tiles := (m.Columns + width - 1) / width
	b := &band{q: q, m: m, width: width, encode: make([]float32, tiles), decode: make([]float64, tiles)}
	if height > 1 {
		b.top = make([]float32, m.Columns)
	}
	if !q.format.Scale.Tensor {
		b.exact = make([]float32, tiles)
	}
	return b
}

// round quantizes rows r0 to r1, one tile high.
func (b *band) round(r0, r1 int, tensor float32) {
	n := b.m.Columns
	top := b.m.Src[r0*n : (r0+1)*n]
	if r1-r0 > 1 {
		kernels.Magnitudes(b.top, top, b.m.Src[(r0+1)*n:(r0+2)*n])
		for r := r0 + 2; r < r1; r++ {
			kernels.Magnitudes(b.top, b.top, b.m.Src[r*n:(r+1)*n])
		}
		top = b.top
	}
	kernels.BlockMagnitudes(b.encode, top, b.width)
	b.q.scales.factors(b.encode, b.decode, tensor)
	for i := range b.exact {
		b.exact[i] = float32(b.decode[i])
	}
	for r := r0; r < r1; r++ {
		i := r * n
		dst, src := b.m.Dst[i:i+n], b.m.Src[i:i+n]
		switch narrow := b.q.cast.narrow; {
		case narrow == nil:
			b.q.cast.tiles(dst, src, b.encode, b.decode, b.width, b.m.Stream, i)
		case b.exact == nil:
			kernels.CastBlocks64(dst, src, narrow, b.encode, b.decode, b.width)
		default:
			kernels.CastBlocks(dst, src, narrow, b.encode, b.exact, b.width)
		}
	}
}

// tiles is scaled with factors for each tile of a row.
func (c *Caster) tiles(dst, src, encode []float32, decode []float64, width int, stream random.Stream, pos int) {
	if c.random != nil {
		c.random.cast(c, dst, src, encode, decode, width, stream, pos)
		return
	}
	if c.e.Rounding != Stochastic || width >= random.Group {
		for i, e := range encode {
			n := min(width, len(src))
			c.scaled(dst[:n], src[:n], e, decode[i], stream, pos)
			dst, src, pos = dst[n:], src[n:], pos+n
		}
		return
	}
	var bits [random.Group]uint16
	for at := 0; at < len(src); {
		n := min(random.Group-(pos+at)%random.Group, len(src)-at)
		stream.Uint16s(bits[:n], pos+at)
		for i := range n {
			k := at + i
			dst[k] = float32(float64(c.one(src[k]*encode[k/width], bits[i])) * decode[k/width])
		}
		at += n
	}
}

// scales is Scale.choose for many tiles, with what does not depend on them computed once.
type scales struct {
	scale   *Scale
	element *Element
	kept    *kernels.Narrow // of the scale's format
	top     float32         // the element's largest value
	binade  int             // and its exponent
}

func newScales(f *Format) *scales {
	s := &scales{scale: f.Scale, element: &f.Element, top: float32(f.Element.Max()), binade: math.Ilogb(f.Element.Max())}
	if kept := f.Scale.element; kept != nil {
		s.kept = kept.narrow()
	}
	return s
}

// factors replaces the largest magnitudes of tiles by what choose returns for them, NaN where they are not finite.
func (s *scales) factors(encode []float32, decode []float64, tensor float32) {
	if s.kept != nil {
		s.narrow(encode, decode, tensor)
		return
	}
	for i, amax := range encode {
		f := factors{float32(math.NaN()), math.NaN()}
		if b := math.Float32bits(amax); s.scale.Format == PowerOfTwo && b-1<<23 < infBits-1<<23 { // normal
			f = power(s.exponent(b))
		} else if amax <= math.MaxFloat32 {
			f = s.scale.choose(s.element, amax, tensor)
		}
		encode[i], decode[i] = f.encode, f.decode
	}
}

// exponent is Scale.exponent for the bits of a normal float32.
func (s *scales) exponent(amax uint32) int {
	k := int(amax>>23) - 127 - s.binade
	if mantissa := uint32(1<<23 - 1); s.scale.Rule == Ceil && amax&mantissa > math.Float32bits(s.top)&mantissa {
		k++
	}
	return min(max(k, s.scale.Least), s.scale.Greatest)
}

// power is the factors 2^-k and 2^k, k from -127 to 127.
func power(k int) factors {
	encode := uint32(127-k) << 23
	if k == 127 {
		encode = 1 << 22 // 2^-127 is no normal float32
	}
	return factors{math.Float32frombits(encode), math.Float64frombits(uint64(1023+k) << 52)}
}

// narrow is factors for scales that are kept in a format of elements: in the order of choose, a step for all tiles at a
// time.
func (s *scales) narrow(encode []float32, decode []float64, tensor float32) {
	largest := s.kept.Largest * s.top
	global, back := float32(1), 1.0
	if s.scale.Tensor && tensor > 0 {
		global, back = finite(largest/tensor), float64(tensor)/float64(largest)
	}
	for i, amax := range encode {
		if !(amax <= math.MaxFloat32) {
			amax = float32(math.NaN())
		}
		encode[i] = finite(float32(amax/s.top) * global)
	}
	kernels.Cast(encode, encode, s.kept, 1, 1)
	inverse := 1 / global
	for i, kept := range encode {
		if kept == 0 {
			decode[i] = 0 // so small beside the tensor's largest that all are zero
			continue
		}
		encode[i], decode[i] = finite(1/float32(kept*inverse)), float64(kept)*back
	}
}
