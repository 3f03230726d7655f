// Package mt19937 is Python's random.Random: the Mersenne Twister with CPython's way of seeding it and of making
// numbers, choices and shuffles from its words. Reference programs in Python draw their data with it, and equal
// data needs equal draws. The project's own code draws from core/random.
//
// Sources: Matsumoto, Nishimura 1998, "Mersenne Twister: a 623-dimensionally equidistributed uniform pseudorandom
// number generator", and their mt19937ar.c; CPython 3, Modules/_randommodule.c and Lib/random.py.
package mt19937

import (
	"math/bits"
)

// Parameters of MT19937, from the paper's table II.
const (
	words     = 624        // degree of recurrence, n
	middle    = 397        // m
	matrix    = 0x9908b0df // last row of the twist matrix A
	upperMask = 0x80000000 // most significant w-r bits
	lowerMask = 0x7fffffff // least significant r bits
)

// Random gives the same numbers as Python's random.Random. It is not safe for concurrent use.
type Random struct {
	state [words]uint32
	next  int // index of the next word of state to be dealt
}

// New returns the generator that random.Random(seed) is in Python. As there, the sign of the seed does not matter.
func New(seed int64) *Random {
	magnitude := uint64(seed)
	if seed < 0 {
		magnitude = -magnitude
	}
	// The key is the seed's 32-bit digits, least significant first, without leading zeros but at least one (random_seed).
	key := []uint32{uint32(magnitude)}
	if high := uint32(magnitude >> 32); high != 0 {
		key = append(key, high)
	}
	r := new(Random)
	r.seedByArray(key)
	return r
}

// seedByArray is init_by_array of mt19937ar.c.
func (r *Random) seedByArray(key []uint32) {
	s := &r.state
	s[0] = 19650218
	for i := uint32(1); i < words; i++ {
		s[i] = 1812433253*(s[i-1]^s[i-1]>>30) + i
	}
	i, j := 1, 0
	for range max(words, len(key)) {
		s[i] = (s[i] ^ (s[i-1]^s[i-1]>>30)*1664525) + key[j] + uint32(j)
		if i++; i == words {
			s[0] = s[words-1]
			i = 1
		}
		if j++; j == len(key) {
			j = 0
		}
	}
	for range words - 1 {
		s[i] = (s[i] ^ (s[i-1]^s[i-1]>>30)*1566083941) - uint32(i)
		if i++; i == words {
			s[0] = s[words-1]
			i = 1
		}
	}
	s[0] = upperMask // the state is never all zeros
	r.next = words
}

// Uint32 returns the next word of the generator: getrandbits(32).
func (r *Random) Uint32() uint32 {
	if r.next == words {
		r.twist()
	}
	y := r.state[r.next]
	r.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

func (r *Random) twist() {
	s := &r.state
	for i := range s {
		y := s[i]&upperMask | s[(i+1)%words]&lowerMask
		s[i] = s[(i+middle)%words] ^ y>>1 ^ y&1*matrix
	}
	r.next = 0
}

// Float64 returns the next number of [0, 1), a multiple of 2^-53: Python's random().
func (r *Random) Float64() float64 {
	a, b := r.Uint32()>>5, r.Uint32()>>6
	return float64(uint64(a)<<26|uint64(b)) / (1 << 53)
}

// Bits returns k random bits, 0 <= k <= 64: getrandbits(k).
func (r *Random) Bits(k int) uint64 {
	switch {
	case k < 0 || k > 64:
		panic("mt19937: number of bits is not within 0 to 64")
	case k == 0:
		return 0
	case k <= 32:
		return uint64(r.Uint32() >> (32 - k))
	}
	low := uint64(r.Uint32())
	return uint64(r.Uint32()>>(64-k))<<32 | low
}

// IntN returns an integer of [0, n): Python's randrange(n). It panics when n < 1.
func (r *Random) IntN(n int) int {
	if n < 1 {
		panic("mt19937: choice among less than one")
	}
	// _randbelow_with_getrandbits of Python 3.2 and later; Python 2 multiplied random() by n instead.
	k := bits.Len(uint(n))
	for {
		if v := r.Bits(k); v < uint64(n) {
			return int(v)
		}
	}
}

// Shuffle exchanges elements as Python's shuffle(x) does for a list of n elements.
func (r *Random) Shuffle(n int, swap func(i, j int)) {
	for i := n - 1; i > 0; i-- {
		swap(i, r.IntN(i+1))
	}
}
