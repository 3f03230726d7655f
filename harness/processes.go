package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"

	"harness.invalid/core/arena"
	"harness.invalid/core/backend"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/plugin"
	"harness.invalid/core/recipe"
	"harness.invalid/core/tensor"
	"harness.invalid/harness/catalog"
	"harness.invalid/harness/train"
	"harness.invalid/results"
)

// processes are the plugins of one run and the memory that they share with the host. It is a train.Plugins.
type processes struct {
	transport plugin.Transport
	arena     *arena.Arena
	region    *arena.Region // nil: nothing is allocated
	backend   *plugin.Process
	rules     map[string]*plugin.Process
}

var _ train.Plugins = (*processes)(nil)

func launch(ctx context.Context, k plugin.Kind, name string, transport plugin.Transport, a *arena.Arena) (*plugin.Process, error) {
	e, err := catalog.Find(k, name)
	if err != nil {
		return nil, err
	}
	// Plugins compute on as many threads as this program may: GOMAXPROCS or the limit of a container holds for all of them.
	return plugin.Launch(ctx, plugin.Spec{
		Kind: k, Name: name, Path: e.Path, Args: e.Args, Env: e.Env, Threads: runtime.GOMAXPROCS(0), Transport: transport, Arena: a,
		Timeouts: plugin.Timeouts{Start: e.Patience},
	})
}

// startProcesses starts a backend. Optimizers are started when a phase asks for them.
func startProcesses(ctx context.Context, backend string, transport plugin.Transport) (*processes, error) {
	a, err := arena.New()
	if err != nil {
		return nil, err
	}
	p := &processes{transport: transport, arena: a, rules: map[string]*plugin.Process{}}
	if p.backend, err = launch(ctx, plugin.Backend, backend, transport, a); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *processes) Backend() backend.Backend { return p.backend.Backend() }

func (p *processes) Optimizer(ctx context.Context, name string) (optimizer.Optimizer, error) {
	if o, ok := p.rules[name]; ok {
		return o.Optimizer(), nil
	}
	o, err := launch(ctx, plugin.Optimizer, name, p.transport, p.arena)
	if err != nil {
		return nil, err
	}
	p.rules[name] = o
	return o.Optimizer(), nil
}

func (p *processes) Allocate(l *tensor.Layout, slots int) (train.Memory, error) {
	if p.region != nil {
		if err := p.region.Close(); err != nil {
			return train.Memory{}, err
		}
		p.region = nil
	}
	r, err := p.arena.Allocate(l, 2+slots)
	if err != nil {
		return train.Memory{}, err
	}
	p.region = r
	return train.Memory{Layout: l, Params: r.Params(), Grads: r.Grads(), Slots: r.Slots()}, nil
}

// Close ends the plugins and frees the memory.
func (p *processes) Close() error {
	var errs []error
	if p.backend != nil {
		errs = append(errs, p.backend.Close())
	}
	for _, o := range p.rules {
		errs = append(errs, o.Close())
	}
	if p.region != nil {
		errs = append(errs, p.region.Close())
	}
	return errors.Join(append(errs, p.arena.Close())...)
}

// probe starts a plugin for a moment, notes it for the record, and asks it something.
func (e *experiment) probe(ctx context.Context, k plugin.Kind, name string, ask func(*plugin.Process) (version string, err error)) error {
	entry, err := catalog.Find(k, name)
	if err != nil {
		return err
	}
	p, err := launch(ctx, k, name, plugin.Stream, nil)
	if err != nil {
		return err
	}
	version, err := ask(p)
	if err := errors.Join(err, p.Close()); err != nil {
		return err
	}
	hash, err := plugin.Hash(entry.Source())
	if err != nil {
		return err
	}
	took := results.Plugin{Kind: string(k), Name: name, Version: version, Path: entry.Source(), SHA256: hash}
	if !slices.Contains(e.plugins, took) { // an optimizer is asked once for each phase's options
		e.plugins = append(e.plugins, took)
	}
	return nil
}

// describe asks a backend what it is.
func (e *experiment) describe(ctx context.Context, name string) (info backend.Info, err error) {
	if info, ok := e.described[name]; ok {
		return info, nil
	}
	err = e.probe(ctx, plugin.Backend, name, func(p *plugin.Process) (string, error) {
		info, err = p.Backend().Describe(ctx)
		return info.Version, err
	})
	e.described[name] = info
	return info, err
}

// checkOptimizer asks an optimizer whether it takes the options of a recipe.
func (e *experiment) checkOptimizer(ctx context.Context, u recipe.Optimizer) error {
	return e.probe(ctx, plugin.Optimizer, u.Name, func(p *plugin.Process) (string, error) {
		info, err := p.Optimizer().Describe(ctx)
		if err != nil {
			return "", err
		}
		if _, err := p.Optimizer().Slots(ctx, u.Options); err != nil {
			return "", fmt.Errorf("optimizer %s: %w", u.Name, err)
		}
		for _, name := range slices.Sorted(maps.Keys(e.described)) {
			if err := train.CanServe(name, e.described[name], u.Name, info); err != nil {
				return "", err
			}
		}
		return info.Version, nil
	})
}
