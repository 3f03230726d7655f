package dataset

import (
	"fmt"

	"harness.invalid/core/bert"
	"harness.invalid/core/dataset/internal/draw"
)

// Shuffled deals the items of a finite set endlessly. Each epoch has all of them in an order that depends on seed
// and epoch. A batch may begin in one epoch and end in the next.
type Shuffled struct {
	items    int
	batch    int
	seed     uint64
	deal     func(which []int32) *bert.Batch
	position Position
	order    []int32 // of the position's epoch; nil: not yet made
}

var _ Source = (*Shuffled)(nil)

// NewShuffled returns a source at the beginning of the given number of items; deal makes a batch of some of them.
func NewShuffled(items, batch int, seed uint64, deal func(which []int32) *bert.Batch) (*Shuffled, error) {
	if items < 1 {
		return nil, fmt.Errorf("a set of %d items, want at least 1", items)
	}
	if batch < 1 {
		return nil, fmt.Errorf("a batch of %d sequences, want at least 1", batch)
	}
	return &Shuffled{items: items, batch: batch, seed: seed, deal: deal}, nil
}

// Position says where Next continues.
func (s *Shuffled) Position() Position { return s.position }

// Seek goes to a position.
func (s *Shuffled) Seek(p Position) error {
	if p.Epoch < 0 || p.Block != 0 || p.Index < 0 || p.Index > s.items {
		return fmt.Errorf("position %+v is not from a set of %d items", p, s.items)
	}
	s.position, s.order = p, nil
	return nil
}

// Next returns the next global batch. The error is always nil.
func (s *Shuffled) Next() (*bert.Batch, error) {
	which := make([]int32, s.batch)
	for i := range which {
		if s.position.Index == s.items {
			s.position = Position{Epoch: s.position.Epoch + 1}
			s.order = nil
		}
		if s.order == nil {
			s.order = draw.New(s.seed, draw.Features, s.position.Epoch, 0).Permutation(s.items)
		}
		which[i] = s.order[s.position.Index]
		s.position.Index++
	}
	return s.deal(which), nil
}
