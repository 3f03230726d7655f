package squad

import (
	"fmt"

	"harness.invalid/core/bert"
	"harness.invalid/core/dataset"
	"harness.invalid/core/dataset/internal/draw"
)

// Source deals the features of a training set without end: each epoch has all of them in an order of its own, which is a function of seed and
// epoch. A batch may begin in one epoch and end in the next.
type Source struct {
	set      *Set
	batch    int
	seed     uint64
	position dataset.Position
	order    []int32 // of the position's epoch; nil: not yet made
}

var _ dataset.Source = (*Source)(nil)

// NewSource returns a Source at the beginning that deals batches of a given size.
func NewSource(s *Set, batch int, seed uint64) (*Source, error) {
	if !s.training {
		return nil, fmt.Errorf("squad %s: the set was made for evaluation and has no labels", s.data.Name)
	}
	if batch < 1 {
		return nil, fmt.Errorf("squad: a batch of %d sequences, want at least 1", batch)
	}
	return &Source{set: s, batch: batch, seed: seed}, nil
}

// Position says where Next goes on.
func (s *Source) Position() dataset.Position { return s.position }

// Seek goes to a position.
func (s *Source) Seek(p dataset.Position) error {
	if p.Epoch < 0 || p.Block != 0 || p.Index < 0 || p.Index > s.set.Len() {
		return fmt.Errorf("squad: position %+v is not from a set of %d features", p, s.set.Len())
	}
	s.position, s.order = p, nil
	return nil
}

// Next returns the next global batch. The error is always nil.
func (s *Source) Next() (*bert.Batch, error) {
	which := make([]int32, s.batch)
	for i := range which {
		if s.position.Index == s.set.Len() {
			s.position = dataset.Position{Epoch: s.position.Epoch + 1}
			s.order = nil
		}
		if s.order == nil {
			s.order = draw.New(s.seed, draw.Features, s.position.Epoch, 0).Permutation(s.set.Len())
		}
		which[i] = s.order[s.position.Index]
		s.position.Index++
	}
	return s.set.batch(which), nil
}
