package train

import (
	"context"
	"errors"
	"fmt"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/recipe"
)

// modelledClock is the time of a step on the system that a backend models. It is independent of the time that
// training takes here.
type modelledClock struct {
	system     string  // empty: there is no model
	step       float64 // seconds
	confidence *backend.Confidence
}

// seconds is the modelled time of a number of steps.
func (c modelledClock) seconds(steps int) float64 { return c.step * float64(steps) }

// modelledSeconds is the modelled time of the run up to a step of the phase. It is 0 if a phase has no clock, since
// a sum without that phase would pass for the whole.
func (p *phase) modelledSeconds(step int) float64 {
	sum := p.clock.seconds(step)
	for _, before := range p.outcome.Phases {
		if before.System == "" {
			return 0
		}
		sum += before.ModelledSeconds
	}
	if p.clock.system == "" {
		return 0
	}
	return sum
}

// Unfit is the error of a run whose recipe names a system that cannot run some of its phases.
type Unfit []UnfitPhase

// UnfitPhase is a phase that the system cannot run.
type UnfitPhase struct {
	Phase   string
	Program backend.Program
	Advice  string          // what would make it fit; empty: nothing beyond the error
	Remedy  *backend.Remedy // nil: the backend knows none
	Err     error
}

func (u Unfit) Error() string {
	text := "the recipe names a system that can't run it"
	for _, p := range u {
		text += fmt.Sprintf("; phase %s: %v", p.Phase, p.Err)
	}
	return text
}

// Unwrap returns the errors of the phases.
func (u Unfit) Unwrap() []error {
	list := make([]error, len(u))
	for i, p := range u {
		list[i] = p.Err
	}
	return list
}

// Model asks the backend whether its system can run the phases, without training. If the recipe names a system that
// cannot, the error is an Unfit.
func (j Job) Model(ctx context.Context) error {
	r := &run{Job: j}
	phases := make([]*phase, len(r.Recipe.Phases))
	for i := range phases {
		var err error
		if phases[i], err = r.program(i); err != nil {
			return err
		}
	}
	return model(ctx, phases)
}

// model sets the clocks of all phases.
func model(ctx context.Context, phases []*phase) error {
	var unfit Unfit
	for _, p := range phases {
		u, err := p.model(ctx)
		if err != nil {
			return err
		}
		if u != nil {
			unfit = append(unfit, *u)
		}
	}
	if unfit != nil {
		return unfit
	}
	return nil
}

// Cost is what an optimizer with settings u costs where it updates the parameters of a program.
func Cost(ctx context.Context, rule optimizer.Optimizer, u recipe.Optimizer, p backend.Program) (optimizer.Cost, error) {
	options, err := withMoment(ctx, rule, u.Name, u.Options, p.Options)
	if err != nil {
		return optimizer.Cost{}, err
	}
	l, err := bert.Parameters(p.Model, p.Head)
	if err != nil {
		return optimizer.Cost{}, err
	}
	return optimizer.CostOf(ctx, rule, options, l)
}

// model asks the backend how long a step of the phase takes on the system that it models, and sets the clock.
// Without a model of the system there is no clock. If the system cannot run the program, that is an error where the
// recipe names the system, and a doubt where it is the backend's default.
func (p *phase) model(ctx context.Context) (*UnfitPhase, error) {
	p.clock, p.unmodelled = modelledClock{}, nil
	estimator, ok := p.Plugins.Backend().(backend.Estimator)
	if !ok {
		return nil, nil
	}
	rule, err := p.Plugins.Optimizer(ctx, p.rule.Name)
	if err != nil {
		return nil, err
	}
	cost, err := Cost(ctx, rule, p.rule, p.program)
	if err != nil {
		return nil, err
	}
	e, err := estimator.Estimate(ctx, p.program, backend.Machine{Update: cost})
	if err == nil {
		err = e.Err()
	}
	switch named := p.program.Options["system"]; {
	case errors.Is(err, backend.ErrUnsupported):
	case ctx.Err() != nil:
		return nil, err
	case err != nil && named != "":
		return &UnfitPhase{p.recipe.Name, p.program, e.Advice, e.Remedy, err}, nil
	case err != nil:
		p.unmodelled = err
	default:
		p.clock = modelledClock{e.System, e.StepSeconds, e.Confidence}
	}
	return nil, nil
}

// startClock notes why there is no clock, and what the time of a step covers.
func (p *phase) startClock() {
	switch {
	case p.unmodelled != nil:
		p.note("phase %s: no modelled time: %v", p.recipe.Name, p.unmodelled)
	case p.clock.system != "" && p.prober != nil:
		p.note("phase %s: a step of %s has two gradients, and both are in its modelled time", p.recipe.Name, p.rule.Name)
	}
}
