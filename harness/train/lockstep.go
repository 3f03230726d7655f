package train

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/recipe"
	"harness.invalid/core/tensor"
)

// Lockstep trains two jobs of one recipe side by side: the first phase, from the same parameters, on the same batches, without dropout, whose masks a
// backend may draw as it likes. Nothing is recorded; after every step the observer sees what both sides came to.
type Lockstep struct {
	Jobs  [2]Job
	Steps int // fewer are done where the phase has fewer
	// Resync gives the second side the parameters and the optimizer's state of the first before each step, so that what a step differs by is its own. Else
	// each side goes on from what it has.
	Resync  bool
	Observe func(*LockedStep) error
}

// LockedStep is what a step did on both sides. Its memory lasts until the observer returns.
type LockedStep struct {
	Step, Steps  int
	Phase        *recipe.Phase
	Program      backend.Program // of the first side
	LearningRate float64
	Traced       *bert.Batch // the sequences that both sides traced: those of the smaller micro-batch
	Layout       *tensor.Layout
	Sides        [2]LockedSide
}

// LockedSide is one side of a step. All sections have the layout of the step.
type LockedSide struct {
	Result    backend.StepResult
	Traced    []backend.Traced // what the operators of the first micro-batch stored; nil where the backend can't show it
	Gradients []float32
	Before    []float32 // parameters that the gradients are of
	Updated   []float32 // as the optimizer left them
	Kept      []float32 // as the backend keeps them; Before when the step was skipped
}

// side is a job in lockstep.
type side struct {
	*phase
	mute bool // it can't trace
	seen LockedSide
}

// Run trains until the last step, an error, or the end of ctx.
func (l *Lockstep) Run(ctx context.Context) (err error) {
	var sides [2]*side
	for i, j := range l.Jobs {
		r := &run{Job: j, digest: newBatchDigest()}
		p, err := r.prepare(0)
		if err != nil {
			return fmt.Errorf("%s: %w", j.Identity.Backend, err)
		}
		rule, err := j.Plugins.Optimizer(ctx, p.update.Name)
		if err != nil {
			return err
		}
		info, err := rule.Describe(ctx)
		if err != nil {
			return err
		}
		if info.Probes {
			return fmt.Errorf("optimizer %s takes two gradients a step, and lockstep follows one", p.update.Name)
		}
		p.program.Model.HiddenDropoutProb, p.program.Model.AttentionProbsDropoutProb = 0, 0
		p.Seconds = map[string]float64{}
		sides[i] = &side{phase: p}
	}
	if l.Steps < 1 {
		return fmt.Errorf("lockstep of %d steps, want at least 1", l.Steps)
	}
	steps := min(l.Steps, sides[0].steps)
	source, err := sides[0].set.source()
	if err != nil {
		return err
	}
	for i, s := range sides {
		if err := s.open(ctx); err != nil {
			return fmt.Errorf("%s: %w", l.Jobs[i].Identity.Backend, err)
		}
		defer func() { err = errors.Join(err, s.session.Close(), s.optimizer.Close()) }()
	}
	if a, b := sides[0].slotNames, sides[1].slotNames; l.Resync && !slices.Equal(a, b) {
		return fmt.Errorf("the optimizers of the two backends keep %v and %v: their state can't be carried from one to the other", a, b)
	}
	for step := 1; step <= steps; step++ {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		b, err := source.Next()
		if err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		if l.Resync && step > 1 {
			if err := sides[1].follow(ctx, sides[0]); err != nil {
				return fmt.Errorf("%s: step %d: %w", l.Jobs[1].Identity.Backend, step, err)
			}
		}
		for i, s := range sides {
			if err := s.advance(ctx, b); err != nil {
				return fmt.Errorf("%s: step %d: %w", l.Jobs[i].Identity.Backend, step, err)
			}
		}
		p := sides[0].phase
		if err := l.Observe(&LockedStep{
			Step: step, Steps: steps, Phase: p.recipe, Program: p.program, LearningRate: p.schedule.LR(step, p.steps),
			Traced: b.Slice(0, min(p.program.MicroBatch, sides[1].program.MicroBatch)), Layout: p.memory.Layout, Sides: [2]LockedSide{sides[0].seen, sides[1].seen},
		}); err != nil {
			return err
		}
	}
	return nil
}

// follow takes over the parameters and the optimizer's state of another side, and with them the number of its updates.
func (s *side) follow(ctx context.Context, leader *side) error {
	copy(s.memory.Params, leader.memory.Params)
	for i := range s.memory.Slots {
		copy(s.memory.Slots[i], leader.memory.Slots[i])
	}
	s.Updates = leader.Updates
	return s.session.Commit(ctx, s.done)
}

// advance does one step on a batch and keeps what it came to.
func (s *side) advance(ctx context.Context, b *bert.Batch) error {
	if err := s.changeOptions(ctx); err != nil {
		return fmt.Errorf("other options: %w", err)
	}
	number := s.done + 1
	keep := func(into *[]float32, section []float32) { *into = append((*into)[:0], section...) }
	keep(&s.seen.Before, s.memory.Params)
	if err := s.compute(ctx, backend.Step{Step: number, Sequences: b.Size, MaskedWeight: b.MaskedWeight(), NextSentenceWeight: b.NextSentenceWeight()}, b); err != nil {
		return err
	}
	keep(&s.seen.Gradients, s.memory.Grads)
	keep(&s.seen.Updated, s.memory.Params)
	if s.seen.Result.Finite {
		update := optimizer.Step{Step: s.Updates + 1, LR: s.schedule.LR(s.Step+1, s.steps), GradientNorm: s.seen.Result.GradientNorm}
		if _, err := s.optimizer.Step(ctx, update); err != nil {
			return err
		}
		keep(&s.seen.Updated, s.memory.Params)
		if err := s.session.Commit(ctx, number); err != nil {
			return err
		}
		s.Updates++
	}
	keep(&s.seen.Kept, s.memory.Params)
	s.Step++
	s.done = number
	return nil
}

// compute takes the gradient of a batch, and what the operators store on the way where the backend shows it.
func (s *side) compute(ctx context.Context, step backend.Step, b *bert.Batch) (err error) {
	s.seen.Traced = s.seen.Traced[:0]
	if t, ok := s.session.(backend.Tracer); ok && !s.mute {
		s.seen.Result, err = t.Trace(ctx, step, microBatches(b, s.program.MicroBatch), func(t backend.Traced) error {
			t.Values = slices.Clone(t.Values)
			s.seen.Traced = append(s.seen.Traced, t)
			return nil
		})
		if !errors.Is(err, backend.ErrUnsupported) {
			return err
		}
	}
	s.mute, s.seen.Traced = true, nil
	s.seen.Result, err = s.session.Step(ctx, step, microBatches(b, s.program.MicroBatch))
	return err
}
