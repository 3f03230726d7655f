//go:build !noasm

package kernels

import (
	"math"
	"math/bits"

	"harness.invalid/core/numerics"
	"harness.invalid/core/random"
)

// overflowBits returns the float32 bits of what replaces a finite value that is too large for FP16.
func overflowBits(o numerics.Overflow) uint32 {
	switch o {
	case numerics.Clip:
		return math.Float32bits(65504)
	case numerics.NaN:
		return 0x7fc00000
	}
	return 0x7f800000
}

// philoxSchedule is what the generator xors into its state, beginning with round 1: the round keys, and all of rounds 1 to 3 that does not
// depend on the number of the block, because the other words of the counter are the same for a whole stream.
type philoxSchedule [13]uint32

func newPhiloxSchedule(s *random.Stream) (p philoxSchedule) {
	var k [random.Rounds][2]uint32
	k[0] = s.Key
	for r := 1; r < random.Rounds; r++ {
		k[r] = [2]uint32{k[r-1][0] + random.PhiloxW0, k[r-1][1] + random.PhiloxW1}
	}
	// Counter words: block, Sample, Step, Site. After round 1 the words 0 and 1 are known, after round 2 the word 3.
	hi, word1 := bits.Mul32(random.PhiloxM1, s.Step)
	word0 := hi ^ s.Sample ^ k[0][0]
	hi, word3 := bits.Mul32(random.PhiloxM0, word0)
	p = philoxSchedule{s.Site ^ k[0][1], word1 ^ k[1][0], hi ^ k[1][1], k[2][0], word3 ^ k[2][1]}
	for r := 3; r < random.Rounds; r++ {
		p[2*r-1], p[2*r] = k[r][0], k[r][1]
	}
	return p
}

// inGroups calls f on whole groups of random bits: on y and x directly where groups are whole, on a copy where they are cut.
func inGroups(y, x []float32, pos int, f func(y, x *float32, groups int, block uint32)) {
	var whole [random.Group]float32
	for len(y) > 0 {
		block, at := uint32(pos/random.Group*random.Lanes), pos%random.Group
		if groups := len(y) / random.Group; at == 0 && groups > 0 {
			f(&y[0], &x[0], groups, block)
			n := groups * random.Group
			y, x, pos = y[n:], x[n:], pos+n
			continue
		}
		n := copy(whole[at:], x)
		f(&whole[0], &whole[0], 1, block)
		copy(y, whole[at:at+n])
		y, x, pos = y[n:], x[n:], pos+n
	}
}

func dropoutVector(y, x []float32, threshold uint32, scale float32, stream *random.Stream, pos int) {
	schedule := newPhiloxSchedule(stream)
	inGroups(y, x, pos, func(y, x *float32, groups int, block uint32) {
		dropoutGroupsAVX512(y, x, groups, block, &schedule[0], threshold<<16, scale)
	})
}

func roundVector(y, x []float32, r *numerics.Rounding, pos int) {
	switch {
	case r.Format == numerics.TF32:
		roundTF32AVX512(y, x)
	case r.Format == numerics.BF16 && !r.Stochastic:
		roundBF16AVX512(y, x)
	case r.Format == numerics.FP16 && !r.Stochastic:
		roundFP16AVX512(y, x, overflowBits(r.Overflow))
	default:
		schedule := newPhiloxSchedule(&r.Stream)
		over := overflowBits(r.Overflow)
		kernel := roundFP16GroupsAVX512
		if r.Format == numerics.BF16 {
			over, kernel = overflowBits(numerics.Inf), roundBF16GroupsAVX512
		}
		inGroups(y, x, pos, func(y, x *float32, groups int, block uint32) {
			kernel(y, x, groups, block, &schedule[0], over)
		})
	}
}
