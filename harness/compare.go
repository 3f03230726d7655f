package main

import (
	"errors"

	"github.com/spf13/cobra"

	"harness.invalid/harness/dispatch"
	"harness.invalid/harness/experiment"
	"harness.invalid/harness/hint"
	"harness.invalid/harness/report"
)

const compareHelp = `Compare trains one recipe on each backend (and with each optimizer), one run after the other, each backend and
optimizer in a process of its own. All runs of a seed see the same data in the same order and start from the same parameters. Then
it prints a table of what was measured, with the difference of each to the first, and a verdict against the margins of the recipe.

Seeds are added, in whole pairs, until each arm is shown to be equivalent to the first or different from it in the recipe's primary
metric, until --budget does not suffice for another pair, or until --max-seeds. The plan looks at the data after 6 pairs and after
each one from then on, at levels that keep wrong verdicts to 5% over all looks; seeds that --resume adds go on with it. When the
first pair shows that the budget does not suffice for 6, the comparison ends there and says what a verdict would take. --seeds N
trains N pairs instead and judges them once.

A backend or an optimizer may bring options of its own, NAME?OPTION=VALUE&OPTION=VALUE, so that settings are compared: they
override the recipe's in all phases. Commas separate arms; an arm with a comma in a value is put in double quotes within the flag:
--backends 'ipu,"ipu?pipeline=1,1"'.

With --lockstep N two backends train side by side instead, N steps of the recipe's first phase on the same batches, without
dropout. After each step the activations, gradients and weights of both are compared: it says in which step and at which operator
they first differ by more than their number formats allow, and the likely reason. Each goes on from its own weights, so that the
difference grows with the steps; --resync gives the second those of the first before each step, and what is left is the difference
of a step by itself.

With --jobs N so many runs are trained at once on this machine, and with --on slurm they are tasks of one array on a cluster:
docs/clusters.md says how. All runs have the same bits wherever they are trained.

The exit code is 0 when all runs came to their end, whatever the verdict, 2 when one could not, and 130 when it was stopped;
--resume goes on.`

// other is an example of backends to compare, of which the first is that of an arm.
func other(a experiment.Arm) string {
	if a.Backend == "gpu-ref" {
		return a.Spec().String() + ",ipu"
	}
	return a.Spec().String() + ",gpu-ref"
}

func newCompare() *cobra.Command {
	var t training
	var backends, optimizers []string
	var format string
	var follow lockstepFlags
	var plan planFlags
	var on machineFlags
	cmd := &cobra.Command{
		Use:   "compare --backends A,B",
		Short: "Train a recipe on several backends and compare accuracy and time",
		Long:  compareHelp,
		Example: `  harness compare --backends ipu,gpu-ref
  harness compare --backends gpu-ref:fp32,gpu-ref:fp16,ipu:fp16.16 --budget 30m
  harness compare --backends ipu,gpu-ref --out runs/mine --resume --budget 10m
  harness compare --backends ipu,gpu-ref --from-scratch --dry-run
  harness compare --backends ipu,gpu-ref --seeds 10 --aa
  harness compare --backends ipu,gpu-ref --from-scratch --budget 1h
  harness compare --backends ipu,gpu-ref --optimizers adamw,lamb --format markdown
  harness compare --backends ipu,gpu-ref --set backends.ipu.options.stochastic_rounding=false
  harness compare --backends 'ipu,ipu:fp16.16?stochastic_rounding=false&loss_scale=1'
  harness compare --backends gpu-ref --optimizers 'adamw,adamw?weight_decay=0'
  harness compare --backends ipu,gpu-ref --seeds 10 --on slurm --slurm partition=cpu,time=2:00:00 --out runs/mine
  harness compare --backends gpu-ref,gpu-ref:fp16 --lockstep 20
  harness compare --backends gpu-ref,ipu --lockstep 20 --resync --out runs/parted --format csv > tensors.csv
  harness compare --backends ipu,gpu-ref --recipe tiny-wiki-squad --data text=wiki.txt --data vocab=vocab.txt \
      --data squad.train=train-v1.1.json --data squad.dev=dev-v1.1.json --out runs/wiki`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := report.ParseFormat(format)
			if err != nil {
				return err
			}
			if err := plan.apply(&t.Experiment, cmd.Flags()); err != nil {
				return err
			}
			switch {
			case len(backends) == 0 && t.Resume && dispatch.Submitted(t.Dir):
				return on.watch(cmd, &t, t.Dir, f)
			case len(backends) == 0:
				return hint.With(errors.New("--backends names no backend"), "harness compare --backends ipu,gpu-ref")
			}
			if t.Arms, err = experiment.Arms(backends, optimizers); err != nil {
				return err
			}
			if err := follow.check(t.Arms, cmd.Flags()); err != nil {
				return err
			}
			if err := t.load(); err != nil {
				return err
			}
			if follow.asked {
				return follow.run(cmd, &t, f)
			}
			return on.compare(cmd, &t, &plan, f)
		},
	}
	t.flags(cmd.Flags())
	t.scratchFlag(cmd.Flags())
	cmd.Flags().StringSliceVar(&backends, "backends", nil,
		"backends to compare, each NAME, NAME:PRECISION or either with ?OPTION=VALUE&...; the others are compared with the first")
	cmd.Flags().StringSliceVar(&optimizers, "optimizers", nil,
		"optimizers to train each with, NAME or NAME?OPTION=VALUE&... (default: the recipe's)")
	plan.flags(cmd.Flags())
	cmd.Flags().Uint64Var(&t.FirstSeed, "seed", 1, "the first seed")
	cmd.Flags().BoolVar(&t.Noise, "aa", false,
		"also train the first backend with as many other seeds (A/A): a difference no greater than theirs is not claimed")
	cmd.Flags().StringVar(&format, "format", "table", report.Formats)
	follow.flags(cmd.Flags())
	on.flags(cmd.Flags())
	completeTraining(cmd)
	return cmd
}
