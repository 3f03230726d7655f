package optimizertest

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"harness.invalid/core/optimizer"
	"harness.invalid/core/tensor"
)

func (s *suite) describes() error {
	info, err := s.o.Describe(s.ctx)
	if err != nil {
		return err
	}
	if info.Name == "" || info.Version == "" || info.Doc == "" {
		return fmt.Errorf("name %q, version %q, doc %q, want none of them empty", info.Name, info.Version, info.Doc)
	}
	seen := map[string]bool{}
	for _, o := range info.Options {
		if o.Name == "" || seen[o.Name] || o.Doc == "" {
			return fmt.Errorf("option %q with doc %q, want unique names and a line about each", o.Name, o.Doc)
		}
		seen[o.Name] = true
	}
	return nil
}

func (s *suite) namesSlots() error {
	slots, err := s.o.Slots(s.ctx, nil)
	if err != nil {
		return err
	}
	for i, name := range slots {
		if name == "" || slices.Contains(slots[:i], name) {
			return fmt.Errorf("slots %q, want names that are unique and not empty", slots)
		}
	}
	return nil
}

func (s *suite) takesDefaults() error {
	info, err := s.o.Describe(s.ctx)
	if err != nil {
		return err
	}
	defaults := map[string]string{}
	for _, o := range info.Options {
		defaults[o.Name] = o.Default
	}
	given, err := s.o.Slots(s.ctx, defaults)
	if err != nil {
		return fmt.Errorf("slots with every option at its default: %w", err)
	}
	left, err := s.o.Slots(s.ctx, nil)
	if err != nil {
		return err
	}
	if !slices.Equal(given, left) {
		return fmt.Errorf("slots are %q with defaults given and %q without", given, left)
	}
	return nil
}

func (s *suite) refusesUnknownOption() error {
	unknown := map[string]string{"no_such_option": "1"}
	if _, err := s.o.Slots(s.ctx, unknown); err == nil {
		return errors.New("slots took it")
	}
	m, err := s.memory()
	if err != nil {
		return err
	}
	if session, err := s.o.Open(s.ctx, unknown, m); err == nil {
		return errors.Join(errors.New("open took it"), session.Close())
	}
	return nil
}

func (s *suite) refusesWrongMemory() error {
	for _, wrong := range []struct {
		what   string
		change func(*optimizer.Memory)
	}{
		{"short params", func(m *optimizer.Memory) { m.Params = m.Params[1:] }},
		{"short grads", func(m *optimizer.Memory) { m.Grads = m.Grads[:len(m.Grads)-tensor.Align] }},
		{"a slot too many", func(m *optimizer.Memory) { m.Slots = append(m.Slots, make([]float32, len(m.Params))) }},
		{"a short slot", func(m *optimizer.Memory) {
			if n := len(m.Slots); n > 0 {
				m.Slots[n-1] = m.Slots[n-1][1:]
			} else {
				m.Params = nil
			}
		}},
	} {
		m, err := s.memory()
		if err != nil {
			return err
		}
		wrong.change(&m)
		if session, err := s.o.Open(s.ctx, nil, m); err == nil {
			return errors.Join(fmt.Errorf("open took %s", wrong.what), session.Close())
		}
	}
	return nil
}

func (s *suite) refusesWrongStep() (err error) {
	m, err := s.memory()
	if err != nil {
		return err
	}
	session, err := s.o.Open(s.ctx, nil, m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	before := snapshot(m)
	for _, step := range []optimizer.Step{
		{Step: 0, LR: rate}, {Step: 1, LR: math.NaN()}, {Step: 1, LR: math.Inf(1)}, {Step: 1, LR: -rate},
		{Step: 1, LR: rate, GradientNorm: math.NaN()}, {Step: 1, LR: rate, GradientNorm: math.Inf(1)}, {Step: 1, LR: rate, GradientNorm: -1},
	} {
		if _, err := session.Step(s.ctx, step); err == nil {
			return fmt.Errorf("took step %d with learning rate %g and gradient norm %g", step.Step, step.LR, step.GradientNorm)
		}
	}
	return differ("memory after refused steps", before, snapshot(m))
}
