package train

import (
	"context"
	"errors"

	"harness.invalid/core/backend"
)

// modelledClock is the time of a step on the system that a backend models. It advances with training and knows nothing of the time here.
type modelledClock struct {
	system string  // empty: there is no model
	step   float64 // seconds
}

// seconds of so many steps.
func (c modelledClock) seconds(steps int) float64 { return c.step * float64(steps) }

// modelledSeconds are those of the run up to here; 0 when a phase has no clock, since a sum without it would be taken for the whole.
func (p *phase) modelledSeconds() float64 {
	sum := p.clock.seconds(p.Step)
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

// startClock asks the backend what a step of the phase takes on its machine. A backend without a model has no clock, and neither has a program that the
// system could not run, which is noted.
func (p *phase) startClock(ctx context.Context) {
	p.clock = modelledClock{}
	estimator, ok := p.Plugins.Backend().(backend.Estimator)
	if !ok {
		return
	}
	e, err := estimator.Estimate(ctx, p.program, backend.Machine{Optimizer: p.update.Name})
	if err == nil {
		err = e.Err()
	}
	switch {
	case errors.Is(err, backend.ErrUnsupported):
	case err != nil:
		p.note("phase %s: no modelled time: %v", p.recipe.Name, err)
	default:
		p.clock = modelledClock{e.System, e.StepSeconds}
		if p.prober != nil {
			p.clock.step *= 2
			p.note("phase %s: a step of %s has two gradients and is modelled as two steps", p.recipe.Name, p.update.Name)
		}
	}
}
