//go:build !noasm

package kernels

import (
	"math"
	"math/bits"

	"harness.invalid/core/numerics"
	"harness.invalid/core/random"
)

// philoxSchedule is what the generator xors into its state, from round 1 on: the round keys, and the part of rounds
// 1 to 3 that does not depend on the number of the block. The other words of the counter are the same for a whole
// stream.
type philoxSchedule [13]uint32

func newPhiloxSchedule(s *random.Stream) philoxSchedule {
	const w0, w1 = random.PhiloxW0, random.PhiloxW1
	k0, k1 := s.Key[0], s.Key[1]
	// Counter words: block, Sample, Step, Site. After round 1 the words 0 and 1 are known, after round 2 the word 3.
	hi1, word1 := bits.Mul32(random.PhiloxM1, s.Step)
	hi0, word3 := bits.Mul32(random.PhiloxM0, hi1^s.Sample^k0)
	return philoxSchedule{
		s.Site ^ k1, word1 ^ (k0 + w0), hi0 ^ (k1 + w1), k0 + 2*w0&math.MaxUint32, word3 ^ (k1 + 2*w1&math.MaxUint32),
		k0 + 3*w0&math.MaxUint32, k1 + 3*w1&math.MaxUint32, k0 + 4*w0&math.MaxUint32, k1 + 4*w1&math.MaxUint32,
		k0 + 5*w0&math.MaxUint32, k1 + 5*w1&math.MaxUint32, k0 + 6*w0&math.MaxUint32, k1 + 6*w1&math.MaxUint32,
	}
}

// firstBits returns where the random bits of a position are: at element at of the group that begins with block.
func firstBits(pos int) (block uint32, at int) {
	return uint32(pos / random.Group * random.Lanes), pos % random.Group
}

// Kernels are called by name. Called through a variable, the compiler would move their arguments to the heap.

func dropoutAVX512(y, x []float32, threshold uint32, scale float32, stream random.Stream, pos int) {
	if len(y) == 0 {
		return
	}
	schedule := newPhiloxSchedule(&stream)
	block, at := firstBits(pos)
	dropoutSpanAVX512(&y[0], &x[0], len(y), at, block, &schedule[0], threshold<<16, scale)
}

func roundAVX512(y, x []float32, r numerics.Rounding, pos int) (large bool) {
	switch {
	case len(y) == 0:
		return false
	case r.Format == numerics.TF32:
		roundTF32AVX512(y, x)
	case r.Stochastic:
		schedule := newPhiloxSchedule(&r.Stream)
		block, at := firstBits(pos)
		if r.Format == numerics.BF16 {
			return roundBF16SpanAVX512(&y[0], &x[0], len(y), at, block, &schedule[0], overflowBits(numerics.Inf)) != 0
		}
		return roundFP16SpanAVX512(&y[0], &x[0], len(y), at, block, &schedule[0], overflowBits(r.Overflow)) != 0
	case r.Format == numerics.FP16:
		return roundFP16AVX512(y, x, overflowBits(r.Overflow)) != 0
	default:
		roundBF16AVX512(y, x)
	}
	return true
}

// portion says where the random bits of the next elements are: in a number of whole groups, or in part of one, n
// elements from its element at on. block is the first block of the first group.
func portion(length, pos int) (n, groups, at int, block uint32) {
	block, at = firstBits(pos)
	if groups = length / random.Group; at == 0 && groups > 0 {
		return groups * random.Group, groups, 0, block
	}
	return min(length, random.Group-at), 0, at, block
}

func dropoutAVX2(y, x []float32, threshold uint32, scale float32, stream random.Stream, pos int) {
	schedule := newPhiloxSchedule(&stream)
	for len(y) > 0 {
		n, groups, at, block := portion(len(y), pos)
		if groups > 0 {
			dropoutGroupsAVX2(&y[0], &x[0], groups, block, &schedule[0], threshold<<16, scale)
		} else {
			dropoutCutAVX2(y[:n], x[:n], at, block, &schedule, threshold, scale)
		}
		y, x, pos = y[n:], x[n:], pos+n
	}
}

// dropoutCutAVX2 applies dropout to part of a group, from its element at on. It is a separate function because
// clearing a group's buffer costs as much as dropping from it.
//
//go:noinline
func dropoutCutAVX2(y, x []float32, at int, block uint32, schedule *philoxSchedule, threshold uint32, scale float32) {
	var whole [random.Group]float32
	copy(whole[at:], x)
	dropoutGroupsAVX2(&whole[0], &whole[0], 1, block, &schedule[0], threshold<<16, scale)
	copy(y, whole[at:])
}

func roundAVX2(y, x []float32, r numerics.Rounding, pos int) (large bool) {
	switch {
	case r.Format == numerics.TF32:
		roundTF32AVX2(y, x)
	case r.Stochastic:
		return roundStochasticAVX2(y, x, &r, pos) != 0
	case r.Format == numerics.FP16:
		return roundFP16AVX2(y, x, overflowBits(r.Overflow)) != 0
	default:
		roundBF16AVX2(y, x)
	}
	return true
}

func roundStochasticAVX2(y, x []float32, r *numerics.Rounding, pos int) (large uint32) {
	schedule := newPhiloxSchedule(&r.Stream)
	for len(y) > 0 {
		n, groups, at, block := portion(len(y), pos)
		if groups > 0 {
			large |= roundGroupsAVX2(&y[0], &x[0], groups, block, &schedule, r)
		} else {
			large |= roundCutAVX2(y[:n], x[:n], at, block, &schedule, r)
		}
		y, x, pos = y[n:], x[n:], pos+n
	}
	return large
}

// roundCutAVX2 rounds part of a group, like dropoutCutAVX2.
//
//go:noinline
func roundCutAVX2(y, x []float32, at int, block uint32, schedule *philoxSchedule, r *numerics.Rounding) (large uint32) {
	var whole [random.Group]float32
	copy(whole[at:], x)
	large = roundGroupsAVX2(&whole[0], &whole[0], 1, block, schedule, r)
	copy(y, whole[at:])
	return large
}

func roundGroupsAVX2(y, x *float32, groups int, block uint32, schedule *philoxSchedule, r *numerics.Rounding) (large uint32) {
	if r.Format == numerics.BF16 {
		return roundBF16GroupsAVX2(y, x, groups, block, &schedule[0], overflowBits(numerics.Inf))
	}
	return roundFP16GroupsAVX2(y, x, groups, block, &schedule[0], overflowBits(r.Overflow))
}
