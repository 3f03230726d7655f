package train

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/option"
	"harness.invalid/core/recipe"
	"harness.invalid/core/tensor"
)

// Lockstep trains two jobs of one recipe side by side: their first phase, from the same parameters, on the same
// batches. Dropout is off, because backends may draw its masks as they like. Nothing is recorded; after every step
// the observer sees the values of both sides.
type Lockstep struct {
	Jobs  [2]Job
	Steps int // at most; the phase may have fewer
	// Resync gives the second side the parameters and the optimizer's state of the first before each step, so that
	// differences are those of one step. Otherwise each side continues from its own.
	Resync  bool
	Observe func(*LockedStep) error
}

// LockedStep is what a step did on both sides. Its memory lasts until the observer returns.
type LockedStep struct {
	Step, Steps  int
	Phase        *recipe.Phase
	Program      backend.Program // of the first side
	LearningRate float64
	Traced       *bert.Batch // the sequences that both sides traced, those of the smaller micro-batch
	Layout       *tensor.Layout
	Sides        [2]LockedSide
}

// LockedSide is one side of a step. All slices have the layout of the step.
type LockedSide struct {
	Result    backend.StepResult
	Traced    []backend.Traced // what the operators of the first micro-batch stored; nil if the backend cannot trace
	Gradients []float32
	Before    []float32 // the parameters at which the gradients were taken
	Updated   []float32 // as the optimizer left them
	Kept      []float32 // as the backend stored them; Before if the step was skipped
}

// side is a job in lockstep.
type side struct {
	*phase
	mute bool // it cannot trace
	seen LockedSide
}

// Run trains until the last step, an error, or the end of ctx.
func (l *Lockstep) Run(ctx context.Context) (err error) {
	if l.Steps < 1 {
		return fmt.Errorf("lockstep of %d steps, want at least 1", l.Steps)
	}
	var sides [2]*side
	for i, j := range l.Jobs {
		if sides[i], err = newSide(ctx, j); err != nil {
			return err
		}
	}
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
		return fmt.Errorf("the optimizers of the two backends keep %v and %v: the state of one cannot be copied to the other", a, b)
	}
	steps := min(l.Steps, sides[0].steps)
	for step := 1; step <= steps; step++ {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		b, err := source.Next()
		if err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		if err := l.step(ctx, sides, step, b); err != nil {
			return err
		}
		p, q := sides[0].phase, sides[1].phase
		if err := l.Observe(&LockedStep{
			Step: step, Steps: steps, Phase: p.recipe, Program: p.program, LearningRate: p.schedule.LR(step, p.steps),
			Traced: b.Slice(0, min(p.program.MicroBatch, q.program.MicroBatch)), Layout: p.memory.Layout,
			Sides: [2]LockedSide{sides[0].seen, sides[1].seen},
		}); err != nil {
			return err
		}
	}
	return nil
}

// step does one step on both sides.
func (l *Lockstep) step(ctx context.Context, sides [2]*side, step int, b *bert.Batch) error {
	fail := func(side int, err error) error {
		return fmt.Errorf("%s: step %d: %w", l.Jobs[side].Identity.Backend, step, err)
	}
	if l.Resync && step > 1 {
		if err := sides[1].follow(ctx, sides[0]); err != nil {
			return fail(1, err)
		}
	}
	for i, s := range sides {
		if err := s.advance(ctx, b); err != nil {
			return fail(i, err)
		}
	}
	return nil
}

// newSide prepares the first phase of a job.
func newSide(ctx context.Context, j Job) (*side, error) {
	r := &run{Job: j, digest: newBatchDigest()}
	p, err := r.prepare(0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", j.Identity.Backend, err)
	}
	rule, err := j.Plugins.Optimizer(ctx, p.rule.Name)
	if err != nil {
		return nil, err
	}
	info, err := rule.Describe(ctx)
	if err != nil {
		return nil, err
	}
	if info.Probes {
		return nil, fmt.Errorf("optimizer %s takes two gradients per step, and lockstep supports only one", p.rule.Name)
	}
	if err := p.inspectFormats(ctx); err != nil {
		return nil, err
	}
	p.program.Model.HiddenDropoutProb, p.program.Model.AttentionProbsDropoutProb = 0, 0
	p.Seconds = map[string]float64{}
	return &side{phase: p}, nil
}

// inspectFormats asks for what formats do to operands in every step, where the backend can say.
func (p *phase) inspectFormats(ctx context.Context) error {
	info, err := p.Plugins.Backend().Describe(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(info.Options, func(o option.Option) bool { return o.Name == backend.InspectOption }) {
		options := maps.Clone(p.settings.Options)
		if options == nil {
			options = recipe.Options{}
		}
		options[backend.InspectOption] = "1"
		p.settings.Options = options
	}
	return nil
}

// follow copies the parameters and the optimizer's state of another side, including the number of updates.
func (s *side) follow(ctx context.Context, leader *side) error {
	copy(s.memory.Params, leader.memory.Params)
	for i := range s.memory.Slots {
		copy(s.memory.Slots[i], leader.memory.Slots[i])
	}
	s.Updates = leader.Updates
	return s.session.Commit(ctx, s.done)
}

// advance does one step on a batch and keeps its values.
func (s *side) advance(ctx context.Context, b *bert.Batch) error {
	if err := s.changeOptions(ctx); err != nil {
		return fmt.Errorf("other options: %w", err)
	}
	keep := func(into *[]float32, values []float32) { *into = append((*into)[:0], values...) }
	keep(&s.seen.Before, s.memory.Params)
	if err := s.trace(ctx, b); err != nil {
		return err
	}
	keep(&s.seen.Gradients, s.memory.Grads)
	keep(&s.seen.Updated, s.memory.Params)
	if s.seen.Result.Finite {
		if _, err := s.optimizer.Step(ctx, s.optimizerStep(s.seen.Result.GradientNorm)); err != nil {
			return err
		}
		keep(&s.seen.Updated, s.memory.Params)
		if err := s.session.Commit(ctx, s.done+1); err != nil {
			return err
		}
		s.Updates++
	}
	keep(&s.seen.Kept, s.memory.Params)
	s.Step++
	s.done++
	return nil
}

// trace computes the gradient of a batch, and keeps what the operators store on the way if the backend can trace.
func (s *side) trace(ctx context.Context, b *bert.Batch) (err error) {
	s.seen.Traced = s.seen.Traced[:0]
	if t, ok := s.session.(backend.Tracer); ok && !s.mute {
		s.seen.Result, err = t.Trace(ctx, s.backendStep(b), microBatches(b, s.program.MicroBatch), func(t backend.Traced) error {
			t.Values = slices.Clone(t.Values)
			s.seen.Traced = append(s.seen.Traced, t)
			return nil
		})
		if !errors.Is(err, backend.ErrUnsupported) {
			return err
		}
	}
	s.mute, s.seen.Traced = true, nil
	s.seen.Result, err = s.compute(ctx, b)
	return err
}
