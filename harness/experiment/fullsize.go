package experiment

import (
	"context"

	"harness.invalid/harness/estimate"
	"harness.invalid/results/verdict"
)

// fullSize models the recipe's counterpart on the machines of the arms' backends. What can't be modelled is a note.
func (s *Session) fullSize(ctx context.Context) []verdict.FullSize {
	c := s.Recipe.Counterpart
	if c == nil {
		return nil
	}
	var list []verdict.FullSize
	asked := map[string]bool{}
	for _, a := range s.Arms {
		f, named := c.Backends[a.Backend]
		if !named || asked[a.Backend] {
			continue
		}
		asked[a.Backend] = true
		m, err := estimate.FullSize(ctx, a.Backend, c.Doc, f)
		if err != nil {
			s.Observe.note("%s on %s is not modelled: %v", c.Doc, a.Backend, err)
			continue
		}
		list = append(list, m)
	}
	return list
}
