package experiment

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"harness.invalid/core/durable"
	"harness.invalid/harness/lockstep"
	"harness.invalid/harness/processes"
	"harness.invalid/harness/train"
	"harness.invalid/results"
)

// Lockstep trains the two arms of an experiment side by side for a number of steps and says where they part. Both
// need the same optimizer. It leaves lockstep.json in the experiment's folder, and no runs. With resync the second
// side gets the state of the first before each step.
func Lockstep(ctx context.Context, e Experiment, steps int, resync bool) (_ *lockstep.Record, err error) {
	if len(e.Arms) != 2 || e.Arms[0].Optimizer != e.Arms[1].Optimizer {
		return nil, fmt.Errorf("lockstep follows two backends with one optimizer, and the experiment has %d arms", len(e.Arms))
	}
	s, err := prepare(ctx, e)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.begin(ctx, fmt.Sprintf("%d steps in lockstep", steps)); err != nil {
		return nil, err
	}
	if err := s.openStart(ctx); err != nil {
		return nil, err
	}
	r := &lockstep.Record{
		Recipe: s.Recipe.Name, Fingerprint: s.Recipe.Fingerprint(), DataDigest: s.data.Digest, Start: s.start, Seed: s.FirstSeed,
		Optimizer: optimizerName(s.Recipe, s.Arms[0].Optimizer), Resync: resync, Plugins: s.pool.Records(),
	}
	if err := s.follow(ctx, r, steps); err != nil {
		return nil, err
	}
	r.Conclude()
	return r, durable.WriteFile(filepath.Join(s.Dir, "lockstep.json"), r.WriteJSON)
}

// follow trains both sides and adds each step to the record.
func (s *Session) follow(ctx context.Context, r *lockstep.Record, steps int) (err error) {
	var taken []*processes.Set
	defer func() {
		for _, p := range taken {
			err = errors.Join(err, p.Close())
		}
	}()
	run := train.Lockstep{Steps: steps, Resync: r.Resync}
	for i, a := range s.Arms {
		p := s.precisions[a.Spec().String()]
		r.Sides[i] = lockstep.Side{
			Backend: a.Spec().String(), Precision: p.Name, OutputTolerance: p.OutputTolerance, GradientTolerance: p.GradientTolerance,
		}
		plugins, err := s.pool.Take(ctx, a.Backend)
		if err != nil {
			return err
		}
		taken = append(taken, plugins)
		run.Jobs[i] = s.job(a, plugins)
		run.Jobs[i].Seed, run.Jobs[i].Identity = s.FirstSeed, results.Identity{Backend: a.Spec().String()}
	}
	run.Observe = func(l *train.LockedStep) error {
		s.Observe.tell(StepLocked{l.Step, l.Steps})
		r.Add(l)
		return nil
	}
	if err := run.Run(ctx); err != nil {
		return err
	}
	if n := len(r.Steps); n < steps {
		r.Note(fmt.Sprintf("Phase %s has %d steps and not %d.", r.Phase, n, steps))
	}
	return nil
}
