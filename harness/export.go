package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"harness.invalid/harness/export"
	"harness.invalid/harness/hint"
	"harness.invalid/harness/series"
)

func newExport() *cobra.Command {
	var to, out string
	var formats strings.Builder
	for _, f := range export.Formats {
		fmt.Fprintf(&formats, "\n  %-12s %s", f.Name, f.Doc)
	}
	cmd := &cobra.Command{
		Use:   "export --to FORMAT RUN...",
		Short: "Write runs for TensorBoard, MLflow, benchstat and other tools",
		Long: `Export writes what runs recorded in the formats of other tools. RUN is the folder of a run, or a folder with
runs below. -o is a folder, or a file where one holds all runs; what another export has left there is replaced.

Formats:` + formats.String() + `

For a tracking server MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, say who is writing.`,
		Example: `  harness export --to tensorboard runs/mine -o events
  harness export --to parquet runs/mine -o runs.parquet
  harness export --to gobench runs/mine
  harness export --to mlflow runs/mine -o mlruns`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if to == "" {
				return hint.With(errors.New("--to names no format"), "one of %s", strings.Join(export.Names(), ", "))
			}
			f, err := export.Named(to)
			if err != nil {
				return err
			}
			if out == "" && f.Folder {
				return hint.With(fmt.Errorf("-o names no folder for %s", f.Doc), "harness export --to %s %s -o %s", to, args[0], to)
			}
			records, err := series.Open(args, "")
			if err != nil {
				return err
			}
			if out == "" || out == "-" && !f.Folder {
				return f.Write(cmd.OutOrStdout(), records)
			}
			return f.To(cmd.Context(), out, records)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "format: "+strings.Join(export.Names(), ", "))
	cmd.Flags().StringVarP(&out, "output", "o", "",
		"folder or file to write, or the address of an MLflow server (default for a file: standard output)")
	_ = cmd.RegisterFlagCompletionFunc("to", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return export.Names(), cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}
