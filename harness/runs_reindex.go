package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"harness.invalid/core/spelling"
	"harness.invalid/results/index"
)

// reindexed says what an index holds.
type reindexed struct {
	Index      string `json:"index"`
	Runs       int    `json:"runs"`
	Gone       int    `json:"gone"`        // known before, and their folders are no more
	PassedOver int    `json:"passed_over"` // folders that could not be read
}

func newRunsReindex() *cobra.Command {
	var store, format string
	cmd := &cobra.Command{
		Use:   "reindex [FOLDER...]",
		Short: "Rebuild the index from the folders of runs",
		Long: `Reindex looks for runs in and below the folders (default: runs) and wherever the index knows one on this
machine, and rebuilds the index from what it finds. What other machines added stays.`,
		Example: `  harness runs reindex
  harness runs reindex runs`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				if _, err := os.Stat("runs"); err == nil {
					args = []string{"runs"}
				}
			}
			return index.Use(cmd.Context(), store, func(x *index.Index) error {
				done, err := x.Rebuild(cmd.Context(), args...)
				if err != nil {
					return err
				}
				for _, err := range done.Broken {
					fmt.Fprintf(cmd.ErrOrStderr(), "passed over: %v\n", err)
				}
				if format == "json" {
					return writeJSON(cmd.OutOrStdout(), reindexed{x.Location(), done.Runs, done.Gone, len(done.Broken)})
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s in %s\n", spelling.Count(done.Runs, "run"), x.Location())
				if done.Gone > 0 {
					fmt.Fprintf(cmd.OutOrStdout(), "%d were known whose folders are gone\n", done.Gone)
				}
				return nil
			})
		},
	}
	storeFlag(cmd.Flags(), &store)
	addFormat(cmd, &format, "table")
	return cmd
}
