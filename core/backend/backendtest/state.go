package backendtest

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
)

func (s *suite) leavesParameters() error {
	return s.with(bert.Pretraining, nil, func(f *fixture, session backend.Session) error {
		before := slices.Clone(f.memory.Params)
		if _, err := f.step(session, 1); err != nil {
			return err
		}
		return sameBits("parameters after a step", f.memory.Params, before)
	})
}

// sameBits reports the first element in which two buffers differ.
func sameBits(what string, got, want []float32) error {
	for i, w := range want {
		if math.Float32bits(got[i]) != math.Float32bits(w) {
			return fmt.Errorf("%s: element %d is %g, want %g to the bit", what, i, got[i], w)
		}
	}
	return nil
}

// trajectory returns parameters and gradients after some steps of training.
func (s *suite) trajectory(steps int) (params, grads []float32, err error) {
	err = s.with(bert.Pretraining, nil, func(f *fixture, session backend.Session) error {
		for step := 1; step <= steps; step++ {
			if _, err := f.descend(session, step, 0.1); err != nil {
				return err
			}
		}
		params, grads = f.memory.Params, f.memory.Grads
		return nil
	})
	return params, grads, err
}

func (s *suite) repeats() error {
	params, grads, err := s.trajectory(2)
	if err != nil {
		return err
	}
	again, gradsAgain, err := s.trajectory(2)
	if err != nil {
		return err
	}
	return errors.Join(sameBits("parameters of a second run", again, params), sameBits("gradients of a second run", gradsAgain, grads))
}

func (s *suite) resumes() error {
	want, _, err := s.trajectory(4)
	if err != nil {
		return err
	}
	var state []byte
	f, err := s.fixture(bert.Pretraining)
	if err != nil {
		return err
	}
	if err := f.run(func(session backend.Session) (err error) {
		for step := 1; step <= 2; step++ {
			if _, err := f.descend(session, step, 0.1); err != nil {
				return err
			}
		}
		state, err = session.Save(s.ctx)
		return err
	}); err != nil {
		return err
	}
	params := slices.Clone(f.memory.Params)
	if err := f.allocate(); err != nil {
		return err
	}
	copy(f.memory.Params, params)
	f.uncommitted = true
	return f.run(func(session backend.Session) error {
		if err := session.Load(s.ctx, state); err != nil {
			return fmt.Errorf("load: %w", err)
		}
		if err := session.Commit(s.ctx, 2); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		for step := 3; step <= 4; step++ {
			if _, err := f.descend(session, step, 0.1); err != nil {
				return err
			}
		}
		return sameBits("parameters of a run that was resumed", f.memory.Params, want)
	})
}

func (s *suite) commits() error {
	return s.with(bert.Pretraining, nil, func(f *fixture, session backend.Session) error {
		if _, err := f.descend(session, 1, 0.1); err != nil {
			return err
		}
		once := slices.Clone(f.memory.Params)
		if err := session.Commit(s.ctx, 1); err != nil {
			return err
		}
		if err := sameBits("parameters after a second commit", f.memory.Params, once); err != nil {
			return err
		}
		if err := session.Commit(s.ctx, 2); err != nil {
			return err
		}
		return sameBits("parameters after a commit without a change", f.memory.Params, once)
	})
}
