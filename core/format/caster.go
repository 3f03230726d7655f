package format

import (
	"math"

	"harness.invalid/core/kernels"
	"harness.invalid/core/numerics"
	"harness.invalid/core/random"
)

// Caster rounds slices of float32 as Element.Round does, bit for bit, from a few constants of the format. It may be
// used by several goroutines.
type Caster struct {
	e        Element
	low      uint32  // the bits of a normal value that are cut
	normal   uint32  // bits of the least normal value; 0 where the distance of values is float32's below it too
	magic    float32 // 2^23 steps: a sum with it is rounded to whole steps
	step     float32 // the distance of values below normal
	tiny     uint32  // bits of the least value that is not flushed
	largest  uint32  // bits
	overflow uint32  // bits of what is beyond

	narrow *kernels.Narrow    // where kernels.Cast has the format and the rounding
	known  *numerics.Rounding // where kernels.Round has
	random *drawn             // where stochastic rounding is fast
}

const (
	signBit = 1 << 31
	infBits = 0xff << 23
)

// Caster returns the fast form of a valid element format.
func (e *Element) Caster() *Caster {
	c := &Caster{
		e: *e, low: 1<<(23-e.Mantissa) - 1, normal: math.Float32bits(float32(math.Ldexp(1, e.least()))),
		magic: float32(math.Ldexp(1, e.step()+23)), step: float32(math.Ldexp(1, e.step())),
		largest: math.Float32bits(float32(e.Max())), overflow: math.Float32bits(float32(math.Abs(e.beyond(1)))),
	}
	if e.Exponent == 0 {
		c.normal = infBits // no value is normal
	}
	if e.FlushSubnormals {
		c.tiny = math.Float32bits(float32(e.Tiny()))
	}
	c.narrow, c.known, c.random = e.narrow(), e.known(), c.drawn()
	return c
}

// known is the format as package numerics knows it, for those with float32's exponent; nil for others.
func (e *Element) known() *numerics.Rounding {
	for mantissa, f := range map[int]numerics.Format{23: numerics.FP32, 10: numerics.TF32, 7: numerics.BF16} {
		if *e == (Element{Exponent: 8, Mantissa: mantissa, Bias: 127, Specials: IEEE, Overflow: ToInfinity, Rounding: NearestEven}) {
			return &numerics.Rounding{Format: f}
		}
	}
	return nil
}

// narrow is the format as kernels take it, nil where they do not.
func (e *Element) narrow() *kernels.Narrow {
	top := math.Ilogb(e.Max())
	if e.Rounding != NearestEven || e.Mantissa > 22 || e.least() < -126 || top+1+24-e.Mantissa > 127 {
		return nil
	}
	n := &kernels.Narrow{
		Limit: float32(e.Max()), Normal: float32(math.Ldexp(1, e.least())), Shift: uint32(23-e.Mantissa) << 23,
		Largest: float32(e.Max()), Beyond: float32(math.Abs(e.beyond(1))), Least: float32(e.Tiny()), Zero: signBit,
	}
	if e.Overflow != Saturate {
		n.Limit = float32(math.Ldexp(1, top+1))
	}
	if e.Specials == NegativeZero {
		n.Zero = 0
	}
	return n
}

// Cast computes dst[i] = Round(src[i], stream.Uint16(pos+i)). dst may be src.
func (c *Caster) Cast(dst, src []float32, stream random.Stream, pos int) {
	c.scaled(dst, src, 1, 1, stream, pos)
}

// scaled computes dst = cast(src·encode)·decode.
func (c *Caster) scaled(dst, src []float32, encode float32, decode float64, stream random.Stream, pos int) {
	if len(dst) != len(src) {
		panic("format: length of dst differs from src")
	}
	switch {
	case len(dst) == 0:
	case c.narrow != nil && float64(float32(decode)) == decode:
		kernels.Cast(dst, src, c.narrow, encode, float32(decode))
	case c.narrow != nil:
		kernels.CastBlocks64(dst, src, c.narrow, []float32{encode}, []float64{decode}, len(dst))
	case c.known != nil && encode == 1 && decode == 1:
		kernels.Round(dst, src, *c.known, 0)
	case c.random != nil:
		c.random.cast(c, dst, src, []float32{encode}, []float64{decode}, len(dst), stream, pos)
	case c.e.Rounding == Stochastic:
		var bits [random.Group]uint16
		for len(dst) > 0 {
			n := min(random.Group-pos%random.Group, len(dst))
			stream.Uint16s(bits[:n], pos)
			for i, x := range src[:n] {
				dst[i] = float32(float64(c.one(x*encode, bits[i])) * decode)
			}
			dst, src, pos = dst[n:], src[n:], pos+n
		}
	case c.e.Rounding != NearestEven || c.e.Mantissa == 0 || c.low == 0 || c.e.Specials == NegativeZero:
		for i, x := range src {
			dst[i] = float32(float64(c.one(x*encode, 0)) * decode)
		}
	default:
		c.nearest(dst, src, encode)
		if decode != 1 {
			for i, y := range dst {
				dst[i] = float32(float64(y) * decode)
			}
		}
	}
}

// nearest is the loop for formats with about float32's range.
func (c *Caster) nearest(dst, src []float32, encode float32) {
	low, shift := c.low, 23-c.e.Mantissa
	half, normal, magic, largest := low>>1, c.normal, c.magic, c.largest
	for i, x := range src {
		b := math.Float32bits(x * encode)
		abs := b &^ signBit
		r := (abs + half + abs>>shift&1) &^ low
		if abs < normal {
			r = math.Float32bits(math.Float32frombits(abs) + magic - magic)
		}
		if r > largest || r < c.tiny {
			r = c.ends(abs, r)
		}
		dst[i] = math.Float32frombits(b&signBit | r)
	}
}

// ends corrects a rounded magnitude r of abs that the format does not have.
func (c *Caster) ends(abs, r uint32) uint32 {
	switch {
	case abs > infBits:
		return abs
	case r > c.largest || abs == infBits:
		return c.overflow
	case r < c.tiny:
		return 0
	}
	return r
}

// one casts a value.
func (c *Caster) one(x float32, random uint16) float32 {
	b := math.Float32bits(x)
	abs := b &^ signBit
	var r uint32
	if abs >= infBits {
		r = infBits
	} else if abs < c.normal {
		// Exact: the step is a power of two.
		whole, fraction := math.Modf(float64(math.Float32frombits(abs)) / float64(c.step))
		if c.e.up(whole, fraction, random) {
			whole++
		}
		r = math.Float32bits(float32(whole * float64(c.step)))
	} else {
		r = c.normalBits(abs, random)
	}
	r = c.ends(abs, r)
	if r == 0 && c.e.Specials == NegativeZero {
		return 0
	}
	return math.Float32frombits(b&signBit | r)
}

// normalBits rounds the bits of a normal value.
func (c *Caster) normalBits(abs uint32, random uint16) uint32 {
	cut := 23 - c.e.Mantissa
	half := (c.low + 1) >> 1
	switch c.e.Rounding {
	case TowardZero:
		return abs &^ c.low
	case NearestAway:
		return (abs + half) &^ c.low
	case Stochastic:
		r := uint32(random >> (16 - c.e.RandomBits))
		if n := cut - c.e.RandomBits; n >= 0 {
			r <<= n
		} else {
			r >>= -n
		}
		return (abs + r) &^ c.low
	}
	if cut == 0 {
		return abs
	}
	odd := abs >> cut & 1
	if c.e.Mantissa == 0 {
		odd = 1 // the whole mantissa is the leading one
	}
	return (abs + half - 1 + odd) &^ c.low
}
