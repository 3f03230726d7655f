package main

import (
	"errors"

	"github.com/spf13/cobra"

	"harness.invalid/harness/report"
	"harness.invalid/results/verdict"
)

func newRun() *cobra.Command {
	var e experiment
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
				return withHint(errors.New("--backend names no backend"), "harness run --backend gpu-ref")
			}
			if err := e.load(); err != nil {
				return err
			}
			e.seeds = 1
			e.progress = newProgress(cmd.ErrOrStderr(), e.quiet)
			if err := e.arrange(cmd.Context(), []string{backend}, []string{optimizer}); err != nil {
				return err
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
	cmd.Flags().StringVar(&backend, "backend", "", "backend, NAME or NAME:PRECISION")
	cmd.Flags().StringVar(&optimizer, "optimizer", "", "optimizer (default: the recipe's)")
	cmd.Flags().Uint64Var(&e.firstSeed, "seed", 1, "seed of everything random")
	cmd.Flags().StringVar(&format, "format", "table", report.Formats)
	e.complete(cmd)
	return cmd
}
