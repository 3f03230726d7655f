// Package random draws random numbers from counters instead of state: every draw is a pure function of (seed,
// purpose, step, sample, site, position). The result is the same in any order, on any thread, before and after a
// restart. A Stream goes in with its fields set, bits and numbers come out.
//
// The generator is Philox4x32-7 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011), the fewest rounds for which the authors found no failure in BigCrush. core/kernels draws from the same
// streams with vector instructions; the functions here are the specification. Sums that are rounded in registers have
// time for less: see Grid.
package random

import "math/bits"

// Purpose keeps the streams of one seed apart by what they are for.
type Purpose uint32

// The purposes. The numbers fix the bits of every run: append, never renumber.
const (
	Init     Purpose = iota + 1 // initial parameters
	Dropout                     // dropout masks
	Rounding                    // stochastic rounding
	Data                        // order of samples, masks, generated text
)

// Stream is a sequence of random bits. Streams with different fields are independent.
type Stream struct {
	Key    [2]uint32 // from the seed and the purpose: see New
	Step   uint32    // optimizer step
	Sample uint32    // sample within the global batch, or another index of the work
	Site   uint32    // place in the model, see bert.Site, or another number for the use
}

// New returns the stream of a seed and a purpose; the caller sets Step, Sample and Site.
func New(seed uint64, p Purpose) Stream {
	// One round of SplitMix64's finalizer spreads seeds that differ in few bits over the whole key (Steele, Lea, Flood
	// 2014).
	z := seed + uint64(p)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return Stream{Key: [2]uint32{uint32(z), uint32(z >> 32)}}
}

// Philox constants, Salmon et al. 2011, table 2 and section 4.3.
const (
	PhiloxM0 = 0xd2511f53
	PhiloxM1 = 0xcd9e8d57
	PhiloxW0 = 0x9e3779b9 // golden ratio
	PhiloxW1 = 0xbb67ae85 // sqrt(3) - 1
	// Rounds of the generator.
	Rounds = 7
)

// Block returns 128 random bits: the i-th block of the stream.
func (s Stream) Block(i uint32) [4]uint32 {
	return philox(Rounds, s.Key, [4]uint32{i, s.Sample, s.Step, s.Site})
}

func philox(rounds int, key [2]uint32, ctr [4]uint32) [4]uint32 {
	k0, k1 := key[0], key[1]
	c0, c1, c2, c3 := ctr[0], ctr[1], ctr[2], ctr[3]
	for range rounds {
		hi0, lo0 := bits.Mul32(PhiloxM0, c0)
		hi1, lo1 := bits.Mul32(PhiloxM1, c2)
		c0, c1, c2, c3 = hi1^c1^k0, lo1, hi0^c3^k1, lo0
		k0 += PhiloxW0
		k1 += PhiloxW1
	}
	return [4]uint32{c0, c1, c2, c3}
}

// Lanes and Group define the order in which the elements of a buffer get a stream's bits: 16 blocks make a
// group of 128 elements with 16 bits each, so that a vector of 16 lanes never needs a shuffle.
const (
	Lanes = 16
	Group = 128
)

// Uint16 returns the 16 bits that belong to element i of a buffer. With g = i/128, o = i%128 they are the half
// o/16%2 (0: the low one) of word o/32 of block 16·g + o%16.
func (s Stream) Uint16(i int) uint16 {
	g, o := i/Group, i%Group
	w := s.Block(uint32(g*Lanes + o%Lanes))[o/(2*Lanes)]
	return uint16(w >> (16 * (o / Lanes % 2)))
}

// Uint16s fills dst with the bits of elements i, i+1, ...: the same as Uint16 one by one, at an eighth of the cost.
func (s Stream) Uint16s(dst []uint16, i int) {
	for len(dst) > 0 {
		g, o := i/Group, i%Group
		n := min(Group-o, len(dst))
		for lane := range min(Lanes, n+o) {
			b := s.Block(uint32(g*Lanes + lane))
			for j := lane; j < o+n; j += Lanes {
				if j >= o {
					dst[j-o] = uint16(b[j/(2*Lanes)] >> (16 * (j / Lanes % 2)))
				}
			}
		}
		dst, i = dst[n:], i+n
	}
}

// Source returns the words of one stream in turn, as a math/rand/v2.Source for shuffles and choices. Its whole
// state is Position.
type Source struct {
	Stream   Stream
	Position uint64 // number of values drawn so far

	second uint64 // value of the block that was drawn last
	at     uint64 // position of second, which is odd; 0: there is none
}

// Uint64 returns the next 64 bits. Each block gives two values.
func (s *Source) Uint64() uint64 {
	// After 2^33 values the block number exceeds the 32-bit counter. No use comes near; wrapping would silently repeat
	// values.
	if s.Position >= 1<<33 {
		panic("random: source exhausted")
	}
	position := s.Position
	s.Position++
	if position == s.at && s.at != 0 {
		return s.second
	}
	b := s.Stream.Block(uint32(position / 2))
	first, second := uint64(b[0])|uint64(b[1])<<32, uint64(b[2])|uint64(b[3])<<32
	if position%2 == 1 {
		return second
	}
	s.second, s.at = second, position+1
	return first
}
