package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"harness.invalid/harness/experiment"
	"harness.invalid/harness/hint"
	"harness.invalid/harness/report"
)

// lockstepFlags are those of a comparison step by step.
type lockstepFlags struct {
	asked  bool
	steps  int
	resync bool
}

func (l *lockstepFlags) flags(f *pflag.FlagSet) {
	f.IntVar(&l.steps, "lockstep", 0, "train two backends side by side for so many steps and say where they part")
	f.BoolVar(&l.resync, "resync", false,
		"with --lockstep: before each step, give the second backend the weights and the optimizer's state of the first")
}

// check reports flags and arms that do not go together.
func (l *lockstepFlags) check(arms []experiment.Arm, f *pflag.FlagSet) error {
	l.asked = f.Changed("lockstep")
	switch {
	case !l.asked && l.resync:
		return hint.With(errors.New("--resync is about --lockstep, which is not given"),
			"harness compare --backends gpu-ref,ipu --lockstep 20 --resync")
	case l.asked && l.steps < 1:
		return fmt.Errorf("--lockstep is %d, want at least 1", l.steps)
	case !l.asked:
		return nil
	}
	for _, name := range []string{"seeds", "until", "budget", "max-seeds", "aa", "resume", "save-model", "dry-run"} {
		if f.Changed(name) {
			return fmt.Errorf("--%s and --lockstep don't go together: it trains one seed (--seed) and keeps no runs", name)
		}
	}
	if len(arms) != 2 || arms[0].Optimizer != arms[1].Optimizer {
		return hint.With(fmt.Errorf("--lockstep follows two backends with one optimizer, and --backends and --optimizers make %d arms",
			len(arms)),
			"harness compare --backends gpu-ref,ipu --lockstep %d", l.steps)
	}
	return nil
}

// run trains two arms side by side and says where they part.
func (l *lockstepFlags) run(cmd *cobra.Command, t *training, f report.Format) error {
	p := newProgress(cmd.ErrOrStderr(), t.quiet)
	t.Observe = p.observe
	r, err := experiment.Lockstep(cmd.Context(), t.Experiment, l.steps, l.resync)
	p.close()
	if err != nil {
		return advise(err)
	}
	out := cmd.OutOrStdout()
	return r.Write(out, report.Options{Format: f, Width: width(out), Color: color(out)})
}
