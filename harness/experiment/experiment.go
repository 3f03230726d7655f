// Package experiment trains a recipe on several backends with several seeds and leaves runs that can be compared.
// It knows no command line and no terminal: harness compare is flags, one call of Run, and printing.
//
// Load reads a recipe with its overrides and data files. Run asks every plugin whether it accepts its settings,
// opens the data, plans the runs, and has an Executor train them. An Observer receives events meanwhile. Lockstep
// trains two arms side by side instead, and Predict runs a fine-tuned model over the examples of its task.
package experiment

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"harness.invalid/core/durable"
	"harness.invalid/core/plugin/host"
	"harness.invalid/core/recipe"
	"harness.invalid/core/spelling"
	"harness.invalid/results"
	"harness.invalid/results/verdict"
)

// Experiment says what is trained, on what, and where the runs are kept.
type Experiment struct {
	Recipe *recipe.Recipe // with its data files; see Load
	Arms   []Arm          // the first is what the others are compared with

	FirstSeed uint64
	Seeds     int           // seeds that follow each other, trained by every arm; 0: as many as the plan takes
	Plan      recipe.Plan   // fields override the recipe's plan; what Resume goes on with must not have another one
	Budget    time.Duration // after which no pair is begun; the first always is. 0: none
	Noise     bool          // train the first arm with as many other seeds as well (A/A)

	Dir    string // of the runs' folders; empty: a new folder, runs/RECIPE-TIME
	Resume bool   // continue the runs in Dir from their last checkpoints, and keep complete ones as they are
	// AllowChange lets runs go on with other kernels, another program or other plugins than those that they were begun
	// with.
	AllowChange bool
	Restarts    *int   // overrides the recipe's; nil: it does not
	SaveModel   bool   // leave each trained model in the folder train.ModelDir of its run, in Hugging Face's format
	Index       string // that the runs are entered in, see results/index; empty: none

	Transport host.Transport // empty: host.Memory
	Executor  Executor       // nil: Local
	Observe   Observer       // nil: nobody
}

// Outcome is what a finished experiment left.
type Outcome struct {
	Dir  string         // of the runs' folders
	Runs []*results.Run // all complete, in the order in which they were planned
	// Ended says why there are no more, and Further what going on takes for one that is OutOfBudget.
	Ended   End
	Further Further
	// FullSize are the modelled times of the recipe's counterpart.
	FullSize []verdict.FullSize
}

// Run trains all runs that are not complete yet. Under a sequential plan it adds seeds until every arm is decided, the
// plan ends or the budget is spent; an arm that is decided gets no further seed. If a run fails, the error is a RunError;
// if a recipe names a system that can't run it, an UnfitError; if Resume finds runs of another plan, a PlanError. When
// ctx ends, the current run saves a checkpoint, from which Resume continues.
func Run(ctx context.Context, e Experiment) (_ *Outcome, err error) {
	began := time.Now()
	if err := e.choosePlan(); err != nil {
		return nil, err
	}
	e.Observe.note("starting plugins")
	s, err := prepare(ctx, e)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err = errors.Join(err, s.close()); err != nil {
			err = errors.Join(err, s.tidy())
		}
	}()
	what := spelling.Count(len(s.plan(s.Arms, 0, s.seeds())), "run")
	if s.follows() && len(s.Arms) > 1 {
		what = "pairs until decided, " + what + " at most,"
	}
	if err := s.begin(ctx, what); err != nil {
		return nil, err
	}
	if err := s.model(ctx); err != nil {
		return nil, err
	}
	if err := s.openStart(ctx); err != nil {
		return nil, err
	}
	executor := e.Executor
	if executor == nil {
		executor = Local{}
	}
	p := pairs{Session: s, began: began, outcome: &Outcome{Dir: s.Dir}}
	if err := p.train(ctx, executor); err != nil {
		return nil, err
	}
	if len(s.Arms) > 1 {
		p.outcome.FullSize = s.fullSize(ctx)
	}
	return p.outcome, nil
}

// Compare compares the arms and saves the comparison beside the runs, in comparison.json.
func (o *Outcome) Compare() (*verdict.Comparison, error) {
	c, err := verdict.Compare(o.Runs)
	if err != nil {
		return nil, err
	}
	c.FullSize = o.FullSize
	return c, durable.WriteFile(filepath.Join(o.Dir, "comparison.json"), c.WriteJSON)
}
