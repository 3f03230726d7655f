package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"harness.invalid/harness/hint"
	"harness.invalid/results/index"
)

// removedRun is a run that was removed, or would be.
type removedRun struct {
	ID      string `json:"id"`
	Dir     string `json:"dir"`
	Removed bool   `json:"removed"`
}

func newRunsRemove() *cobra.Command {
	var store, where, format string
	var keep, yes bool
	cmd := &cobra.Command{
		Use:   "rm RUN...",
		Short: "Remove runs, with their folders",
		Long: `Rm removes runs from the index and deletes their folders, unless --keep-files is given. With --where it only
prints what it would remove, unless --yes is given. It refuses runs whose folders are on another machine, except with
--keep-files.`,
		Example: `  harness runs rm 3f2a91
  harness runs rm --where 'status=failed' --yes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 0) == (where == "") {
				return hint.With(errors.New("name runs, or say which with --where"), "harness runs list shows their ids")
			}
			return index.Use(cmd.Context(), store, func(x *index.Index) error {
				list, err := x.Select(cmd.Context(), args, where)
				if err != nil {
					return err
				}
				for _, e := range list {
					if !x.Here(e) && !keep {
						return fmt.Errorf("run %s: its folder %s is on %s; --keep-files removes it from the index alone", e.ID, e.Dir, e.Host)
					}
				}
				all := []removedRun{}
				for _, e := range list {
					done := "removed"
					switch {
					case where != "" && !yes:
						done = "would remove"
					case keep:
						err = x.Remove(cmd.Context(), e.ID)
					default:
						err = x.Delete(cmd.Context(), e)
					}
					if errors.Is(err, index.ErrMoved) {
						err = hint.With(err, "harness runs reindex brings the index up to date")
					}
					if err != nil {
						return err
					}
					if format != "json" {
						fmt.Fprintf(cmd.OutOrStdout(), "%s %s  %s\n", done, e.ID, e.Dir)
					}
					all = append(all, removedRun{e.ID, e.Dir, done == "removed"})
				}
				if format == "json" {
					return writeJSON(cmd.OutOrStdout(), all)
				}
				return nil
			})
		},
	}
	storeFlag(cmd.Flags(), &store)
	cmd.Flags().StringVar(&where, "where", "", "remove the runs that match this filter")
	cmd.Flags().BoolVar(&keep, "keep-files", false, "only forget the runs, and keep their folders")
	cmd.Flags().BoolVar(&yes, "yes", false, "remove what --where finds")
	addFormat(cmd, &format, "table")
	return cmd
}
