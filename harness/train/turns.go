package train

import (
	"context"
	"errors"
	"fmt"
	"time"

	"harness.invalid/core/bert"
	"harness.invalid/core/recipe"
)

// Turns times the steps of several jobs of one recipe, phase by phase: each batch goes to all jobs, one after the other,
// and every other batch in reverse, so that what else the machine does meets all alike. A phase begins from initial
// values, as far as the jobs' data has no start model. Nothing is recorded.
type Turns struct {
	Jobs  []Job
	Steps int // of a phase that are timed, after warmUpSteps; the phase may have fewer
	// Observe is called after each phase.
	Observe func(*TimedPhase) error
}

// TimedPhase has the times of a phase's steps: gradient, update and commit, as a run records them, without the wait for
// the next batch.
type TimedPhase struct {
	Phase   *recipe.Phase
	Seconds [][]float64 // [job][step]
}

// warmUpSteps allocate memory, and wake the threads.
const warmUpSteps = 2

// Run times all phases.
func (t *Turns) Run(ctx context.Context) error {
	if t.Steps < 1 || len(t.Jobs) == 0 {
		return fmt.Errorf("%d steps of %d jobs are to be timed, want at least 1 of each", t.Steps, len(t.Jobs))
	}
	for i := range t.Jobs[0].Recipe.Phases {
		p, err := t.phase(ctx, i)
		if err == nil {
			err = t.Observe(p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *Turns) phase(ctx context.Context, index int) (_ *TimedPhase, err error) {
	sides := make([]*phase, len(t.Jobs))
	for i, j := range t.Jobs {
		fail := func(err error) error {
			return fmt.Errorf("%s: phase %s: %w", j.Identity.Backend, j.Recipe.Phases[index].Name, err)
		}
		r := &run{Job: j, digest: newBatchDigest()}
		p, err := r.prepare(index)
		if err != nil {
			return nil, fail(err)
		}
		p.Seconds = map[string]float64{}
		if err := p.open(ctx); err != nil {
			return nil, fail(err)
		}
		defer func() { err = errors.Join(err, p.session.Close(), p.optimizer.Close()) }()
		sides[i] = p
	}
	source, err := sides[0].set.source()
	if err != nil {
		return nil, err
	}
	if n := sides[0].steps; n <= warmUpSteps {
		return nil, fmt.Errorf("phase %s has %d steps, want more than the %d that are not timed", sides[0].recipe.Name, n, warmUpSteps)
	}
	timed := &TimedPhase{sides[0].recipe, make([][]float64, len(sides))}
	for step := range min(warmUpSteps+t.Steps, sides[0].steps) {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		b, err := source.Next()
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", step+1, err)
		}
		for i := range sides {
			if step%2 == 1 {
				i = len(sides) - 1 - i
			}
			seconds, err := sides[i].timed(ctx, b)
			if err != nil {
				return nil, fmt.Errorf("%s: step %d: %w", t.Jobs[i].Identity.Backend, step+1, err)
			}
			if step >= warmUpSteps {
				timed.Seconds[i] = append(timed.Seconds[i], seconds)
			}
		}
	}
	return timed, nil
}

// timed does one step on a batch and returns its seconds.
func (p *phase) timed(ctx context.Context, b *bert.Batch) (float64, error) {
	if err := p.changeOptions(ctx); err != nil {
		return 0, fmt.Errorf("other options: %w", err)
	}
	r := p.newStepRecord()
	g, err := p.gradient(ctx, b, r)
	if err != nil {
		return 0, err
	}
	if g.Finite {
		if err := p.update(ctx, g.GradientNorm, r); err != nil {
			return 0, err
		}
		if err := p.commit(ctx, r); err != nil {
			return 0, err
		}
		p.Updates++
	}
	p.Step++
	p.done++
	return time.Since(r.start).Seconds(), nil
}
