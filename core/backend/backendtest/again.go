package backendtest

import (
	"errors"
	"fmt"
	"slices"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
)

// computesAgain computes a second gradient of a batch at other parameters, and compares it with that of a session
// that never saw the first ones.
func (s *suite) computesAgain() error {
	var state []byte
	var params, grads []float32
	err := s.with(bert.Pretraining, nil, func(f *fixture, session backend.Session) (err error) {
		if _, err := f.step(session, 1); err != nil {
			return err
		}
		first := slices.Clone(f.memory.Grads)
		if state, err = session.Save(s.ctx); err != nil {
			return err
		}
		for _, t := range f.memory.Layout.Tensors() {
			for i := range t.Of(f.memory.Params) {
				f.memory.Params[t.Offset+i] += 0.01
			}
		}
		if err := session.Commit(s.ctx, 1); err != nil {
			return err
		}
		params = slices.Clone(f.memory.Params)
		if _, err := f.step(session, 1); err != nil {
			return fmt.Errorf("a second time: %w", err)
		}
		if grads = f.memory.Grads; slices.Equal(grads, first) {
			return errors.New("the gradient at other parameters is the same")
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.with(bert.Pretraining, func(f *fixture) error {
		copy(f.memory.Params, params)
		f.uncommitted = true
		return nil
	}, func(f *fixture, session backend.Session) error {
		if err := errors.Join(session.Load(s.ctx, state), session.Commit(s.ctx, 1)); err != nil {
			return err
		}
		if _, err := f.step(session, 1); err != nil {
			return err
		}
		return sameBits("second gradient", grads, f.memory.Grads)
	})
}
