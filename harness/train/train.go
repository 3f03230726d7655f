// Package train runs a recipe on one backend with one seed: phase after phase, step after step. Batches come from
// core/dataset, gradients from a backend, updates from an optimizer; the record of the run goes to results.
//
// A step (step.go) is
//
//	batch -> backend.Step -> gradients -> optimizer.Step -> parameters -> backend.Commit -> record
//
// The host owns everything that passes between the plugins, so a run can stop after any step and continue from its
// last checkpoint with the same bits.
package train

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"harness.invalid/core/backend"
	"harness.invalid/core/checkpoint"
	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/recipe"
	"harness.invalid/core/tensor"
	"harness.invalid/results"
)

// Plugins are the processes that a run uses, and the memory that they share with the host.
type Plugins interface {
	Backend() backend.Backend
	// Optimizer starts an optimizer, or returns the one of that name that is running.
	Optimizer(ctx context.Context, name string) (optimizer.Optimizer, error)
	// Allocate returns memory for a layout and the optimizer's slots. It ends the use of the memory that it returned
	// before.
	Allocate(l *tensor.Layout, slots int) (Memory, error)
}

// Memory is what an optimizer works on. A backend sees its parameters and gradients.
type Memory = optimizer.Memory

// Job is one run.
type Job struct {
	Recipe    *recipe.Recipe
	Data      *Data
	Backend   string // its name
	Precision string // empty: the recipe's, or the backend's default
	Optimizer string // empty: the recipe's
	Seed      uint64
	Plugins   Plugins
	Observe   Observer

	Dir         string // of the run's record, see results
	Identity    results.Identity
	Environment results.Environment
	// Resume continues from the last checkpoint in Dir, if there is one.
	Resume bool
	// AllowChange lets a run go on with other kernels, another program or other plugins, which may change bits.
	AllowChange bool
	// SaveModel leaves the trained model in the folder ModelDir of Dir, in Hugging Face's format.
	SaveModel bool
	// Restarts is how often the plugins are started again after one of them died; see Restarter.
	Restarts int
	// KeepParameters is a file that gets the parameters of all phases, as the last phase that has them leaves them; empty:
	// none. Such a run can't be resumed.
	KeepParameters string
}

// ModelDir is the folder of a run in which SaveModel leaves the trained model.
const ModelDir = "model"

// run is a job that is under way.
type run struct {
	Job
	record  *results.Writer
	created bool // record was, by this process
	saver   *saver
	work    work
	digest  *batchDigest
	done    int // steps in all phases
	outcome results.Result

	// The model at the end of the last phase, and the slots of its optimizer.
	layout *tensor.Layout
	params []float32
	slots  map[string][]float32
	kept   map[string]weights.Content // for KeepParameters
}

// once trains all phases that are left.
func (j *Job) once(ctx context.Context, died *deaths) (_ *results.Result, err error) {
	r := &run{Job: *j, digest: newBatchDigest(), saver: newSaver()}
	phases := make([]*phase, len(r.Recipe.Phases))
	for i := range phases {
		if phases[i], err = r.prepare(i); err != nil {
			return nil, err
		}
		r.work.total += tokens(phases[i].recipe, phases[i].steps)
	}
	if err := model(ctx, phases); err != nil {
		return nil, err
	}
	from, err := r.begin()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.saver.wait())
		}
		switch {
		case err == nil:
		case r.created && r.done == 0:
			err = errors.Join(err, r.record.Discard())
		default:
			err = errors.Join(err, r.record.Stop(stopOf(ctx, err)), r.record.Close())
		}
	}()
	if from != nil {
		defer from.Close()
	}
	died.note(r, from)
	if err := r.trainPhases(ctx, phases, from); err != nil {
		return nil, err
	}
	if err := r.writeParameters(); err != nil {
		return nil, err
	}
	r.outcome.Status = results.Complete
	r.outcome.BatchDigest = r.digest.sum()
	r.outcome.Finished, r.outcome.LoadAverage = time.Now().UTC(), results.LoadAverage()
	return &r.outcome, r.record.Finish(r.outcome)
}

// stopOf says why a run stands: somebody stopped it, or it failed.
func stopOf(ctx context.Context, err error) results.Stop {
	s := results.Stop{Status: results.Failed, Reason: err.Error(), Time: time.Now().UTC()}
	if ctx.Err() != nil {
		s.Status, s.Reason = results.Stopped, context.Cause(ctx).Error()
	}
	return s
}

// trainPhases trains the phases in order, from a checkpoint unless that is nil.
func (r *run) trainPhases(ctx context.Context, phases []*phase, from *checkpoint.Checkpoint) error {
	for _, p := range phases {
		if p.unmodelled != nil {
			r.Observe(Event{Phase: p.recipe.Name, Steps: p.steps, Doubt: fmt.Sprintf("no modelled time: %v", p.unmodelled)})
		}
	}
	for i, p := range phases {
		if from != nil && i < from.PhaseIndex {
			r.work.done += tokens(p.recipe, p.steps)
			continue
		}
		if from != nil && i == from.PhaseIndex {
			p.resume = from
			r.work.done += tokens(p.recipe, from.Step)
		}
		if i == 0 || p.resume != nil {
			r.work.start()
		}
		if err := p.train(ctx); err != nil {
			return fmt.Errorf("phase %s: %w", p.recipe.Name, err)
		}
	}
	return nil
}

// note adds a doubt that does not stop the run. It adds it once, although a phase that is resumed begins again.
func (r *run) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(r.outcome.Notes, text) {
		r.outcome.Notes = append(r.outcome.Notes, text)
	}
}

// prepare settles what a phase will run, so that a bad setting ends the run before it begins.
func (r *run) prepare(i int) (*phase, error) {
	p, err := r.program(i)
	if err != nil {
		return nil, err
	}
	p.schedule = p.recipe.Schedule.With(p.rule.LearningRate)
	if p.set, err = r.Data.open(r.Recipe, p.recipe, r.Seed); err != nil {
		return nil, fmt.Errorf("phase %s: %w", p.recipe.Name, err)
	}
	p.steps = p.recipe.TotalSteps(p.set.sequences())
	return p, nil
}

// program settles what the backend runs in a phase.
func (r *run) program(i int) (*phase, error) {
	p := &phase{run: r, index: i, recipe: &r.Recipe.Phases[i]}
	var err error
	if p.program, err = r.Recipe.Program(p.recipe, r.Backend, r.Precision, r.Data.Tokenizer.Vocab().Len(), r.Seed); err != nil {
		return nil, err
	}
	p.settings = r.Recipe.ForBackend(r.Backend, r.Precision, p.recipe.Name)
	p.rule = p.recipe.OptimizerNamed(r.Optimizer)
	return p, nil
}
