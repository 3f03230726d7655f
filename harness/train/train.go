// Package train runs a recipe on one backend with one seed: phase after phase, step after step. Batches come in from core/dataset, gradients from
// a backend, updates from an optimizer; out goes the record of the run.
//
// A step is
//
//	batch -> backend.Step -> gradients -> optimizer.Step -> parameters -> backend.Commit
//
// and the host owns everything that passes between them, so that a run can stop after any step and go on from its last checkpoint with the same
// bits.
package train

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/recipe"
	"harness.invalid/core/tensor"
	"harness.invalid/results"
)

// Plugins are the processes that a run uses, and the memory that they share with the host.
type Plugins interface {
	Backend() backend.Backend
	// Optimizer starts an optimizer, or returns the one of that name that runs.
	Optimizer(ctx context.Context, name string) (optimizer.Optimizer, error)
	// Allocate returns memory for a layout and the optimizer's slots. What was allocated before must not be used any more.
	Allocate(l *tensor.Layout, slots int) (Memory, error)
}

// Memory is what an optimizer works on; a backend sees its parameters and gradients.
type Memory = optimizer.Memory

// Job is one run.
type Job struct {
	Recipe    *recipe.Recipe
	Data      *Data
	Backend   string // name of the backend
	Precision string // empty: the recipe's, or the backend's default
	Optimizer string // empty: the recipe's
	Seed      uint64
	Plugins   Plugins
	Observe   Observer

	Dir         string // of the run's record, see results
	Identity    results.Identity
	Environment results.Environment
	// Resume goes on from the last checkpoint in Dir, if there is one.
	Resume bool
	// SaveModel leaves the trained model in the folder ModelDir of Dir, in Hugging Face's format.
	SaveModel bool
}

// ModelDir is the folder of a run in which SaveModel leaves the trained model.
const ModelDir = "model"

// run is a job that is under way.
type run struct {
	Job
	record  *results.Writer
	work    work
	digest  *batchDigest
	done    int // steps over all phases
	outcome results.Result

	// The model as the last phase left it, and the slots of its optimizer.
	layout *tensor.Layout
	params []float32
	slots  map[string][]float32
}

// Run trains all phases and records them in j.Dir. When ctx ends, it saves a checkpoint and returns ctx's error.
func Run(ctx context.Context, j Job) (_ *results.Result, err error) {
	if j.Observe == nil {
		j.Observe = func(Event) {}
	}
	r := &run{Job: j, digest: newBatchDigest()}
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
			err = errors.Join(err, r.record.Close())
		}
	}()
	if from != nil {
		defer from.Close()
	}
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
			return nil, fmt.Errorf("phase %s: %w", p.recipe.Name, err)
		}
	}
	r.outcome.Status = results.Complete
	r.outcome.BatchDigest = r.digest.sum()
	r.outcome.Finished, r.outcome.LoadAverage = time.Now().UTC(), results.LoadAverage()
	return &r.outcome, r.record.Finish(r.outcome)
}

// note adds a doubt that does not stop the run, once: a phase that is resumed begins again.
func (r *run) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(r.outcome.Notes, text) {
		r.outcome.Notes = append(r.outcome.Notes, text)
	}
}

// prepare settles what a phase will run, so that a bad setting ends the run before it began.
func (r *run) prepare(i int) (*phase, error) {
	p, err := r.program(i)
	if err != nil {
		return nil, err
	}
	p.schedule = p.recipe.Schedule.With(p.update.LearningRate)
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
	p.update = p.recipe.OptimizerNamed(r.Optimizer)
	return p, nil
}

// initial fills a phase's parameters: those that the phase before had, by name, in the first phase those of the model to start from, and initial
// values for the rest.
func (r *run) initial(config bert.Config, l *tensor.Layout, params []float32) error {
	clear(params)
	for _, t := range l.Tensors() {
		if r.layout != nil {
			if before, ok := r.layout.Lookup(t.Name); ok && before.Len() == t.Len() {
				copy(t.Of(params), before.Of(r.params))
				continue
			}
		}
		r.Recipe.Model.Initializer.Tensor(config, t, t.Of(params), r.Seed)
	}
	if r.layout != nil || r.Data.model == nil {
		return nil
	}
	missing, err := r.Data.loadModel(l, params)
	if slices.ContainsFunc(missing, func(name string) bool { return strings.HasPrefix(name, "bert.pooler.") }) {
		r.note("the model to start from has no pooler: it was initialised, like the head on top of it")
	}
	return err
}

// carry fills the slots of a phase's optimizer with what the phase before left there, by the names of slots and tensors. The rest stays as it is.
func (r *run) carry(l *tensor.Layout, names []string, slots [][]float32) {
	for i, name := range names {
		for _, t := range l.Tensors() {
			if before, ok := r.layout.Lookup(t.Name); ok && before.Len() == t.Len() && r.slots[name] != nil {
				copy(t.Of(slots[i]), before.Of(r.slots[name]))
			}
		}
	}
}
