package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"harness.invalid/results/index"
)

func newRuns() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "List, show, compare, tag, export and remove runs",
		Long: `Runs finds runs in an index: a SQLite file beside them, or a PostgreSQL database that a team shares
(--store). The folders of the runs remain the source of truth: reindex rebuilds the index from them. Training adds
each run to the index.

A RUN is the beginning of an id, as list prints it, or a folder.`,
	}
	cmd.AddCommand(newRunsList(), newRunsShow(), newRunsDiff(), newRunsTag(), newRunsExport(), newRunsRemove(), newRunsReindex(),
		newRunsWatch(), newRunsExecute())
	return cmd
}

// storeFlag adds the flag that names the index of runs.
func storeFlag(f *pflag.FlagSet, store *string) {
	f.StringVar(store, "store", "", "index of runs: the path of a SQLite file, or postgres://USER@HOST/DATABASE (default $"+index.Variable+
		", or "+index.DefaultPath+")")
}
