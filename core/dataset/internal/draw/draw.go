// Package draw makes random choices for training data from the counter-based streams of core/random. The same seed
// and use give the same choices, independent of draws for other uses.
package draw

import (
	"math"

	"harness.invalid/core/random"
)

// Use separates the choices that one seed makes for different purposes.
type Use uint32

// The uses. The numbers fix the data of every run: append, never renumber.
const (
	HeldOut    Use = iota + 1 // which documents are for evaluation
	Documents                 // order of documents, by duplicate
	Instances                 // segments and masks, by duplicate and block
	Blocks                    // order of blocks, by epoch
	Shuffle                   // order of instances within a block, by epoch and block
	Evaluation                // segments and masks of held-out documents, by block
	Features                  // order of question answering features, by epoch
	World                     // generated world, by part
	Shards                    // shard of a prepared sequence, by block of documents
	Masks                     // of a prepared sequence, by epoch or 0, and sequence
	Packing                   // order of packed rows, by window
)

// Draws is a series of random choices. It is not safe for concurrent use.
type Draws struct {
	stream random.Stream
	words  [4]uint32
	block  uint32 // of the stream that comes next
	left   int    // words of the last block not yet dealt
}

// New returns the choices of a use. Major and minor number them within the use.
func New(seed uint64, u Use, major, minor int) *Draws {
	s := random.New(seed, random.Data)
	s.Step, s.Sample, s.Site = uint32(major), uint32(minor), uint32(u)
	return &Draws{stream: s}
}

// Uint32 returns 32 random bits.
func (d *Draws) Uint32() uint32 {
	if d.left == 0 {
		if d.block == math.MaxUint32 {
			panic("draw: stream exhausted") // after 2^34 words; no use comes near, and wrapping would repeat in silence
		}
		d.words = d.stream.Block(d.block)
		d.block++
		d.left = len(d.words)
	}
	d.left--
	return d.words[len(d.words)-1-d.left]
}

// Float64 returns a number of [0, 1), a multiple of 2^-53.
func (d *Draws) Float64() float64 {
	a, b := d.Uint32()>>5, d.Uint32()>>6
	return float64(uint64(a)<<26|uint64(b)) / (1 << 53)
}

// IntN returns an integer of [0, n), each with the same probability. It panics unless 1 <= n <= 2^32.
//
// Source: Lemire 2019, "Fast random integer generation in an interval" (arXiv:1805.10941).
func (d *Draws) IntN(n int) int {
	if n < 1 || uint64(n) > 1<<32 {
		panic("draw: choice among less than one or more than 2^32")
	}
	bound := uint64(n)
	product := uint64(d.Uint32()) * bound
	if low := product & math.MaxUint32; low < bound {
		for reject := (1 << 32) % bound; low < reject; low = product & math.MaxUint32 {
			product = uint64(d.Uint32()) * bound
		}
	}
	return int(product >> 32)
}

// Shuffle brings n elements into a random order, each order with the same probability (Fisher, Yates).
func (d *Draws) Shuffle(n int, swap func(i, j int)) {
	for i := n - 1; i > 0; i-- {
		swap(i, d.IntN(i+1))
	}
}

// Permutation returns the numbers 0 to n-1 in a random order.
func (d *Draws) Permutation(n int) []int32 {
	p := make([]int32, n)
	for i := range p {
		j := d.IntN(i + 1)
		p[i] = p[j]
		p[j] = int32(i)
	}
	return p
}
