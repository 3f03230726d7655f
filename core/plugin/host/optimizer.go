package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"harness.invalid/core/backend"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/plugin/internal/pb"
	"harness.invalid/core/plugin/internal/wire"
	"harness.invalid/core/tensor"
)

// Optimizer is the plugin as an optimizer. With Spec.Arena set, sessions are opened over sections of that arena.
func (p *Process) Optimizer() optimizer.Optimizer { return optimizerClient{p} }

type optimizerClient struct{ p *Process }

var _ optimizer.Coster = optimizerClient{}

func (o optimizerClient) Describe(ctx context.Context) (optimizer.Info, error) {
	c := o.p.call(ctx, 0, o.p.spec.Timeouts.Call, "describe")
	r, err := o.p.optimizer.Describe(c.ctx, &pb.DescribeRequest{})
	if err := c.done(err); err != nil {
		return optimizer.Info{}, err
	}
	return wire.DecodeOptimizerInfo(r), nil
}

func (o optimizerClient) Slots(ctx context.Context, options map[string]string) ([]string, error) {
	c := o.p.call(ctx, 0, o.p.spec.Timeouts.Call, "slots")
	r, err := o.p.optimizer.Slots(c.ctx, &pb.SlotsRequest{Options: options})
	if err == nil {
		err = checkSlots(r.GetNames())
	}
	if err := c.done(err); err != nil {
		return nil, err
	}
	return r.GetNames(), nil
}

// Cost implements optimizer.Coster. It fails with optimizer.ErrNoCost if the plugin states none.
func (o optimizerClient) Cost(ctx context.Context, options map[string]string, l *tensor.Layout) (optimizer.Cost, error) {
	c := o.p.call(ctx, 0, o.p.spec.Timeouts.Call, "cost")
	r, err := o.p.optimizer.Cost(c.ctx, &pb.CostRequest{Options: options, Tensors: wire.EncodeLayout(l)})
	cost := wire.DecodeCost(r.GetCost())
	if err == nil {
		if err = cost.Check(l); err != nil {
			err = localError{err}
		}
	}
	err = c.done(err)
	if errors.Is(err, backend.ErrUnsupported) {
		return optimizer.Cost{}, fmt.Errorf("optimizer %s: %w", o.p.spec.Name, optimizer.ErrNoCost)
	}
	if err != nil {
		return optimizer.Cost{}, err
	}
	return cost, nil
}

func checkSlots(names []string) error {
	if len(names) > wire.MaxSlots {
		return localError{fmt.Errorf("it asks for %d slots, want at most %d", len(names), wire.MaxSlots)}
	}
	for i, name := range names {
		if name == "" || slices.Contains(names[:i], name) {
			return localError{fmt.Errorf("it asks for slots %q, want names that are unique and not empty", names)}
		}
	}
	return nil
}

func (o optimizerClient) Open(ctx context.Context, options map[string]string, m optimizer.Memory) (optimizer.Session, error) {
	c := o.p.call(ctx, 0, ceiling(o.p.spec.Timeouts.Open, parametersOf(m.Layout), 0), "open")
	s, err := o.open(c, options, m)
	if err := c.done(err); err != nil {
		return nil, err
	}
	return s, nil
}

func (o optimizerClient) open(c *call, options map[string]string, m optimizer.Memory) (*optimizerSession, error) {
	// The host's memory is checked against what the rule asks for before the plugin sees any of it.
	slots, err := o.p.optimizer.Slots(c.ctx, &pb.SlotsRequest{Options: options})
	if err != nil {
		return nil, err
	}
	if err := checkSlots(slots.GetNames()); err != nil {
		return nil, err
	}
	if err := m.Check(len(slots.GetNames())); err != nil {
		return nil, localError{err}
	}
	shared, err := o.p.openSections(m.Layout, append([][]float32{m.Params, m.Grads}, m.Slots...))
	if err != nil {
		return nil, localError{err}
	}
	request := &pb.OpenOptimizerRequest{Options: options, Memory: shared.memory(), Slots: uint32(len(m.Slots))}
	r, err := o.p.optimizer.Open(c.ctx, request)
	if err != nil {
		_ = shared.close()
		return nil, err
	}
	s := &optimizerSession{
		session: session{p: o.p, id: r.GetSession(), sections: shared, parameters: m.Layout.Len()},
		work:    updateWork(m.Layout), out: []int{wire.Params},
	}
	for i := range m.Slots {
		s.out = append(s.out, wire.FirstSlot+i)
	}
	s.in = append([]int{wire.Grads}, s.out...)
	return s, nil
}

type optimizerSession struct {
	session
	work    float64 // operations of an update
	in, out []int   // sections that a step or a probe reads, and those that the host fetches after it
}

// Callers of Probe and Average check Info first. A plugin that has no such call answers that it is not implemented.
var (
	_ optimizer.Prober   = (*optimizerSession)(nil)
	_ optimizer.Averager = (*optimizerSession)(nil)
)

func (s *optimizerSession) Step(ctx context.Context, step optimizer.Step) (optimizer.StepResult, error) {
	c := s.timed(ctx, "step", s.work, "step %d", step.Step)
	c.asked(1)
	r, err := s.step(c, step)
	if err := c.done(err); err != nil {
		return optimizer.StepResult{}, err
	}
	return r, nil
}

func (s *optimizerSession) step(c *call, step optimizer.Step) (result optimizer.StepResult, err error) {
	err = s.change(c, s.in, s.out, func() error {
		r, err := s.p.optimizer.Step(c.ctx, &pb.OptimizerStepRequest{
			Session: s.id, Step: int64(step.Step), LearningRate: step.LR, GradientNorm: step.GradientNorm,
		})
		result.GradientNorm = r.GetGradientNorm()
		return err
	})
	if n := result.GradientNorm; err == nil && (!(n >= 0) || math.IsInf(n, 1)) {
		err = localError{fmt.Errorf("it reports a gradient norm of %g", n)}
	}
	return result, err
}

func (s *optimizerSession) Probe(ctx context.Context, step optimizer.Step) error {
	c := s.timed(ctx, "probe", s.work, "probe of step %d", step.Step)
	c.asked(1)
	return c.done(s.change(c, s.in, s.out, func() error {
		_, err := s.p.optimizer.Probe(c.ctx, &pb.OptimizerProbeRequest{
			Session: s.id, Step: int64(step.Step), LearningRate: step.LR, GradientNorm: step.GradientNorm,
		})
		return err
	}))
}

func (s *optimizerSession) Average(ctx context.Context, updates int) error {
	c := s.timed(ctx, "average", s.work, "average after step %d", updates)
	c.asked(1)
	return c.done(s.change(c, s.out, []int{wire.Params}, func() error {
		_, err := s.p.optimizer.Average(c.ctx, &pb.AverageRequest{Session: s.id, Step: int64(updates)})
		return err
	}))
}

// change makes a call that reads some sections and changes some of them, including the parameters. Whether these are
// finite is checked once, after the backend's commit, which comes next.
func (s *optimizerSession) change(c *call, in, out []int, call func() error) error {
	if err := s.sections.before(c.ctx, s.id, in...); err != nil {
		return err
	}
	s.sections.spoil(in...)
	if err := call(); err != nil {
		return err
	}
	return s.sections.after(c.ctx, s.id, out...)
}
