package squad

import (
	"fmt"

	"harness.invalid/core/dataset"
)

// NewSource returns a source of the features of a training set, at its beginning, that deals batches of a given size.
func NewSource(s *Set, batch int, seed uint64) (*dataset.Shuffled, error) {
	if !s.training {
		return nil, fmt.Errorf("squad %s: the set was made for evaluation and has no labels", s.data.Name)
	}
	source, err := dataset.NewShuffled(s.Len(), batch, seed, s.batch)
	if err != nil {
		return nil, fmt.Errorf("squad %s: %w", s.data.Name, err)
	}
	return source, nil
}
