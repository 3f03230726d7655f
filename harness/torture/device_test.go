//go:build unix

package torture

import (
	"context"
	"fmt"
	"iter"

	"harness.invalid/core/arena"
	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/plugin/host"
	"harness.invalid/core/tensor"
	"harness.invalid/harness/train"
	gpuref "harness.invalid/plugins/gpu-ref"
	"harness.invalid/plugins/optimizers/adamw"
)

// devices are plugins in this process, over shared memory. They die at a call, before it is done or after, and from then
// on every call fails until they are started again.
type devices struct {
	calls []string                                  // so far
	die   func(n int, call string) (now, done bool) // at the n-th call, from 1; done: after it; nil: never
	spoil bool                                      // a plugin that dies leaves what it was changing half changed
	dead  bool
	times int // they were started again

	arena  *arena.Arena
	region *arena.Region
	memory train.Memory
}

func newDevices() *devices { return &devices{} }

var _ train.Restarter = (*devices)(nil)

// Restart implements train.Restarter.
func (d *devices) Restart(context.Context) error {
	d.dead = false
	d.times++
	return nil
}

// Backend implements train.Plugins.
func (d *devices) Backend() backend.Backend { return device{gpuref.New(), d} }

// Optimizer implements train.Plugins.
func (d *devices) Optimizer(_ context.Context, name string) (optimizer.Optimizer, error) {
	return rule{adamw.New(), d}, d.call("optimizer start", func() error { return nil })
}

// Allocate implements train.Plugins. What it takes is shared memory, as with real plugins.
func (d *devices) Allocate(l *tensor.Layout, slots int) (_ train.Memory, err error) {
	if d.arena == nil {
		if d.arena, err = arena.New(); err != nil {
			return train.Memory{}, err
		}
	}
	if d.region != nil {
		err, d.region = d.region.Close(), nil
		if err != nil {
			return train.Memory{}, err
		}
	}
	if d.region, err = d.arena.Allocate(l, 2+slots); err != nil {
		return train.Memory{}, err
	}
	d.memory = train.Memory{Layout: l, Params: d.region.Params(), Grads: d.region.Grads(), Slots: d.region.Slots()}
	return d.memory, nil
}

// close frees the memory.
func (d *devices) close() error {
	if d.arena == nil {
		return nil
	}
	return d.arena.Close()
}

// call does a call, unless its plugin is dead or dies.
func (d *devices) call(name string, do func() error) error {
	gone := fmt.Errorf("%s: %w (signal: killed)", name, host.ErrDied)
	if d.dead {
		return gone
	}
	d.calls = append(d.calls, name)
	now, done := false, false
	if d.die != nil {
		now, done = d.die(len(d.calls), name)
	}
	if !now {
		return do()
	}
	if done {
		_ = do() // nobody hears of it
	}
	if d.spoil && d.region != nil {
		d.ruin(name)
	}
	d.dead = true
	return gone
}

// ruin leaves what a plugin may change in a call half changed.
func (d *devices) ruin(call string) {
	half := func(v []float32) {
		for i := range v[:len(v)/2] {
			v[i] = 42
		}
	}
	half(d.memory.Grads)
	switch call {
	case "optimizer step":
		for _, s := range d.memory.Slots {
			half(s)
		}
		half(d.memory.Params)
	case "backend commit":
		half(d.memory.Params)
	}
}

type device struct {
	backend.Backend
	of *devices
}

// Open implements backend.Backend.
func (d device) Open(ctx context.Context, p backend.Program, m backend.Memory) (s backend.Session, err error) {
	err = d.of.call("backend open", func() error {
		s, err = d.Backend.Open(ctx, p, m)
		return err
	})
	return deviceSession{s, d.of}, err
}

type deviceSession struct {
	backend.Session
	of *devices
}

func (s deviceSession) Step(ctx context.Context, step backend.Step, b iter.Seq2[*bert.Batch, error]) (r backend.StepResult, err error) {
	err = s.of.call("backend step", func() error {
		r, err = s.Session.Step(ctx, step, b)
		return err
	})
	return r, err
}

func (s deviceSession) Commit(ctx context.Context, step int) error {
	return s.of.call("backend commit", func() error { return s.Session.Commit(ctx, step) })
}

func (s deviceSession) Evaluate(
	ctx context.Context, e backend.Evaluation, b iter.Seq2[*bert.Batch, error], yield func(backend.Outputs) error,
) (l bert.Losses, err error) {
	err = s.of.call("backend evaluate", func() error {
		l, err = s.Session.Evaluate(ctx, e, b, yield)
		return err
	})
	return l, err
}

func (s deviceSession) Save(ctx context.Context) (state []byte, err error) {
	err = s.of.call("backend save", func() error {
		state, err = s.Session.Save(ctx)
		return err
	})
	return state, err
}

func (s deviceSession) Load(ctx context.Context, state []byte) error {
	return s.of.call("backend load", func() error { return s.Session.Load(ctx, state) })
}

type rule struct {
	optimizer.Optimizer
	of *devices
}

// Describe implements optimizer.Optimizer.
func (r rule) Describe(ctx context.Context) (info optimizer.Info, err error) {
	err = r.of.call("optimizer describe", func() error {
		info, err = r.Optimizer.Describe(ctx)
		return err
	})
	return info, err
}

// Slots implements optimizer.Optimizer.
func (r rule) Slots(ctx context.Context, options map[string]string) (names []string, err error) {
	err = r.of.call("optimizer slots", func() error {
		names, err = r.Optimizer.Slots(ctx, options)
		return err
	})
	return names, err
}

// Open implements optimizer.Optimizer.
func (r rule) Open(ctx context.Context, options map[string]string, m optimizer.Memory) (s optimizer.Session, err error) {
	err = r.of.call("optimizer open", func() error {
		s, err = r.Optimizer.Open(ctx, options, m)
		return err
	})
	return ruleSession{s, r.of}, err
}

type ruleSession struct {
	optimizer.Session
	of *devices
}

func (s ruleSession) Step(ctx context.Context, step optimizer.Step) (r optimizer.StepResult, err error) {
	err = s.of.call("optimizer step", func() error {
		r, err = s.Session.Step(ctx, step)
		return err
	})
	return r, err
}
