package train

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"harness.invalid/core/backend"
	"harness.invalid/core/checkpoint"
	"harness.invalid/core/dataset"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/plugin/host"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/pretrained"
)

// phase is one phase of a run.
type phase struct {
	*run
	index    int
	recipe   *recipe.Phase
	settings recipe.Backend
	program  backend.Program
	rule     recipe.Optimizer
	schedule recipe.Schedule
	set      set
	steps    int
	resume   *checkpoint.Checkpoint // where to go on; nil: at the beginning
	resumed  *standing              // there

	clock      modelledClock
	unmodelled error // why there is no clock although the backend has a model; nil: there is one, or no model
	memory     Memory
	slotNames  []string
	session    backend.Session
	optimizer  optimizer.Session
	check      *checker
	extensions
	position dataset.Position // of the next batch
	private  []byte           // the backend's own state at the last step, which outlives its process
	// between says that parameters and slots in memory are those after the last step: no plugin has begun to change them.
	between bool
	phaseTotals
}

// train runs the phase from where it stands to its end.
func (p *phase) train(ctx context.Context) (err error) {
	p.Seconds = map[string]float64{}
	start := time.Now()
	if err := p.open(ctx); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, p.session.Close(), p.optimizer.Close())
	}()
	p.lap(partSetup, start)
	if err := p.loop(ctx); err != nil {
		return err
	}
	metrics, err := p.conclude(ctx)
	if err != nil {
		return err
	}
	p.finish(metrics)
	p.keepParameters()
	if p.index < len(p.Recipe.Phases)-1 {
		p.handOver()
		return nil
	}
	if p.SaveModel {
		m := pretrained.Trained{
			Recipe: p.Recipe, Phase: p.recipe, Model: p.program.Model, Tokenizer: p.Data.folderTokenizer,
			Layout: p.memory.Layout, Params: p.memory.Params,
		}
		return m.Save(p.record.Path(ModelDir))
	}
	return nil
}

// handOver copies what the next phase starts from, since the shared memory is about to be allocated anew.
func (p *phase) handOver() {
	p.layout, p.params, p.slots = p.memory.Layout, slices.Clone(p.memory.Params), nil
	if !p.Recipe.Phases[p.index+1].CarryOptimizerState {
		return
	}
	p.slots = make(map[string][]float32)
	for i, name := range p.slotNames {
		p.slots[name] = slices.Clone(p.memory.Slots[i])
	}
}

// loop does the steps that are left, and saves a checkpoint after the last one or when ctx ends.
func (p *phase) loop(ctx context.Context) error {
	source, err := p.set.source()
	if err != nil {
		return err
	}
	if err := source.Seek(p.position); err != nil {
		return err
	}
	feed, stop := context.WithCancel(ctx)
	batches := prefetch(feed, source, p.steps-p.Step)
	defer func() {
		stop()
		for range batches { // until it is closed, the source is in use
		}
	}()
	for p.Step < p.steps && !p.Stopped {
		err := p.advance(ctx, batches)
		switch {
		case err == nil:
		case errors.Is(err, host.ErrDied):
			return errors.Join(err, p.rescue())
		case ctx.Err() != nil:
			return errors.Join(context.Cause(ctx), p.saveInterrupted(ctx))
		default:
			return err
		}
	}
	return p.save(ctx)
}

// advance does one step, and before and after it what is due: an evaluation, other options, a checkpoint.
func (p *phase) advance(ctx context.Context, batches <-chan loaded) error {
	if p.evaluationDue() {
		if _, err := p.evaluate(ctx, false); err != nil || p.Stopped {
			return err
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := p.changeOptions(ctx); err != nil {
		return fmt.Errorf("step %d: other options: %w", p.Step+1, err)
	}
	if err := p.step(ctx, batches); err != nil {
		return fmt.Errorf("step %d: %w", p.Step+1, err)
	}
	if err := p.saver.poll(); err != nil {
		return err
	}
	if p.checkpointDue() {
		return p.saveBeside(ctx)
	}
	return nil
}

// evaluationDue reports whether to evaluate before the next step. The evaluation after the last step is not among
// these.
func (p *phase) evaluationDue() bool {
	every := p.recipe.Evaluation.Every
	return every > 0 && p.Step > 0 && p.Step%every == 0 && p.Evaluated != p.Step
}

// checkpointDue reports whether to save a checkpoint within the phase.
func (p *phase) checkpointDue() bool {
	if p.Step == p.steps {
		return false // the phase saves one
	}
	if every := p.recipe.CheckpointEvery; every > 0 {
		return p.Step%every == 0
	}
	return p.saver.due(time.Now())
}
