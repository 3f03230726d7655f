package experiment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"harness.invalid/core/filename"
	"harness.invalid/harness/train"
	"harness.invalid/results"
)

// Executor decides where runs are trained, in which order, and how many at once. A run needs its Planned and the
// experiment, and leaves its folder.
type Executor interface {
	// Execute trains the planned runs and returns them in the order of the plan. It stops at the first one that fails
	// and returns its RunError.
	Execute(ctx context.Context, s *Session, plan []Planned) ([]*results.Run, error)
	// Wave is how many seeds Execute gets at once while it depends on the runs so far whether further ones are trained.
	Wave() int
}

// Local trains the runs in this process, one after the other.
type Local struct{}

var _ Executor = Local{}

// Execute implements Executor.
func (Local) Execute(ctx context.Context, s *Session, plan []Planned) ([]*results.Run, error) {
	var runs []*results.Run
	for _, p := range plan {
		r, err := s.Train(ctx, p)
		if err != nil {
			return nil, err
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// RunError is the error that a run ended with.
type RunError struct {
	Run     string // its name
	Dir     string // of the experiment
	Stopped bool   // the context ended: Resume continues the run
	Err     error
}

func (e *RunError) Error() string { return e.Run + ": " + e.Err.Error() }

// Unwrap returns the error without the name of the run.
func (e *RunError) Unwrap() error { return e.Err }

// Wave implements Executor.
func (Local) Wave() int { return 1 }

// Train trains one run in this process. When the experiment is resumed and the run is already complete, Train only
// opens it. Calls must not overlap.
func (s *Session) Train(ctx context.Context, p Planned) (*results.Run, error) {
	r, err := s.train(ctx, p)
	if err != nil {
		return nil, s.explainUnfit(&RunError{Run: p.Name, Dir: s.Dir, Stopped: ctx.Err() != nil, Err: err}, p.Arm)
	}
	return r, nil
}

// planJob is the training job of a planned run, without its plugins and its environment.
func (s *Session) planJob(p Planned) (job train.Job, err error) {
	shown := p.Arm.recorded(s.Recipe)
	job = s.job(p.Arm, nil)
	job.Seed, job.Resume, job.AllowChange, job.SaveModel = p.Seed, s.Resume, s.AllowChange, s.SaveModel
	job.Restarts = s.Recipe.Restarts
	if job.Dir, err = filename.Join(s.Dir, p.Name); err != nil {
		return job, fmt.Errorf("run of %s: %w", p.Arm.Spec(), err)
	}
	job.Identity = results.Identity{
		Recipe: s.Recipe.Name, Fingerprint: s.Recipe.Fingerprint(), DataDigest: s.data.Digest, Start: s.start,
		Backend: shown.Backend, Precision: s.precisions[p.Spec().String()].Name, Optimizer: shown.Optimizer, Seed: p.Seed,
	}
	return job, nil
}

func (s *Session) train(ctx context.Context, p Planned) (*results.Run, error) {
	job, err := s.planJob(p)
	if err != nil {
		return nil, err
	}
	if job.Environment, err = s.environment(); err != nil {
		return nil, err
	}
	if s.Resume {
		if before, err := completed(&job); before != nil || err != nil {
			if err == nil {
				s.Observe.note("%s: complete", p.Name)
			}
			return before, err
		}
	}
	plugins, err := s.pool.Take(ctx, p.Backend)
	if err != nil {
		return nil, err
	}
	job.Plugins, job.Environment.Transport = plugins, string(plugins.Transport())
	s.Observe.tell(RunStarted{p.Name})
	defer s.Observe.tell(RunEnded{p.Name})
	entered := false
	job.Observe = func(e train.Event) {
		if !entered {
			entered = true
			s.enter(ctx, job.Dir)
		}
		s.Observe.tell(RunAdvanced{p.Name, e})
	}
	_, err = train.Run(ctx, job)
	if err != nil && entered {
		s.enter(ctx, job.Dir)
	}
	if err := errors.Join(err, plugins.Close()); err != nil {
		return nil, err
	}
	s.enter(ctx, job.Dir)
	return results.Open(job.Dir)
}

// completed returns the run in the job's folder if it is complete, and nil if it is not or if there is none. A run
// of another recipe, arm or data set is an error.
func completed(j *train.Job) (*results.Run, error) {
	before, err := results.Open(j.Dir)
	if err == nil {
		err = j.Continues(before)
	}
	if err == nil {
		_, err = j.Changes(before)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case before.Result != nil && before.Result.Status == results.Complete:
		return before, nil
	}
	return nil, nil
}
