package kernels

import (
	"math"

	"harness.invalid/core/numerics"
	"harness.invalid/core/random"
)

// Dropout computes y = x/(1-p') where an element is kept and 0 where it is dropped. Element i is kept when
// Uint16(pos+i) of the stream is at least t = round(p·65536), so p' = t/65536 is the exact probability that it is
// dropped. Applied to dy, with the same stream and position, it is the backward pass. y may be x. p is in [0, 1 -
// 2^-16]; 0 copies.
//
// Positions that are multiples of random.Group (128) are fastest.
func Dropout(y, x []float32, p float32, stream random.Stream, pos int) {
	if len(x) != len(y) {
		panic("kernels: length of x differs from y")
	}
	t := math.Round(float64(p) * 65536)
	if !(t >= 0 && t < 65536) || pos < 0 {
		panic("kernels: dropout probability is not in [0, 1), or position is negative")
	}
	if t == 0 {
		copy(y, x)
		return
	}
	active.dropout(y, x, uint32(t), float32(65536/(65536-t)), stream, pos)
}

// Round computes y[i] = r.Round(x[i], pos+i), bit for bit. y may be x.
func Round(y, x []float32, r numerics.Rounding, pos int) { round(y, x, r, pos) }

// RoundFinite does what Round does and reports whether all results are finite, which is free in FP16.
func RoundFinite(y, x []float32, r numerics.Rounding, pos int) bool {
	return !round(y, x, r, pos) || active.allFinite(y)
}

func round(y, x []float32, r numerics.Rounding, pos int) (large bool) {
	if len(x) != len(y) {
		panic("kernels: length of x differs from y")
	}
	if pos < 0 {
		panic("kernels: position is negative")
	}
	if r.Identity() {
		copy(y, x)
		return true
	}
	return active.round(y, x, r, pos)
}

func dropoutGeneric(y, x []float32, threshold uint32, scale float32, stream random.Stream, pos int) {
	var bits [random.Group]uint16
	for len(y) > 0 {
		n := min(random.Group-pos%random.Group, len(y))
		stream.Uint16s(bits[:n], pos)
		for i := range n {
			if uint32(bits[i]) >= threshold {
				y[i] = x[i] * scale
			} else {
				y[i] = 0
			}
		}
		y, x, pos = y[n:], x[n:], pos+n
	}
}

func roundGeneric(y, x []float32, r numerics.Rounding, pos int) (large bool) {
	if !r.Stochastic {
		for i, v := range x {
			y[i] = r.RoundWith(v, 0)
		}
		return true
	}
	var bits [random.Group]uint16
	for len(y) > 0 {
		n := min(random.Group-pos%random.Group, len(y))
		r.Stream.Uint16s(bits[:n], pos)
		for i := range n {
			y[i] = r.RoundWith(x[i], bits[i])
		}
		y, x, pos = y[n:], x[n:], pos+n
	}
	return true
}
