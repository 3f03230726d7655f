package format

import (
	"math"

	"harness.invalid/core/kernels"
	"harness.invalid/core/numerics"
	"harness.invalid/core/random"
)

// drawn is the fast form of stochastic rounding with 16 bits, for up to 6 mantissa bits. A magnitude becomes a whole number
// whose 16 lowest bits are what is cut off: of the bits of a normal value those above, of a subnormal one the multiple of
// the format's step. A random number is added, and the bits above count values of the format. The kernel that rounds to
// BF16 stochastically adds just that to the bits of a float32 and cuts 16 of them, with vector instructions.
type drawn struct {
	shift  uint    // of the bits of a normal value
	normal uint32  // bits of the least normal value
	fixed  float64 // 2^16 over the step
	values []float32
}

const cutBits = 16

// drawn returns nil where the format or its rounding is not of this kind.
func (c *Caster) drawn() *drawn {
	e := &c.e
	if e.Exponent == 0 || e.Rounding != Stochastic || e.RandomBits != cutBits || e.Mantissa >= 23-cutBits || e.Specials == NegativeZero ||
		c.normal>>23 < 2 {
		return nil
	}
	d := &drawn{shift: uint(23 - e.Mantissa - cutBits), normal: c.normal, fixed: math.Ldexp(1, cutBits-e.step())}
	d.values = make([]float32, infBits>>(cutBits+d.shift)+1)
	for q := range d.values {
		r := uint32(q) << (cutBits + d.shift)
		if q <= 1<<e.Mantissa { // normal values count from 2^(mantissa + 1) on, since c.normal>>23 is 2 or more
			r = math.Float32bits(float32(q) * c.step)
		}
		if r > c.largest || r < c.tiny {
			r = c.ends(min(r, infBits), r)
		}
		d.values[q] = math.Float32frombits(r)
	}
	return d
}

// cast is Caster.scaled with factors for each tile of width elements.
func (d *drawn) cast(c *Caster, dst, src, encode []float32, decode []float64, width int, stream random.Stream, pos int) {
	var whole [2 * random.Group]float32
	round := numerics.Rounding{Format: numerics.BF16, Stochastic: true, Stream: stream}
	for at := 0; at < len(src); {
		end := min(at+len(whole)-(pos+at)%random.Group, len(src))
		u := whole[:end-at]
		finite := true
		eachTile(at, end, width, func(i, j, tile, step int) {
			finite = d.split(u[i-at:j-at], src[i:j], encode[tile:], step) && finite
		})
		if finite {
			kernels.Round(u, u, round, pos+at)
		} else {
			c.drawOneByOne(u, src[at:end], encode, at, width, stream, pos+at)
		}
		eachTile(at, end, width, func(i, j, tile, step int) {
			if part := u[i-at : j-at]; finite {
				d.join(dst[i:j], part, decode[tile:], step)
			} else {
				for k, y := range part {
					dst[i+k] = float32(float64(y) * decode[tile+k*step])
				}
			}
		})
		at = end
	}
}

// eachTile calls f for the elements i to j of each tile of a row, or once for all where each is a tile: element i + k has
// the factors tile + k·step.
func eachTile(at, end, width int, f func(i, j, tile, step int)) {
	if width == 1 {
		f(at, end, at, 1)
		return
	}
	for at < end {
		tile := at / width
		j := min((tile+1)*width, end)
		f(at, j, tile, 0)
		at = j
	}
}

// split makes whole numbers of values, with their signs. It reports whether all are finite.
func (d *drawn) split(u, src, encode []float32, step int) bool {
	src = src[:len(u)]
	worst := uint32(0)
	for i, x := range src {
		x *= encode[i*step]
		b := math.Float32bits(x)
		abs := b &^ signBit
		n := abs >> d.shift
		below := uint32(int64(float64(math.Float32frombits(abs)) * d.fixed))
		if abs < d.normal {
			n = below
		}
		worst = max(worst, abs)
		u[i] = math.Float32frombits(b&signBit | n)
	}
	return worst < infBits
}

// join makes values of rounded whole numbers.
func (d *drawn) join(dst, u []float32, decode []float64, step int) {
	dst = dst[:len(u)]
	for i, v := range u {
		b := math.Float32bits(v)
		y := math.Float32frombits(b&signBit | math.Float32bits(d.values[b&^signBit>>cutBits]))
		dst[i] = float32(float64(y) * decode[i*step])
	}
}

// drawOneByOne is for what has values that are not finite: u is cast(src·encode), of elements from at on in a row.
func (c *Caster) drawOneByOne(u, src, encode []float32, at, width int, stream random.Stream, pos int) {
	for i, x := range src {
		u[i] = c.one(x*encode[(at+i)/width], stream.Uint16(pos+i))
	}
}
