package main

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"harness.invalid/harness/experiment"
	"harness.invalid/harness/hint"
	"harness.invalid/harness/report"
	"harness.invalid/results"
	"harness.invalid/results/baselines"
	"harness.invalid/results/index"
	"harness.invalid/results/regression"
)

// errUndecided is returned by a check that did its work and can say neither yes nor no; the reason has been printed.
var errUndecided = errors.New("undecided")

func newCheck() *cobra.Command {
	var t training
	var shown checkOutput
	var on machineFlags
	var baseline string
	var tolerances []string
	cmd := &cobra.Command{
		Use:   "check [RUN...]",
		Short: "Check runs against a baseline: did something get worse?",
		Long: `Check compares runs with a baseline and says what moved. Without a RUN it trains the baseline's recipe, each
of its arms with its first seeds (--seeds). Without --baseline it uses the built-in baseline scratch.

Exact facts must be equal: the data, the batches and their order, figures of a machine model, and, on the same kernel
path, the bits of all losses under a seed. On another path the losses must agree within a tolerance. Sampled facts are
accuracy, steps to the target, and the time of a step on the same machine. They hold if they are no worse than the
tolerance at the baseline's α, have regressed if they are worse by more than the tolerance and by more than chance, and
are undecided otherwise, with the number of further seeds that would decide. The table states change, tolerance, noise
and power.

The time of a step is that of a run's fastest one, which other work on the machine disturbs least. Comparing it by
ranks takes 3 runs on each side, and some 10 on a machine that others use as well; with fewer runs than the test takes,
times are not compared, and a note says so. Train both programs in turns: a machine that has become slower looks like a
slower program.

The exit code is 0 when all facts hold, are waived or are not compared, 1 when one has regressed, 2 when the check could
not run, and 3 when none has regressed and one is undecided.`,
		Example: `  harness check
  harness check --baseline my-baseline.json runs/mine
  harness check --baseline my-baseline.json --junit check.xml --format markdown runs/mine`,
		RunE: func(cmd *cobra.Command, args []string) error {
			began := time.Now()
			f, err := report.ParseFormat(shown.format)
			if err != nil {
				return err
			}
			b, err := baselines.OpenAny(baseline)
			if err != nil {
				return err
			}
			if err := setTolerances(b, tolerances); err != nil {
				return err
			}
			var runs []*results.Run
			if len(args) > 0 {
				runs, err = index.OpenRuns(cmd.Context(), t.store, args)
			} else {
				runs, err = t.repeat(cmd, b, &on)
			}
			if err != nil {
				return err
			}
			c, err := b.Check(baseline, runs, time.Now())
			if err != nil {
				return err
			}
			return shown.tell(cmd, c, f, began)
		},
	}
	t.flags(cmd.Flags())
	cmd.Flags().Lookup("recipe").Usage = "recipe to train, where it is not a built-in one (default: the baseline's)"
	cmd.Flags().Lookup("recipe").DefValue = ""
	cmd.Flags().IntVar(&t.Seeds, "seeds", 1, "how many of the baseline's seeds to train, without a RUN")
	cmd.Flags().StringVar(&baseline, "baseline", "scratch", "built-in baseline ("+strings.Join(baselines.Names(), ", ")+"), or a file")
	cmd.Flags().StringArrayVar(&tolerances, "tolerance", nil, "change a tolerance, such as step_seconds=0.1 or squad.f1=1 (repeatable)")
	shown.flags(cmd.Flags())
	on.waitingFlags(cmd.Flags())
	completeTraining(cmd)
	return cmd
}

// repeat trains the arms of a baseline with its first seeds.
func (t *training) repeat(cmd *cobra.Command, b *regression.Baseline, on *machineFlags) (_ []*results.Run, err error) {
	if !cmd.Flags().Changed("recipe") {
		t.source.Recipe = b.Recipe
	}
	if t.FirstSeed, err = b.FirstSeed(t.Seeds); err != nil {
		return nil, err
	}
	if err := t.load(); err != nil {
		return nil, hint.With(err, "where the baseline's recipe is a file, name it with --recipe")
	}
	if err := b.CheckRecipe(t.Recipe); err != nil {
		return nil, err
	}
	for _, a := range b.Arms {
		arm, err := experiment.ArmOf(t.Recipe, results.Arm{Backend: a.Backend, Optimizer: a.Optimizer})
		if err != nil {
			return nil, err
		}
		t.Arms = append(t.Arms, arm)
	}
	if err := on.apply(&t.Experiment, cmd.Flags()); err != nil {
		return nil, err
	}
	o, err := t.run(cmd)
	if err != nil {
		return nil, err
	}
	return o.Runs, nil
}
