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
	}
}
