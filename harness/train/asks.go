package train

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"harness.invalid/core/backend"
	"harness.invalid/core/optimizer"
)

// CanServe reports an optimizer that asks the loop for what a backend can't do.
func CanServe(backendName string, b backend.Info, optimizerName string, o optimizer.Info) error {
	if o.Probes && !b.RepeatsSteps {
		return fmt.Errorf("optimizer %s asks for a second gradient of each batch, and backend %s does not compute a batch again (it does not say repeats_steps)",
			optimizerName, backendName)
	}
	return nil
}

// asks is what a rule wants of the loop beyond a gradient a step.
type asks struct {
	prober   optimizer.Prober   // nil: nothing
	averager optimizer.Averager // nil: nothing
	home     []float32          // the parameters that are trained, while others are in their place
	shown    bool               // the parameters are those of the model, and home has those that are trained
}

// readAsks holds what a rule asks for against what its session and the backend do.
func (p *phase) readAsks(ctx context.Context, rule optimizer.Info) error {
	p.asks = asks{}
	if !rule.Probes && !rule.Averages {
		return nil
	}
	info, err := p.Plugins.Backend().Describe(ctx)
	if err == nil {
		err = CanServe(p.Backend, info, p.update.Name, rule)
	}
	if err != nil {
		return err
	}
	var probes, averages bool
	if rule.Probes {
		p.prober, probes = p.optimizer.(optimizer.Prober)
	}
	if rule.Averages {
		p.averager, averages = p.optimizer.(optimizer.Averager)
	}
	if probes != rule.Probes || averages != rule.Averages {
		return fmt.Errorf("optimizer %s says that it probes or averages, and its session does not", p.update.Name)
	}
	return nil
}

// leave notes the parameters that are trained.
func (a *asks) leave(params []float32) { a.home = append(a.home[:0], params...) }

// secondGradient takes the gradient of a step once more where the rule wants it. compute is the backend's step; what it counts and measures is added to r.
// The parameters are back in memory when it returns, in the device only if the step goes on to an update, after which comes a commit.
func (p *phase) secondGradient(ctx context.Context, number int, step optimizer.Step, r *backend.StepResult, compute func() (backend.StepResult, error), lap func(part string)) error {
	p.leave(p.memory.Params)
	defer func() { copy(p.memory.Params, p.home) }()
	if err := p.prober.Probe(ctx, step); err != nil {
		return err
	}
	lap(partOptimizer)
	if err := p.session.Commit(ctx, number); err != nil {
		return err
	}
	lap(partCommit)
	second, err := compute()
	if err != nil {
		return fmt.Errorf("second gradient: %w", err)
	}
	lap(partBackend)
	r.Finite, r.GradientNorm = second.Finite, second.GradientNorm
	r.Overflows += second.Overflows
	r.Invalid += second.Invalid
	r.Phases = append(r.Phases, second.Phases...)
	if second.Finite {
		return nil
	}
	copy(p.memory.Params, p.home)
	err = p.session.Commit(ctx, number)
	lap(partCommit)
	return err
}

// showModel puts the parameters of the model in the place of those that are trained, in memory and in the device, where the rule makes a difference between
// them. back undoes it; a signal cuts neither short.
func (p *phase) showModel(ctx context.Context) (back func() error, err error) {
	if p.averager == nil || p.Updates == 0 || p.shown {
		return func() error { return nil }, nil
	}
	ctx = context.WithoutCancel(ctx)
	p.leave(p.memory.Params)
	p.shown = true
	back = func() error {
		p.shown = false
		copy(p.memory.Params, p.home)
		return p.session.Commit(ctx, p.done)
	}
	if err := p.averager.Average(ctx, p.Updates); err != nil {
		return nil, errors.Join(err, back())
	}
	if err := p.session.Commit(ctx, p.done); err != nil {
		return nil, errors.Join(err, back())
	}
	return back, nil
}

// average is a copy of the parameters of the model as evaluations have them, nil where those that are trained are the model's.
func (p *phase) average(ctx context.Context) ([]float32, error) {
	if p.averager == nil || p.Updates == 0 {
		return nil, nil
	}
	back, err := p.showModel(ctx)
	if err != nil {
		return nil, err
	}
	average := slices.Clone(p.memory.Params)
	return average, back()
}
