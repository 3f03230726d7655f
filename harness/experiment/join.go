package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"harness.invalid/core/bert"
	"harness.invalid/harness/train"
	"harness.invalid/results"
)

// Plan lists what Run trains first: all runs, or those of a sequential plan before its first look. It asks the plugins,
// as Run does, and makes nothing.
func Plan(ctx context.Context, e Experiment, wave int) (_ *Session, _ []Planned, err error) {
	if err := e.choosePlan(); err != nil {
		return nil, nil, err
	}
	s, err := prepare(ctx, e)
	if err != nil {
		return nil, nil, err
	}
	k := s.seeds()
	if s.follows() {
		k = min(k, wave)
	}
	return s, s.plan(s.Arms, 0, k), s.close()
}

// Join trains one run of an experiment that another process began, in the same folder: the data and the start model are
// there. A run that was begun goes on. want is what the other process planned; if anything differs here, nothing is
// trained.
func Join(ctx context.Context, e Experiment, p Planned, want results.Identity) (_ *results.Run, err error) {
	e.Arms, e.Resume = []Arm{p.Arm}, true
	s, err := prepare(ctx, e)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	s.joins = true
	if err := s.begin(ctx, p.Name); err != nil {
		return nil, err
	}
	if err := s.openStart(ctx); err != nil {
		return nil, err
	}
	is, err := s.Identity(p)
	if err != nil {
		return nil, err
	}
	if is != want {
		return nil, fmt.Errorf("%s: planned as %+v, and here it is %+v: is this machine's harness, its plugins and its files the same?",
			p.Name, want, is)
	}
	return s.Train(ctx, p)
}

// Identity is what a planned run will be of.
func (s *Session) Identity(p Planned) (results.Identity, error) {
	job, err := s.planJob(p)
	return job.Identity, err
}

// Open opens planned runs, in their order, which other processes trained. Where they were trained does not matter. A run
// that is not complete, or of another recipe, arm or data set, is an error.
func (s *Session) Open(plan []Planned) ([]*results.Run, error) {
	jobs, dirs := make([]train.Job, len(plan)), make([]string, len(plan))
	for i, p := range plan {
		var err error
		if jobs[i], err = s.planJob(p); err != nil {
			return nil, err
		}
		dirs[i] = jobs[i].Dir
	}
	runs, err := results.OpenAll(dirs)
	if err != nil {
		return nil, err
	}
	for i, r := range runs {
		if err := jobs[i].Continues(r); err != nil {
			return nil, err
		}
		if status, why := r.State(); status != results.Complete {
			return nil, fmt.Errorf("%s: it is %s: %s", plan[i].Name, status, why)
		}
	}
	return runs, nil
}

// Enter adds a run that another process trained to the index.
func (s *Session) Enter(ctx context.Context, dir string) { s.enter(ctx, dir) }

// Keep keeps the folder of the experiment even if it has no run yet: other processes work there.
func (s *Session) Keep() { s.made = nil }

// Made lists the files that processes which join the experiment must see, relative to its folder, with their sizes.
func (s *Session) Made() (map[string]int64, error) {
	sizes := map[string]int64{}
	for _, dir := range []string{"", dataFolder} {
		entries, err := os.ReadDir(filepath.Join(s.Dir, dir))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			n := e.Name()
			if !e.Type().IsRegular() || n == "lock" || strings.HasPrefix(n, ".") || dir == "" && !strings.HasPrefix(n, startPrefix) {
				continue
			}
			info, err := e.Info()
			if err != nil {
				return nil, err
			}
			sizes[filepath.Join(dir, e.Name())] = info.Size()
		}
	}
	return sizes, nil
}

// LeastMemory is what a planned run needs at least, in bytes: parameters, gradients and the copy of the parameters that a
// checkpoint is written from, in FP32. Optimizer, activations and the backend's own copies come on top.
func (s *Session) LeastMemory(p Planned) (int64, error) {
	most := 0
	r := p.Arm.recipe(s.Recipe)
	for i := range r.Phases {
		program, err := r.Program(&r.Phases[i], p.Backend, p.Precision, s.data.Tokenizer.Vocab().Len(), p.Seed)
		if err != nil {
			return 0, err
		}
		layout, err := bert.Parameters(program.Model, program.Head)
		if err != nil {
			return 0, err
		}
		most = max(most, layout.Parameters())
	}
	return 3 * 4 * int64(most), nil
}
