package experiment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"harness.invalid/core/backend"
	"harness.invalid/core/kernels"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/catalog"
	"harness.invalid/harness/processes"
	"harness.invalid/harness/train"
	"harness.invalid/results"
	"harness.invalid/results/index"
)

// Session is an experiment whose plugins have answered and whose data is open.
type Session struct {
	Experiment
	pool       *processes.Pool
	data       *train.Data
	start      string                       // digest of the model that runs start from; empty: none
	precisions map[string]backend.Precision // that will run, by the text of Arm.Spec
	made       []string                     // folders that were not there before
	joins      bool                         // another process made the data and the start model
}

// prepare asks every plugin whether it accepts its settings, so that a wrong name fails before anything is trained.
// The processes that answered wait for the first run of their backend, since some plugins take seconds to start.
// The optimizers of the first arm wait with its backend.
func prepare(ctx context.Context, e Experiment) (_ *Session, err error) {
	if len(e.Arms) == 0 {
		return nil, errors.New("the experiment has no arm")
	}
	if err := train.CheckFiles(e.Recipe); err != nil {
		return nil, err
	}
	if n := e.Restarts; n != nil {
		if *n < 0 || *n > recipe.MostRestarts {
			return nil, fmt.Errorf("restarts is %d, want 0 to %d", *n, recipe.MostRestarts)
		}
		changed := *e.Recipe
		changed.Restarts = *n
		e.Recipe = &changed
	}
	s := &Session{Experiment: e, precisions: map[string]backend.Precision{}}
	s.pool = processes.NewPool(processes.Options{Transport: e.Transport, Output: e.Observe})
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	for i, a := range e.Arms {
		if err := s.askBackend(ctx, a); err != nil {
			return nil, err
		}
		if shown := a.recorded(e.Recipe); slices.ContainsFunc(e.Arms[:i], func(b Arm) bool { return b.recorded(e.Recipe) == shown }) {
			return nil, fmt.Errorf("%s with %s is asked for twice", shown.Backend, shown.Optimizer)
		}
	}
	return s, s.askOptimizers(ctx)
}

// askBackend asks the backend of an arm whether it takes the settings of all phases, and its policy where it names one.
func (s *Session) askBackend(ctx context.Context, a Arm) error {
	info, err := s.pool.Backend(ctx, a.Backend)
	if err == nil {
		err = s.namePolicy(a, info)
	}
	if err != nil {
		return err
	}
	for i := range s.Recipe.Phases {
		settings := a.recipe(s.Recipe).ForBackend(a.Backend, a.Precision, s.Recipe.Phases[i].Name)
		if err := processes.Takes(info, settings); err != nil {
			return err
		}
		if i == 0 {
			if s.precisions[a.Spec().String()], err = processes.Precision(info, settings); err != nil {
				return err
			}
		}
	}
	return nil
}

// askOptimizers asks all optimizers whether they take the options of all phases.
func (s *Session) askOptimizers(ctx context.Context) error {
	var optimizers []string
	for _, a := range s.Arms {
		if !slices.Contains(optimizers, a.Optimizer) {
			optimizers = append(optimizers, a.Optimizer)
		}
	}
	asked := map[string]bool{}
	for i, o := range optimizers {
		with := s.Arms[0].Backend
		if i > 0 {
			with = "" // the first run would not find it
		}
		for i := range s.Recipe.Phases {
			p := &s.Recipe.Phases[i]
			u := p.OptimizerNamed(o)
			key := fmt.Sprint(u)
			if asked[key] {
				continue
			}
			asked[key] = true
			if err := s.pool.Optimizer(ctx, u, with); err != nil {
				return fmt.Errorf("phase %s: %w", p.Name, err)
			}
		}
	}
	return nil
}

func (s *Session) close() error {
	err := s.pool.Close()
	if s.data != nil {
		err = errors.Join(err, s.data.Close())
	}
	return err
}

// job is a training job of an arm, without what belongs to a single run.
func (s *Session) job(a Arm, plugins train.Plugins) train.Job {
	return train.Job{
		Recipe: a.recipe(s.Recipe), Data: s.data, Backend: a.Backend, Precision: a.Precision, Optimizer: a.Optimizer, Plugins: plugins,
	}
}

// model asks the backends of arms that name a system whether the system can run the recipe, so that no arm is
// trained before another one turns out not to fit. A single arm asks when its run begins.
func (s *Session) model(ctx context.Context) error {
	if len(s.Arms) < 2 {
		return nil
	}
	for _, a := range s.Arms {
		named := func(p recipe.Phase) bool {
			return a.recipe(s.Recipe).ForBackend(a.Backend, a.Precision, p.Name).Options["system"] != ""
		}
		if !slices.ContainsFunc(s.Recipe.Phases, named) {
			continue
		}
		plugins, err := s.pool.Waiting(ctx, a.Backend)
		if err != nil {
			return err
		}
		if err := s.job(a, plugins).Model(ctx); err != nil {
			return s.explainUnfit(fmt.Errorf("%s: %w", a.Spec(), err), a)
		}
	}
	return nil
}

// indexGrace is how long entering a run may take.
const indexGrace = 10 * time.Second

// enter adds a run to the index or updates it there, also one that was stopped, when ctx is over. A failure is only noted:
// the index can be rebuilt, the run can't.
func (s *Session) enter(ctx context.Context, dir string) {
	if s.Index == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), indexGrace)
	defer cancel()
	err := index.Use(ctx, s.Index, func(x *index.Index) error {
		r, err := results.Open(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it failed before its first step was done
		}
		if err != nil {
			return err
		}
		return x.Put(ctx, r)
	})
	if err != nil {
		s.Observe.note("the run is not in the index: %v (harness runs reindex makes up for it)", err)
	}
}

// environment describes where runs are trained, for their records.
func (s *Session) environment() (env results.Environment, err error) {
	env = results.CaptureEnvironment(s.pool.Records()...)
	env.Kernels = kernels.Path()
	env.ProgramSHA256, err = catalog.ProgramHash()
	return env, err
}
