package optimizertest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"harness.invalid/core/optimizer"
)

func (s *suite) moves() error {
	m, err := s.memory()
	if err != nil {
		return err
	}
	before := slices.Clone(m.Params)
	if err := s.steps(m, 1, 3); err != nil {
		return err
	}
	for _, t := range m.Layout.Tensors() {
		old := t.Of(before)
		for i, v := range t.Of(m.Params) {
			if v == old[i] || !finite(v) {
				return fmt.Errorf("%s[%d] went from %g to %g in three steps", t.Name, i, old[i], v)
			}
		}
	}
	return nil
}

func (s *suite) leavesPadding() error {
	m, err := s.memory()
	if err != nil {
		return err
	}
	if err := s.steps(m, 1, 2); err != nil {
		return err
	}
	for i, section := range append([][]float32{m.Params}, m.Slots...) {
		if err := padded(m.Layout, section); err != nil {
			return fmt.Errorf("section %d: %w", i, err)
		}
	}
	return nil
}

func (s *suite) standsStill() (err error) {
	m, err := s.memory()
	if err != nil {
		return err
	}
	session, err := s.o.Open(s.ctx, nil, m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	before := slices.Clone(m.Params)
	_, err = s.update(session, m, optimizer.Step{Step: 1, LR: 0}, func(n int) { fill(m.Layout, m.Grads, n) })
	if err != nil {
		return err
	}
	return differ("parameters", [][]float32{before}, [][]float32{m.Params})
}

func (s *suite) staysFinite() (err error) {
	m, err := s.memory()
	if err != nil {
		return err
	}
	// A parameter that is zero and has no gradient must not become 0/0.
	clear(m.Layout.Tensors()[0].Of(m.Params))
	session, err := s.o.Open(s.ctx, nil, m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	for step := 1; step <= 2; step++ {
		r, err := s.update(session, m, optimizer.Step{Step: step, LR: rate}, func(int) { clear(m.Grads) })
		if err != nil {
			return err
		}
		if r.GradientNorm != 0 {
			return fmt.Errorf("gradient norm %g, want 0", r.GradientNorm)
		}
	}
	for _, section := range append([][]float32{m.Params}, m.Slots...) {
		for i, v := range section {
			if !finite(v) {
				return fmt.Errorf("element %d became %g", i, v)
			}
		}
	}
	return nil
}

func (s *suite) reportsNorm() (err error) {
	m, err := s.memory()
	if err != nil {
		return err
	}
	session, err := s.o.Open(s.ctx, nil, m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	var sum float64 // of the gradients that were set last
	for step := 1; step <= 2; step++ {
		r, err := s.update(session, m, optimizer.Step{Step: step, LR: rate}, func(n int) {
			fill(m.Layout, m.Grads, n)
			sum = 0
			for _, g := range m.Grads {
				sum += float64(g) * float64(g)
			}
		})
		if err != nil {
			return err
		}
		// A float32 sum of 33,000 squares, added pairwise or in lanes, is accurate to a few parts in a million.
		if want := math.Sqrt(sum); !(math.Abs(r.GradientNorm-want) <= 1e-5*want) {
			return fmt.Errorf("step %d: norm %g, want %g", step, r.GradientNorm, want)
		}
	}
	return nil
}

func (s *suite) repeats() error {
	var first [][]float32
	for range 2 {
		m, err := s.memory()
		if err != nil {
			return err
		}
		if err := s.steps(m, 1, 3); err != nil {
			return err
		}
		if first == nil {
			first = snapshot(m)
		} else if err := differ("memory after the same three steps", first, snapshot(m)); err != nil {
			return err
		}
	}
	return nil
}

// keepsNoState restarts halfway: four steps in one session must have the same result as two sessions of two steps.
func (s *suite) keepsNoState() error {
	whole, err := s.memory()
	if err != nil {
		return err
	}
	if err := s.steps(whole, 1, 4); err != nil {
		return err
	}
	halves, err := s.memory()
	if err != nil {
		return err
	}
	if err := errors.Join(s.steps(halves, 1, 2), s.steps(halves, 3, 4)); err != nil {
		return err
	}
	return differ("memory after a restart at step 3", snapshot(whole), snapshot(halves))
}

func (s *suite) servesTwo() (err error) {
	alone, err := s.memory()
	if err != nil {
		return err
	}
	if err := s.steps(alone, 1, 2); err != nil {
		return err
	}
	var memories [2]optimizer.Memory
	var sessions [2]optimizer.Session
	for i := range sessions {
		if memories[i], err = s.memory(); err != nil {
			return err
		}
		session, err := s.o.Open(s.ctx, nil, memories[i])
		if err != nil {
			return fmt.Errorf("open session %d: %w", i+1, err)
		}
		defer func() { err = errors.Join(err, session.Close()) }()
		sessions[i] = session
	}
	for step := 1; step <= 2; step++ {
		for i, session := range sessions {
			if err := s.step(session, memories[i], step); err != nil {
				return err
			}
		}
	}
	for i, m := range memories {
		if err := differ("session "+strconv.Itoa(i+1)+" of two", snapshot(alone), snapshot(m)); err != nil {
			return err
		}
	}
	return nil
}
