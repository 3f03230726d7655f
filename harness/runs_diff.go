package main

import (
	"github.com/spf13/cobra"

	"harness.invalid/harness/report"
	"harness.invalid/results"
	"harness.invalid/results/index"
)

func newRunsDiff() *cobra.Command {
	var store, format string
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Show how two runs differ: recipe, environment, plugins, then results",
		Long: `Diff goes from cause to effect: identity, recipe, machine and program, plugins with their hashes, and then
results, with the first step at which the bits of a loss differ. It leaves out fields that are equal.`,
		Example: `  harness runs diff runs/mine/ipu-adamw-seed1 runs/mine/gpu-ref-adamw-seed1`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := report.ParseFormat(format)
			if err != nil {
				return err
			}
			a, err := index.OpenRun(cmd.Context(), store, args[0])
			if err != nil {
				return err
			}
			b, err := index.OpenRun(cmd.Context(), store, args[1])
			if err != nil {
				return err
			}
			d, err := results.Diff(a, b)
			if err != nil {
				return err
			}
			if f == report.JSON {
				return writeJSON(cmd.OutOrStdout(), d)
			}
			return printSheet(cmd, report.DiffSheet(d), f)
		},
	}
	storeFlag(cmd.Flags(), &store)
	cmd.Flags().StringVar(&format, "format", "table", report.Formats)
	return cmd
}
