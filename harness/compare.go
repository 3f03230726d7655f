package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"harness.invalid/core/durable"
	"harness.invalid/harness/report"
	"harness.invalid/results/verdict"
)

func newCompare() *cobra.Command {
	var e experiment
	var backends, optimizers []string
	var format string
	var follow lockstepFlags
	cmd := &cobra.Command{
		Use:   "compare --backends A,B",
		Short: "Train a recipe on several backends and compare accuracy and time",
		Long: `Compare trains one recipe on each backend (and with each optimizer) for each seed, one run after the other, each backend and optimizer in a process
of its own. All runs see the same data in the same order and start from the same parameters. Then it prints a table of what was measured,
with the difference of each to the first, and a verdict against the margins of the recipe.

With --lockstep N two backends train side by side instead, N steps of the recipe's first phase on the same batches, without dropout, and after each step
the activations, gradients and weights of both are held against each other: it says in which step and at which operator they first differ by more than
their number formats allow, and the likely reason. Each goes on from its own weights, so that the difference grows with the steps; --resync gives the
second those of the first before each step, and what is left is the difference of a step by itself.

The exit code is 0 when all runs came to their end, whatever the verdict, 2 when one could not, and 130 when it was stopped; --resume goes on.`,
		Example: `  harness compare --backends ipu,gpu-ref
  harness compare --backends gpu-ref:fp32,gpu-ref:fp16,ipu:fp16.16 --seeds 3
  harness compare --backends ipu,gpu-ref --seeds 10 --aa
  harness compare --backends ipu,gpu-ref --optimizers adamw,lamb --format markdown
  harness compare --backends ipu,gpu-ref --set backends.ipu.options.stochastic_rounding=false
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
			if e.seeds < 1 {
				return fmt.Errorf("--seeds is %d, want at least 1", e.seeds)
			}
			if e.noise && e.seeds < 2 {
				return withHint(fmt.Errorf("--aa with --seeds %d: two groups of one run have no variance", e.seeds), "use --seeds 3 or more")
			}
			if len(backends) == 0 {
				return withHint(errors.New("--backends names no backend"), "harness compare --backends ipu,gpu-ref")
			}
			if err := follow.check(&e, cmd.Flags()); err != nil {
				return err
			}
			if err := e.load(); err != nil {
				return err
			}
			e.progress = newProgress(cmd.ErrOrStderr(), e.quiet)
			if err := e.arrange(cmd.Context(), backends, optimizers); err != nil {
				return err
			}
			if follow.asked {
				return e.lockstep(cmd, follow, f)
			}
			runs, err := e.train(cmd.Context())
			e.progress.close()
			if err != nil {
				return err
			}
			c, err := verdict.Compare(runs)
			if err != nil {
				return err
			}
			return e.tell(cmd, c, f)
		},
	}
	e.flags(cmd.Flags())
	cmd.Flags().StringSliceVar(&backends, "backends", nil, "backends to compare, NAME or NAME:PRECISION, the first is what the others are held against")
	cmd.Flags().StringSliceVar(&optimizers, "optimizers", nil, "optimizers to train each with (default: the recipe's)")
	cmd.Flags().IntVar(&e.seeds, "seeds", 1, "number of seeds; a verdict needs several")
	cmd.Flags().Uint64Var(&e.firstSeed, "seed", 1, "the first seed")
	cmd.Flags().BoolVar(&e.noise, "aa", false, "also train the first backend with as many other seeds (A/A): a difference below what they differ by is not claimed")
	cmd.Flags().StringVar(&format, "format", "table", report.Formats)
	follow.flags(cmd.Flags())
	e.complete(cmd)
	return cmd
}

// tell prints a comparison and keeps it beside the runs.
func (e *experiment) tell(cmd *cobra.Command, c *verdict.Comparison, f report.Format) error {
	if err := durable.WriteFile(filepath.Join(e.out, "comparison.json"), c.WriteJSON); err != nil {
		return err
	}
	return report.Write(cmd.OutOrStdout(), c, report.Options{Format: f, Width: width(cmd.OutOrStdout()), Color: color(cmd.OutOrStdout())})
}
