package optimizertest

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"harness.invalid/core/optimizer"
)

// open opens a session over new memory after a number of steps.
func (s *suite) open(steps int) (optimizer.Memory, optimizer.Session, error) {
	m, err := s.memory()
	if err == nil && steps > 0 {
		err = s.steps(m, 1, steps)
	}
	if err != nil {
		return m, nil, err
	}
	session, err := s.o.Open(s.ctx, nil, m)
	if err != nil {
		return m, nil, fmt.Errorf("open: %w", err)
	}
	return m, session, nil
}

// elsewhere checks the parameters that a probe or an average left against the earlier ones.
func elsewhere(m optimizer.Memory, before []float32) error {
	for _, t := range m.Layout.Tensors() {
		for i, v := range t.Of(m.Params) {
			if !finite(v) {
				return fmt.Errorf("%s[%d] became %g", t.Name, i, v)
			}
		}
	}
	if slices.Equal(m.Params, before) {
		return errors.New("no parameter changed: the call is not needed")
	}
	return padded(m.Layout, m.Params)
}

// probes: a gradient moves the parameters, and the same gradient moves them to the same place.
func (s *suite) probes() error {
	var first []float32
	for range 2 {
		err := func() (err error) {
			m, session, err := s.open(2)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, session.Close()) }()
			before := slices.Clone(m.Params)
			fill(m.Layout, m.Grads, 3)
			if err := s.probe(session, optimizer.Step{Step: 3, LR: rate}); err != nil {
				return err
			}
			if err := elsewhere(m, before); err != nil {
				return err
			}
			if first == nil {
				first = slices.Clone(m.Params)
			}
			return differ("parameters of the same probe", [][]float32{first}, [][]float32{m.Params})
		}()
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *suite) refusesWrongProbe() (err error) {
	m, session, err := s.open(0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	before := snapshot(m)
	for _, step := range []optimizer.Step{{Step: 0, LR: rate}, {Step: 1, LR: math.NaN()}} {
		if s.probe(session, step) == nil {
			return fmt.Errorf("took step %d with learning rate %g", step.Step, step.LR)
		}
	}
	return differ("memory after refused probes", before, snapshot(m))
}

// probesAgain probes twice for one step, first with other gradients: what the first probe left must not matter.
func (s *suite) probesAgain() (err error) {
	want, err := s.memory()
	if err != nil {
		return err
	}
	if err := s.steps(want, 1, 3); err != nil {
		return err
	}
	m, session, err := s.open(2)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	before := slices.Clone(m.Params)
	fill(m.Layout, m.Grads, 7)
	if err := s.probe(session, optimizer.Step{Step: 3, LR: rate}); err != nil {
		return err
	}
	copy(m.Params, before)
	if err := s.step(session, m, 3); err != nil {
		return err
	}
	return differ("memory after a step with an extra probe", snapshot(want), snapshot(m))
}

// restartsAfterProbe continues in another session between a probe and its step.
func (s *suite) restartsAfterProbe() (err error) {
	want, err := s.memory()
	if err != nil {
		return err
	}
	if err := s.steps(want, 1, 1); err != nil {
		return err
	}
	m, session, err := s.open(0)
	if err != nil {
		return err
	}
	before := slices.Clone(m.Params)
	fill(m.Layout, m.Grads, 1)
	if err := errors.Join(s.probe(session, optimizer.Step{Step: 1, LR: rate}), session.Close()); err != nil {
		return err
	}
	copy(m.Params, before)
	fill(m.Layout, m.Grads, 1+second)
	if session, err = s.o.Open(s.ctx, nil, m); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	if _, err := session.Step(s.ctx, optimizer.Step{Step: 1, LR: rate}); err != nil {
		return err
	}
	return differ("memory after a restart between probe and step", snapshot(want), snapshot(m))
}

// averages: after some steps the model's parameters differ from those of training, and the slots are unchanged.
func (s *suite) averages() (err error) {
	m, session, err := s.open(3)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	before := snapshot(m)
	if err := s.average(session, 3); err != nil {
		return err
	}
	if err := elsewhere(m, before[0]); err != nil {
		return err
	}
	return differ("slots after an average", before[1:], snapshot(m)[1:])
}

func (s *suite) refusesWrongAverage() (err error) {
	m, session, err := s.open(0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	before := snapshot(m)
	if s.average(session, 0) == nil {
		return errors.New("took an average after 0 steps")
	}
	return differ("memory after a refused average", before, snapshot(m))
}

// averagesAside asks for an average after every step.
func (s *suite) averagesAside() (err error) {
	want, err := s.memory()
	if err != nil {
		return err
	}
	if err := s.steps(want, 1, 3); err != nil {
		return err
	}
	m, session, err := s.open(0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	for step := 1; step <= 3; step++ {
		if err := s.step(session, m, step); err != nil {
			return err
		}
		before := slices.Clone(m.Params)
		if err := s.average(session, step); err != nil {
			return err
		}
		copy(m.Params, before)
	}
	return differ("memory after three steps with averages between", snapshot(want), snapshot(m))
}
