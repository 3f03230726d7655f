package main

import (
	"io"

	"github.com/spf13/cobra"

	"harness.invalid/results/index"
)

func newRunsTag() *cobra.Command {
	var store, format string
	var remove []string
	cmd := &cobra.Command{
		Use:   "tag RUN TAG...",
		Short: "Add tags to a run, or remove them",
		Long: `Tag keeps the words in the run's folder, so that they survive a reindex, and in the index. Without a TAG it
prints those that the run has.`,
		Example: `  harness runs tag runs/mine/ipu-adamw-seed1 nightly good
  harness runs tag runs/mine/ipu-adamw-seed1 --remove good`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := index.OpenRun(cmd.Context(), store, args[0])
			if err != nil {
				return err
			}
			if len(args) > 1 || len(remove) > 0 {
				if err := r.Tag(args[1:], remove); err != nil {
					return err
				}
				if err := index.Use(cmd.Context(), store, func(x *index.Index) error { return x.Put(cmd.Context(), r) }); err != nil {
					return err
				}
			}
			tags, err := r.Tags()
			if err != nil {
				return err
			}
			return show(cmd, format, append([]string{}, tags...), func(w io.Writer) error { return printLines(w, tags) })
		},
	}
	storeFlag(cmd.Flags(), &store)
	cmd.Flags().StringSliceVar(&remove, "remove", nil, "tags to remove")
	addFormat(cmd, &format, "table")
	return cmd
}
