package main

import (
	"github.com/spf13/cobra"

	"harness.invalid/harness/report"
	"harness.invalid/results"
	"harness.invalid/results/index"
)

// shownRun is a run with its record.
type shownRun struct {
	ID          string              `json:"id"`
	Dir         string              `json:"dir"`
	Identity    results.Identity    `json:"identity"`
	Tags        []string            `json:"tags"`
	Environment results.Environment `json:"environment"`
	Status      results.Status      `json:"status"`
	Why         string              `json:"why,omitempty"` // the run stands
	Result      *results.Result     `json:"result"`
}

func newRunsShow() *cobra.Command {
	var store, format string
	cmd := &cobra.Command{
		Use:     "show RUN",
		Short:   "Show what a run was, where it took place, and its results",
		Example: `  harness runs show runs/mine/ipu-adamw-seed1`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := report.ParseFormat(format)
			if err != nil {
				return err
			}
			r, err := index.OpenRun(cmd.Context(), store, args[0])
			if err != nil {
				return err
			}
			tags, err := r.Tags()
			if err != nil {
				return err
			}
			if f == report.JSON {
				state, why := r.State()
				return writeJSON(cmd.OutOrStdout(), shownRun{r.ID, r.Dir, r.Identity, tags, r.Environment, state, why, r.Result})
			}
			return printSheet(cmd, report.RunSheet(r, tags), f)
		},
	}
	storeFlag(cmd.Flags(), &store)
	cmd.Flags().StringVar(&format, "format", "table", report.Formats)
	return cmd
}
