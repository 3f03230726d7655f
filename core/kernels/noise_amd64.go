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

// portion says how the next elements at a position lie in the groups of random bits: groups that are whole, or the n elements of a group that is cut,
// which begin at its element at. block is the first block of the first group.
func portion(length, pos int) (n, groups, at int, block uint32) {
	block, at = uint32(pos/random.Group*random.Lanes), pos%random.Group
	if groups = length / random.Group; at == 0 && groups > 0 {
		return groups * random.Group, groups, 0, block
	}
	return min(length, random.Group-at), 0, at, block
}

func dropoutVector(y, x []float32, threshold uint32, scale float32, stream random.Stream, pos int) {
	schedule := newPhiloxSchedule(&stream)
	var whole [random.Group]float32 // for groups that are cut
	for len(y) > 0 {
		n, groups, at, block := portion(len(y), pos)
		if groups > 0 {
			dropoutGroupsAVX512(&y[0], &x[0], groups, block, &schedule[0], threshold<<16, scale)
		} else {
			copy(whole[at:], x[:n])
			dropoutGroupsAVX512(&whole[0], &whole[0], 1, block, &schedule[0], threshold<<16, scale)
			copy(y, whole[at:at+n])
		}
		y, x, pos = y[n:], x[n:], pos+n
	}
}

func roundVector(y, x []float32, r numerics.Rounding, pos int) {
	switch {
	case r.Format == numerics.TF32:
		roundTF32AVX512(y, x)
	case r.Format == numerics.BF16 && !r.Stochastic:
		roundBF16AVX512(y, x)
	case r.Format == numerics.FP16 && !r.Stochastic:
		roundFP16AVX512(y, x, overflowBits(r.Overflow))
	default:
		roundStochastic(y, x, r, pos)
	}
}

func roundStochastic(y, x []float32, r numerics.Rounding, pos int) {
	schedule := newPhiloxSchedule(&r.Stream)
	var whole [random.Group]float32 // for groups that are cut
	for len(y) > 0 {
		n, groups, at, block := portion(len(y), pos)
		if groups > 0 {
			roundGroups(&y[0], &x[0], groups, block, &schedule, &r)
		} else {
			copy(whole[at:], x[:n])
			roundGroups(&whole[0], &whole[0], 1, block, &schedule, &r)
			copy(y, whole[at:at+n])
		}
		y, x, pos = y[n:], x[n:], pos+n
	}
}

// roundGroups calls its kernels by name: through a variable the compiler would move their arguments to the heap.
func roundGroups(y, x *float32, groups int, block uint32, schedule *philoxSchedule, r *numerics.Rounding) {
	if r.Format == numerics.BF16 {
		roundBF16GroupsAVX512(y, x, groups, block, &schedule[0], overflowBits(numerics.Inf))
	} else {
		roundFP16GroupsAVX512(y, x, groups, block, &schedule[0], overflowBits(r.Overflow))
	}
}
