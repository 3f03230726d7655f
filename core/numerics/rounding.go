package numerics

import (
	"fmt"
	"math"

	"harness.invalid/core/random"
)

// Overflow says what becomes of a finite value that is too large for FP16. Infinite values stay infinite in any
// case. The other formats have float32's range and overflow to infinity, as in IEEE 754.
type Overflow uint8

// What becomes of values that are too large.
const (
	Inf  Overflow = iota // infinity, as IEEE 754
	Clip                 // ±65504: an IPU with the NANOO bit of FP_ICTL cleared
	NaN                  // not a number: an IPU with the NANOO bit set
)

// Rounding rounds float32 values to a format. The zero value keeps FP32 and does nothing.
type Rounding struct {
	Format     Format
	Stochastic bool          // round up with probability equal to the discarded fraction, instead of to nearest, ties to even
	Overflow   Overflow      // FP16 only
	Stream     random.Stream // the random bits of stochastic rounding
}

// Validate reports an unknown format or overflow, and stochastic rounding to TF32, which no device does.
func (r Rounding) Validate() error {
	switch {
	case int(r.Format) >= len(formats):
		return fmt.Errorf("rounding: number format %d is unknown: %w", uint8(r.Format), ErrInvalid)
	case r.Overflow > NaN:
		return fmt.Errorf("rounding: overflow %d is not Inf, Clip or NaN: %w", uint8(r.Overflow), ErrInvalid)
	case r.Stochastic && r.Format == TF32:
		return fmt.Errorf("rounding: stochastic rounding to tf32 does not exist, want bf16 or fp16: %w", ErrInvalid)
	}
	return nil
}

// Identity reports whether Round returns every value unchanged.
func (r Rounding) Identity() bool { return r.Format == FP32 }

const (
	signBit  = 1 << 31
	quietBit = 1 << 22
	infBits  = 0xff << 23
	// halfInf is 2^16 as float32 bits, the first power of two beyond FP16.
	halfInf = 0x47800000
	// halfNormal is 2^-14 as float32 bits, FP16's least normal value.
	halfNormal = 0x38800000
)

// Round returns x in the format. i is the index of x in its buffer and selects the random bits for stochastic
// rounding, Stream.Uint16(i), of which FP16 takes the upper 13 and BF16 all 16. They are added to the discarded
// bits and the sum is truncated, so a value between two neighbours is rounded up with a probability of exactly the
// discarded fraction. (Below 2^-37 and between multiples of 2^-37 in FP16's subnormal range that fraction is itself
// cut to 13 bits.)
//
// NaN stays NaN, quiet, with its payload truncated; infinities and the sign of zero are kept. TF32 is always
// rounded to nearest.
func (r Rounding) Round(x float32, i int) float32 {
	if r.Stochastic && r.Format != FP32 {
		return r.RoundWith(x, r.Stream.Uint16(i))
	}
	return r.RoundWith(x, 0)
}

// RoundWith is Round with given random bits, those of Stream.Uint16(i). Rounding to nearest ignores them.
func (r Rounding) RoundWith(x float32, random uint16) float32 {
	if r.Format == FP32 {
		return x
	}
	discard := 23 - formats[r.Format].mantissa // number of mantissa bits to drop
	low := uint32(1)<<discard - 1
	b := math.Float32bits(x)
	sign, abs := b&signBit, b&^signBit
	if abs > infBits {
		return math.Float32frombits((b | quietBit) &^ low)
	}
	if abs == infBits {
		return x
	}
	var up uint32 // what is added before the cut
	switch {
	case !r.Stochastic || r.Format == TF32:
		up = low>>1 + abs>>discard&1
	case r.Format == FP16:
		up = uint32(random >> 3)
	default:
		up = uint32(random)
	}
	if r.Format != FP16 {
		return math.Float32frombits(sign | (abs+up)&^low)
	}
	if abs < halfNormal {
		return math.Float32frombits(sign | roundSubnormal(abs, up, r.Stochastic))
	}
	abs = (abs + up) &^ low
	if abs >= halfInf {
		switch r.Overflow {
		case Clip:
			abs = math.Float32bits(65504)
		case NaN:
			abs = infBits | quietBit
		default:
			abs = infBits
		}
	}
	return math.Float32frombits(sign | abs)
}

// roundSubnormal rounds |x| < 2^-14 to a multiple of 2^-24.
func roundSubnormal(abs, r13 uint32, stochastic bool) uint32 {
	x := math.Float32frombits(abs)
	var units float32
	if stochastic {
		k := uint32(x * 0x1p37) // exact before the cut: a power of two, and below 2^23
		units = float32((k + r13) >> 13)
	} else {
		units = float32(math.RoundToEven(float64(x) * 0x1p24))
	}
	return math.Float32bits(units * 0x1p-24)
}
