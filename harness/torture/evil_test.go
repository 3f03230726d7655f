//go:build unix

package torture

import (
	"context"
	"iter"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/plugin"
	gpuref "harness.invalid/plugins/gpu-ref"
	"harness.invalid/plugins/optimizers/adamw"
)

// evil is what a plugin does that is not as it should be. Functions that are nil do nothing.
type evil struct {
	instead func(call string) error // before each call; an error ends it

	info    func(*backend.Info)
	step    func(m backend.Memory, r *backend.StepResult) // after a step
	batches func(b iter.Seq2[*bert.Batch, error]) iter.Seq2[*bert.Batch, error]
	outputs func(o backend.Outputs, yield func(backend.Outputs) error) error // before outputs are sent
	state   func([]byte) []byte

	rule   func(*optimizer.Info)
	slots  func([]string) []string
	update func(m optimizer.Memory, r *optimizer.StepResult) // after an update
}

func (e evil) call(name string) error {
	if e.instead == nil {
		return nil
	}
	return e.instead(name)
}

func (e evil) backend() func()   { return func() { plugin.ServeBackend(evilBackend{gpuref.New(), e}) } }
func (e evil) optimizer() func() { return func() { plugin.ServeOptimizer(evilRule{adamw.New(), e}) } }

type evilBackend struct {
	backend.Backend
	evil
}

// Describe implements backend.Backend.
func (b evilBackend) Describe(ctx context.Context) (backend.Info, error) {
	if err := b.call("describe"); err != nil {
		return backend.Info{}, err
	}
	info, err := b.Backend.Describe(ctx)
	if b.info != nil {
		b.info(&info)
	}
	return info, err
}

// Open implements backend.Backend.
func (b evilBackend) Open(ctx context.Context, p backend.Program, m backend.Memory) (backend.Session, error) {
	if err := b.call("open"); err != nil {
		return nil, err
	}
	s, err := b.Backend.Open(ctx, p, m)
	return &evilSession{s, b.evil, m, 0}, err
}

type evilSession struct {
	backend.Session
	evil
	memory backend.Memory
	steps  int
}

func (s *evilSession) Step(
	ctx context.Context, step backend.Step, b iter.Seq2[*bert.Batch, error],
) (backend.StepResult, error) {
	if err := s.call("step"); err != nil {
		return backend.StepResult{}, err
	}
	if s.batches != nil {
		b = s.batches(b)
	}
	r, err := s.Session.Step(ctx, step, b)
	if s.step != nil && err == nil {
		s.step(s.memory, &r)
	}
	return r, err
}

func (s *evilSession) Commit(ctx context.Context, step int) error {
	if err := s.call("commit"); err != nil {
		return err
	}
	return s.Session.Commit(ctx, step)
}

func (s *evilSession) Evaluate(
	ctx context.Context, e backend.Evaluation, b iter.Seq2[*bert.Batch, error], yield func(backend.Outputs) error,
) (bert.Losses, error) {
	if err := s.call("evaluate"); err != nil {
		return bert.Losses{}, err
	}
	return s.Session.Evaluate(ctx, e, b, func(o backend.Outputs) error {
		if s.outputs != nil {
			return s.outputs(o, yield)
		}
		return yield(o)
	})
}

func (s *evilSession) Save(ctx context.Context) ([]byte, error) {
	if err := s.call("save"); err != nil {
		return nil, err
	}
	state, err := s.Session.Save(ctx)
	if s.state != nil {
		state = s.state(state)
	}
	return state, err
}

func (s *evilSession) Load(ctx context.Context, state []byte) error {
	if err := s.call("load"); err != nil {
		return err
	}
	return s.Session.Load(ctx, state)
}

func (s *evilSession) Close() error {
	if err := s.call("close"); err != nil {
		return err
	}
	return s.Session.Close()
}

type evilRule struct {
	optimizer.Optimizer
	evil
}

// Describe implements optimizer.Optimizer.
func (r evilRule) Describe(ctx context.Context) (optimizer.Info, error) {
	if err := r.call("describe"); err != nil {
		return optimizer.Info{}, err
	}
	info, err := r.Optimizer.Describe(ctx)
	if r.rule != nil {
		r.rule(&info)
	}
	return info, err
}

// Slots implements optimizer.Optimizer.
func (r evilRule) Slots(ctx context.Context, options map[string]string) ([]string, error) {
	if err := r.call("slots"); err != nil {
		return nil, err
	}
	names, err := r.Optimizer.Slots(ctx, options)
	if r.slots != nil {
		names = r.slots(names)
	}
	return names, err
}

// Open implements optimizer.Optimizer.
func (r evilRule) Open(ctx context.Context, options map[string]string, m optimizer.Memory) (optimizer.Session, error) {
	if err := r.call("open"); err != nil {
		return nil, err
	}
	s, err := r.Optimizer.Open(ctx, options, m)
	return evilUpdates{s, r.evil, m}, err
}

type evilUpdates struct {
	optimizer.Session
	evil
	memory optimizer.Memory
}

func (s evilUpdates) Step(ctx context.Context, step optimizer.Step) (optimizer.StepResult, error) {
	if err := s.call("step"); err != nil {
		return optimizer.StepResult{}, err
	}
	r, err := s.Session.Step(ctx, step)
	if s.update != nil {
		s.update(s.memory, &r)
	}
	return r, err
}

func (s evilUpdates) Close() error {
	if err := s.call("close"); err != nil {
		return err
	}
	return s.Session.Close()
}
