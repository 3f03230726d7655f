package main

import (
	"errors"

	"github.com/spf13/cobra"

	"harness.invalid/harness/experiment"
	"harness.invalid/harness/hint"
	"harness.invalid/harness/report"
)

func newRun() *cobra.Command {
	var t training
	var backend, optimizer, format string
	cmd := &cobra.Command{
		Use:   "run --backend B",
		Short: "Train a recipe once on one backend",
		Example: `  harness run --backend gpu-ref --recipe quick --seed 7
  harness run --backend ipu:fp16.32 --set phases.phase1.steps=50 --out runs/short
  harness run --backend ipu --resume --out runs/short`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := report.ParseFormat(format)
			if err != nil {
				return err
			}
			if backend == "" {
				return hint.With(errors.New("--backend names no backend"), "harness run --backend gpu-ref")
			}
			if t.Arms, err = experiment.Arms([]string{backend}, []string{optimizer}); err != nil {
				return err
			}
			if err := t.load(); err != nil {
				return err
			}
			t.Seeds = 1
			if t.dryRun {
				return t.rehearse(cmd, f)
			}
			_, err = t.runAndCompare(cmd, f)
			return err
		},
	}
	t.flags(cmd.Flags())
	t.scratchFlag(cmd.Flags())
	t.dryRunFlag(cmd.Flags())
	cmd.Flags().StringVar(&backend, "backend", "", "backend, NAME, NAME:PRECISION or either with ?OPTION=VALUE&...")
	cmd.Flags().StringVar(&optimizer, "optimizer", "", "optimizer, NAME or NAME?OPTION=VALUE&... (default: the recipe's)")
	cmd.Flags().Uint64Var(&t.FirstSeed, "seed", 1, "seed of everything random")
	cmd.Flags().StringVar(&format, "format", "table", report.Formats)
	completeTraining(cmd)
	return cmd
}
