package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"harness.invalid/core/backend"
	"harness.invalid/core/durable"
	"harness.invalid/harness/lockstep"
	"harness.invalid/harness/processes"
	"harness.invalid/harness/report"
	"harness.invalid/harness/train"
	"harness.invalid/results"
)

// lockstepFlags are those of a comparison step by step.
type lockstepFlags struct {
	asked  bool
	steps  int
	resync bool
}

func (l *lockstepFlags) flags(f *pflag.FlagSet) {
	f.IntVar(&l.steps, "lockstep", 0, "train two backends side by side for so many steps and say where they part")
	f.BoolVar(&l.resync, "resync", false, "with --lockstep: before each step, give the second backend the weights and the optimizer's state of the first")
}

// check reports flags that do not go together.
func (l *lockstepFlags) check(e *experiment, f *pflag.FlagSet) error {
	l.asked = f.Changed("lockstep")
	switch {
	case !l.asked && l.resync:
		return withHint(errors.New("--resync is about --lockstep, which is not given"), "harness compare --backends gpu-ref,ipu --lockstep 20 --resync")
	case l.asked && l.steps < 1:
		return fmt.Errorf("--lockstep is %d, want at least 1", l.steps)
	case !l.asked:
		return nil
	}
	for _, name := range []string{"seeds", "aa", "resume", "save-model"} {
		if f.Changed(name) {
			return fmt.Errorf("--%s and --lockstep don't go together: it trains one seed (--seed) and keeps no runs", name)
		}
	}
	return nil
}

// lockstep trains two arms side by side and says where they part.
func (e *experiment) lockstep(cmd *cobra.Command, l lockstepFlags, f report.Format) (err error) {
	defer func() { err = errors.Join(err, e.pool.Close()) }()
	if len(e.arms) != 2 || e.arms[0].optimizer != e.arms[1].optimizer {
		return withHint(fmt.Errorf("--lockstep follows two backends with one optimizer, and --backends and --optimizers make %d arms", len(e.arms)),
			"harness compare --backends gpu-ref,ipu --lockstep %d", l.steps)
	}
	r, err := e.follow(cmd.Context(), l)
	e.progress.close()
	if err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(e.out, "lockstep.json"), r.WriteJSON); err != nil {
		return err
	}
	return r.Write(cmd.OutOrStdout(), report.Options{Format: f, Width: width(cmd.OutOrStdout()), Color: color(cmd.OutOrStdout())})
}

func (e *experiment) follow(ctx context.Context, l lockstepFlags) (_ *lockstep.Record, err error) {
	data, err := e.begin(fmt.Sprintf("%d steps in lockstep", l.steps))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	r := &lockstep.Record{
		Recipe: e.recipe.Name, Fingerprint: e.recipe.Fingerprint(), DataDigest: data.Digest, Seed: e.firstSeed, Optimizer: e.arms[0].shown.Optimizer,
		Resync: l.resync, Plugins: e.pool.Records(),
	}
	run := train.Lockstep{Steps: l.steps, Resync: l.resync}
	for i, a := range e.arms {
		var p backend.Precision // not :=, as what is deferred here sets the error that is returned
		var info backend.Info
		if info, err = e.pool.Backend(ctx, a.backend); err != nil {
			return nil, err
		}
		if p, err = info.Precision(a.resolved); err != nil {
			return nil, err
		}
		r.Sides[i] = side(a, p)
		var plugins *processes.Set
		if plugins, err = e.pool.Take(ctx, a.backend); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, plugins.Close()) }()
		run.Jobs[i] = train.Job{
			Recipe: e.recipe, Data: data, Backend: a.backend, Precision: a.precision, Optimizer: a.optimizer, Seed: e.firstSeed,
			Plugins: plugins, Identity: results.Identity{Backend: a.spec},
		}
	}
	tell, end := e.progress.task("lockstep")
	defer end()
	run.Observe = func(s *train.LockedStep) error {
		tell(int64(s.Step), int64(s.Steps))
		r.Add(s)
		return nil
	}
	if err := run.Run(ctx); err != nil {
		return nil, err
	}
	if n := len(r.Steps); n < l.steps {
		r.Note(fmt.Sprintf("Phase %s has %d steps and not %d.", r.Phase, n, l.steps))
	}
	r.Conclude()
	return r, nil
}

func side(a arm, p backend.Precision) lockstep.Side {
	return lockstep.Side{Backend: a.spec, Precision: p.Name, OutputTolerance: p.OutputTolerance, GradientTolerance: p.GradientTolerance}
}
