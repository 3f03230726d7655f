package experiment

import (
	"context"
	"errors"
	"os"

	"harness.invalid/harness/train"
	"harness.invalid/results"
)

// Turns times so many steps of each phase of the recipe on all arms, which take turns step by step, from initial values.
// It keeps nothing.
func Turns(ctx context.Context, e Experiment, steps int, observe func(*train.TimedPhase) error) (err error) {
	s, err := prepare(ctx, e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	dir, err := os.MkdirTemp("", "harness-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if s.data, err = train.OpenData(s.Recipe, dir, func(what string) { s.Observe.note("%s", what) }); err != nil {
		return err
	}
	run := train.Turns{Steps: steps, Observe: observe}
	for _, a := range s.Arms {
		plugins, err := s.pool.Take(ctx, a.Backend)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, plugins.Close()) }()
		job := s.job(a, plugins)
		job.Seed, job.Identity = s.FirstSeed, results.Identity{Backend: a.Spec().String()}
		run.Jobs = append(run.Jobs, job)
	}
	return run.Run(ctx)
}
