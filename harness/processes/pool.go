package processes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"harness.invalid/core/backend"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/catalog"
	"harness.invalid/harness/train"
	"harness.invalid/results"
)

// Pool has the plugins of an experiment. Each is started and asked what it is before the first run. The set that
// answered then waits until a run takes it, since some plugins need seconds to start.
type Pool struct {
	options   Options
	described map[string]backend.Info
	waiting   map[string]*Set // by backend
	records   []results.Plugin
}

// NewPool returns an empty pool. Options.Arena is not used: every set has its own.
func NewPool(o Options) *Pool {
	return &Pool{options: o, described: map[string]backend.Info{}, waiting: map[string]*Set{}}
}

// Waiting returns the set that waits with a backend. If there is none, or if one of its plugins has died in the
// meantime, Waiting starts one.
func (p *Pool) Waiting(ctx context.Context, backend string) (*Set, error) {
	if s, ok := p.waiting[backend]; ok {
		if !s.Exited() {
			return s, nil
		}
		delete(p.waiting, backend)
		if err := s.Close(); err != nil {
			return nil, err
		}
	}
	s, err := NewSet(ctx, backend, p.options)
	if err != nil {
		return nil, err
	}
	p.waiting[backend] = s
	return s, nil
}

// Take returns a set for one run: the one that waits, or else a new one. The caller closes it.
func (p *Pool) Take(ctx context.Context, backend string) (*Set, error) {
	s, err := p.Waiting(ctx, backend)
	delete(p.waiting, backend)
	return s, err
}

// Close ends the sets that no run took.
func (p *Pool) Close() error {
	var errs []error
	for _, s := range p.waiting {
		errs = append(errs, s.Close())
	}
	clear(p.waiting)
	return errors.Join(errs...)
}

// Records returns the plugins that were asked, for the environment of runs.
func (p *Pool) Records() []results.Plugin { return p.records }

// Backend asks a backend what it is, once.
func (p *Pool) Backend(ctx context.Context, name string) (backend.Info, error) {
	if info, ok := p.described[name]; ok {
		return info, nil
	}
	s, err := p.Waiting(ctx, name)
	if err != nil {
		return backend.Info{}, err
	}
	info, err := s.Backend().Describe(ctx)
	if err != nil {
		return info, err
	}
	p.described[name] = info
	return info, p.note(plugin.Backend, name, info.Version, s.backend)
}

// Optimizer asks an optimizer whether it accepts its options and can work with all backends asked so far. If with
// names a backend, the optimizer is started in the set that waits with it, where a run finds it; otherwise it runs
// for this question only.
func (p *Pool) Optimizer(ctx context.Context, u recipe.Optimizer, with string) error {
	if with == "" {
		o, err := Launch(ctx, plugin.Optimizer, u.Name, Options{Transport: host.Stream})
		if err != nil {
			return err
		}
		return errors.Join(p.agrees(ctx, o, u), o.Close())
	}
	s, err := p.Waiting(ctx, with)
	if err != nil {
		return err
	}
	o, err := s.rule(ctx, u.Name)
	if err != nil {
		return err
	}
	return p.agrees(ctx, o, u)
}

// agrees asks a running optimizer.
func (p *Pool) agrees(ctx context.Context, o *host.Process, u recipe.Optimizer) error {
	info, err := o.Optimizer().Describe(ctx)
	if err != nil {
		return err
	}
	if _, err := o.Optimizer().Slots(ctx, u.Options); err != nil {
		return fmt.Errorf("optimizer %s: %w", u.Name, err)
	}
	for _, name := range slices.Sorted(maps.Keys(p.described)) {
		if err := train.CanServe(name, p.described[name], u.Name, info); err != nil {
			return err
		}
	}
	return p.note(plugin.Optimizer, u.Name, info.Version, o)
}

// note adds a plugin to the records, once: optimizers are asked for each phase.
func (p *Pool) note(k plugin.Kind, name, version string, of *host.Process) error {
	if slices.ContainsFunc(p.records, func(r results.Plugin) bool { return r.Kind == string(k) && r.Name == name }) {
		return nil
	}
	e, err := catalog.Find(k, name)
	if err != nil {
		return err
	}
	r, err := record(e, of)
	r.Version = version
	p.records = append(p.records, r)
	return err
}
