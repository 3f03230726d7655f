package processes

import (
	"context"
	"errors"

	"harness.invalid/core/arena"
	"harness.invalid/core/backend"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
	"harness.invalid/core/tensor"
	"harness.invalid/harness/train"
)

// Set has the plugins of one run, a backend and the optimizers that its phases ask for, and the memory that they
// share with the host.
type Set struct {
	options Options
	name    string // of the backend
	arena   *arena.Arena
	region  *arena.Region // nil: nothing is allocated
	backend *host.Process // nil: none was asked for
	rules   map[string]*host.Process
}

var _ train.Restarter = (*Set)(nil)

// NewSet starts a backend; optimizers are started when a phase asks for them. The set has an arena of its own. If no
// backend is named, the set serves optimizers alone.
func NewSet(ctx context.Context, backend string, o Options) (*Set, error) {
	a, err := arena.New()
	if err != nil {
		return nil, err
	}
	o.Arena = a
	s := &Set{options: o, name: backend, arena: a, rules: map[string]*host.Process{}}
	if backend == "" {
		return s, nil
	}
	if s.backend, err = Launch(ctx, plugin.Backend, backend, o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Backend implements train.Plugins.
func (s *Set) Backend() backend.Backend { return s.backend.Backend() }

// Transport is how tensors reach the backend: by streams where the system can't share memory, whatever was asked for.
func (s *Set) Transport() host.Transport { return s.backend.Transport() }

// Optimizer implements train.Plugins.
func (s *Set) Optimizer(ctx context.Context, name string) (optimizer.Optimizer, error) {
	p, err := s.rule(ctx, name)
	if err != nil {
		return nil, err
	}
	return p.Optimizer(), nil
}

func (s *Set) rule(ctx context.Context, name string) (*host.Process, error) {
	if p, ok := s.rules[name]; ok {
		return p, nil
	}
	p, err := Launch(ctx, plugin.Optimizer, name, s.options)
	if err != nil {
		return nil, err
	}
	s.rules[name] = p
	return p, nil
}

// Allocate implements train.Plugins.
func (s *Set) Allocate(l *tensor.Layout, slots int) (train.Memory, error) {
	if s.region != nil {
		if err := s.region.Close(); err != nil {
			return train.Memory{}, err
		}
		s.region = nil
	}
	r, err := s.arena.Allocate(l, 2+slots)
	if err != nil {
		return train.Memory{}, err
	}
	s.region = r
	return train.Memory{Layout: l, Params: r.Params(), Grads: r.Grads(), Slots: r.Slots()}, nil
}

// Restart implements train.Restarter. What the host keeps in shared memory stays.
func (s *Set) Restart(ctx context.Context) (err error) {
	_ = s.endAll() // whatever a dead one says of its end
	clear(s.rules)
	if s.name == "" {
		return nil
	}
	s.backend, err = Launch(ctx, plugin.Backend, s.name, s.options)
	return err
}

// endAll ends the plugins.
func (s *Set) endAll() error {
	var errs []error
	if s.backend != nil {
		errs = append(errs, s.backend.Close())
		s.backend = nil
	}
	for _, p := range s.rules {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// Exited reports whether any of the plugins has exited.
func (s *Set) Exited() bool {
	exited := s.name != "" && (s.backend == nil || s.backend.Exited())
	for _, p := range s.rules {
		exited = exited || p.Exited()
	}
	return exited
}

// Close ends the plugins and frees the memory.
func (s *Set) Close() error {
	errs := []error{s.endAll()}
	if s.region != nil {
		errs = append(errs, s.region.Close())
	}
	return errors.Join(append(errs, s.arena.Close())...)
}
