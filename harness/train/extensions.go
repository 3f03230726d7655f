package train

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/optimizer"
)

// CanServe returns an error if a backend lacks what an optimizer needs.
func CanServe(backendName string, b backend.Info, optimizerName string, o optimizer.Info) error {
	if o.Probes && !b.RepeatsSteps {
		return fmt.Errorf("optimizer %s needs a second gradient of each batch, and backend %s does not repeat steps (repeats_steps)",
			optimizerName, backendName)
	}
	return nil
}

// extensions are what an optimizer does beyond a plain update.
type extensions struct {
	prober   optimizer.Prober   // takes a second gradient of each batch; nil: does not
	averager optimizer.Averager // trains at other parameters than its model's; nil: does not
	trained  []float32          // a copy of the parameters that are trained, while others are in their place
	averaged bool               // memory and device hold the model's parameters instead of those that are trained
}

// extend finds the extensions of the optimizer's session, and checks them against what the optimizer and the
// backend declare.
func (p *phase) extend(ctx context.Context, rule optimizer.Info) error {
	p.extensions = extensions{}
	if !rule.Probes && !rule.Averages {
		return nil
	}
	info, err := p.Plugins.Backend().Describe(ctx)
	if err == nil {
		err = CanServe(p.Backend, info, p.rule.Name, rule)
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
		return fmt.Errorf("optimizer %s declares that it probes or averages, and its session does not", p.rule.Name)
	}
	return nil
}

// keepTrained copies the parameters before others take their place.
func (e *extensions) keepTrained(params []float32) { e.trained = append(e.trained[:0], params...) }

// secondGradient moves the parameters to where the optimizer wants the gradient, and computes it there for the same
// batch. It updates g, the result of the first gradient, and adds what the backend counts and measures to it.
//
// On return the parameters are back in memory. They are back on the device only if the gradient is not finite;
// otherwise the update's commit follows.
func (p *phase) secondGradient(ctx context.Context, b *bert.Batch, g *backend.StepResult, r *stepRecord) error {
	p.keepTrained(p.memory.Params)
	p.between = false // a probe may change slots
	defer func() { copy(p.memory.Params, p.trained) }()
	if err := p.prober.Probe(ctx, p.optimizerStep(g.GradientNorm)); err != nil {
		return err
	}
	r.lap(partOptimizer)
	if err := p.commit(ctx, r); err != nil {
		return err
	}
	second, err := p.compute(ctx, b)
	if err != nil {
		return fmt.Errorf("second gradient: %w", err)
	}
	r.lap(partBackend)
	g.Finite, g.GradientNorm = second.Finite, second.GradientNorm
	g.Overflows += second.Overflows
	g.Invalid += second.Invalid
	g.Phases = append(g.Phases, second.Phases...)
	if second.Finite {
		return nil
	}
	copy(p.memory.Params, p.trained)
	return p.commit(ctx, r)
}

// useAverage puts the model's parameters in the place of the ones that are trained, in memory and on the device, if the
// optimizer distinguishes the two. back undoes it. A signal cuts neither short.
func (p *phase) useAverage(ctx context.Context) (back func() error, err error) {
	if p.averager == nil || p.Updates == 0 || p.averaged {
		return func() error { return nil }, nil
	}
	ctx = context.WithoutCancel(ctx)
	p.keepTrained(p.memory.Params)
	p.averaged = true
	back = func() error {
		p.averaged = false
		copy(p.memory.Params, p.trained)
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

// average returns a copy of the model's parameters as evaluations see them; nil if they are the ones that are trained.
func (p *phase) average(ctx context.Context) ([]float32, error) {
	if p.averager == nil || p.Updates == 0 {
		return nil, nil
	}
	back, err := p.useAverage(ctx)
	if err != nil {
		return nil, err
	}
	average := slices.Clone(p.memory.Params)
	return average, back()
}
