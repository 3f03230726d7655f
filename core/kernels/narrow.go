package kernels

import "math"

// Narrow is a narrow format to which values are rounded to nearest, ties to even, in the constants that the rounding
// needs. It holds for formats of up to 22 mantissa bits whose Normal is a normal float32, and for which
// 2^(24 - mantissa bits)·Limit is finite.
type Narrow struct {
	Limit   float32 // magnitudes are cut to it: Largest to saturate, else the power of two beyond Largest
	Normal  float32 // the least normal value; of a fixed point format the first power of two beyond its values
	Shift   uint32  // 23 - mantissa bits, in the place of float32's exponent
	Largest float32 // finite value
	Beyond  float32 // what a rounded magnitude beyond Largest becomes: Largest, infinity or NaN
	Least   float32 // positive value; a magnitude that is rounded below it becomes zero
	Zero    uint32  // what is kept of that zero's bits: the sign, or nothing
}

const (
	signBit  = 1 << 31
	exponent = 0xff << 23
)

// round rounds a value. To add and subtract 2^23 units rounds to whole units. A unit is the distance of the format's
// values in the binade of x, and below Normal.
func (f *Narrow) round(x float32) float32 {
	b := math.Float32bits(x)
	abs := math.Float32frombits(b &^ signBit)
	if abs > f.Limit { // not for NaN
		abs = f.Limit
	}
	unit := math.Float32frombits(max(math.Float32bits(abs)&exponent, math.Float32bits(f.Normal)) + f.Shift)
	r := abs + unit - unit
	if r > f.Largest {
		r = f.Beyond
	}
	y := math.Float32bits(r) | b&signBit
	if r < f.Least {
		y &= f.Zero
	}
	return math.Float32frombits(y)
}

// Cast computes y = f(x·encode)·decode, each product rounded to float32. y may be x.
func Cast(y, x []float32, f *Narrow, encode, decode float32) {
	if len(x) != len(y) {
		panic("kernels: length of x differs from y")
	}
	active.cast(y, x, encode, decode, f)
}

// CastBlocks is Cast with the factors encode[i/width] and decode[i/width] for element i. Multiples of 16 as width, and 1,
// are fastest. y may be x.
func CastBlocks(y, x []float32, f *Narrow, encode, decode []float32, width int) {
	checkBlocks(y, x, encode, len(decode), width)
	if width == 1 {
		active.castColumns(y, x, encode, decode, f)
		return
	}
	if whole := wholeBlocks(len(y), width); whole > 0 {
		n := whole * width
		active.castBlocks(y[:n], x[:n], encode[:whole], decode[:whole], width, f)
		y, x, encode, decode = y[n:], x[n:], encode[whole:], decode[whole:]
	}
	castBlocksGeneric(y, x, encode, decode, width, f)
}

// CastBlocks64 is CastBlocks with factors that float32 does not have: the second product is rounded once.
func CastBlocks64(y, x []float32, f *Narrow, encode []float32, decode []float64, width int) {
	checkBlocks(y, x, encode, len(decode), width)
	if width == 1 {
		active.castColumns64(y, x, encode, decode, f)
		return
	}
	if whole := wholeBlocks(len(y), width); whole > 0 {
		n := whole * width
		active.castBlocks64(y[:n], x[:n], encode[:whole], decode[:whole], width, f)
		y, x, encode, decode = y[n:], x[n:], encode[whole:], decode[whole:]
	}
	castBlocksGeneric(y, x, encode, decode, width, f)
}

func checkBlocks(y, x, encode []float32, decodes, width int) {
	if len(x) != len(y) {
		panic("kernels: length of x differs from y")
	}
	if width < 1 || len(encode) != decodes || decodes != blocksOf(len(y), width) {
		panic("kernels: factors are not those of the blocks")
	}
}

// Magnitudes computes z = max(|x|, |y|), NaN where either is. z may be x or y.
func Magnitudes(z, x, y []float32) {
	if len(x) != len(z) || len(y) != len(z) {
		panic("kernels: length of x or y differs from z")
	}
	active.magnitudes(z, x, y)
}

// BlockMagnitudes computes the largest magnitude m[i] of x in each block of width elements, NaN where there is one. The
// last block may be shorter.
func BlockMagnitudes(m, x []float32, width int) {
	if width < 1 || len(m) != blocksOf(len(x), width) {
		panic("kernels: length of m is not the number of blocks")
	}
	if whole := wholeBlocks(len(x), width); whole > 0 {
		active.blockMagnitudes(m[:whole], x[:whole*width], width)
		m, x = m[whole:], x[whole*width:]
	}
	blockMagnitudesGeneric(m, x, width)
}

// Magnitude is the largest magnitude in x, NaN if there is one, and 0 of an empty slice.
func Magnitude(x []float32) float32 {
	var m [1]float32
	rest := x
	if n := len(x) &^ (lanes - 1); n > 0 {
		active.blockMagnitudes(m[:], x[:n], n)
		rest = x[n:]
	}
	var last [1]float32
	blockMagnitudesGeneric(last[:min(len(rest), 1)], rest, lanes)
	return larger(m[0], last[0])
}

func blocksOf(n, width int) int { return (n + width - 1) / width }

// wholeBlocks is the number of blocks of n elements that consist of whole vectors.
func wholeBlocks(n, width int) int {
	if width%lanes != 0 {
		return 0
	}
	return n / width
}

// larger is the larger of two magnitudes, where NaN is larger than all.
func larger(a, b float32) float32 {
	return math.Float32frombits(max(math.Float32bits(a)&^signBit, math.Float32bits(b)&^signBit))
}

func magnitudesGeneric(z, x, y []float32) {
	for i := range z {
		z[i] = larger(x[i], y[i])
	}
}

func blockMagnitudesGeneric(m, x []float32, width int) {
	for i := range m {
		top := uint32(0)
		for _, v := range x[:min(width, len(x))] {
			top = max(top, math.Float32bits(v)&^signBit)
		}
		m[i], x = math.Float32frombits(top), x[min(width, len(x)):]
	}
}

// castGeneric is Narrow.round in a loop, on bits.
func castGeneric(y, x []float32, encode, decode float32, f *Narrow) {
	limit, normal, shift := math.Float32bits(f.Limit), math.Float32bits(f.Normal), f.Shift
	largest, least := math.Float32bits(f.Largest), math.Float32bits(f.Least)
	y = y[:len(x)]
	for i, v := range x {
		b := math.Float32bits(v * encode)
		abs := b &^ signBit
		cut := min(abs, limit)
		unit := math.Float32frombits(max(cut&exponent, normal) + shift)
		r := math.Float32bits(math.Float32frombits(cut) + unit - unit)
		if r > largest || abs > exponent { // rare
			y[i] = f.round(v*encode) * decode
			continue
		}
		zero := uint32(int32(r-least) >> 31) // all ones where r is less
		y[i] = math.Float32frombits((r|b&signBit)&^(zero&^f.Zero)) * decode
	}
}

func castColumnsGeneric[D float32 | float64](y, x, encode []float32, decode []D, f *Narrow) {
	for i, v := range x {
		y[i] = v * encode[i]
	}
	castGeneric(y, y, 1, 1, f)
	for i, v := range y {
		y[i] = float32(D(v) * decode[i])
	}
}

func castBlocksGeneric[D float32 | float64](y, x, encode []float32, decode []D, width int, f *Narrow) {
	for i, e := range encode {
		n := min(width, len(y))
		castGeneric(y[:n], x[:n], e, 1, f)
		for j, v := range y[:n] {
			y[j] = float32(D(v) * decode[i])
		}
		y, x = y[n:], x[n:]
	}
}
