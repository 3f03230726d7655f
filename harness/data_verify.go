package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"harness.invalid/core/dataset/pretraining"
)

func newDataVerify() *cobra.Command {
	var quiet bool
	cmd := &cobra.Command{
		Use:     "verify FOLDER",
		Short:   "Check prepared data against its sums",
		Example: `  harness data verify wiki-128`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := pretraining.OpenPrepared(args[0])
			if err != nil {
				return err
			}
			show := newProgress(cmd.ErrOrStderr(), quiet)
			defer show.close()
			observe, done := show.task("verify")
			err = data.Verify(observe)
			done()
			if errors.Is(err, pretraining.ErrInvalid) || errors.Is(err, fs.ErrNotExist) {
				fmt.Fprintf(cmd.ErrOrStderr(), "harness: %v\n", err)
				return errFailed
			}
			if err == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %d sequences in %d shards are as they were written\n", args[0], data.Sequences(), len(data.Shards))
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&quiet, "quiet", false, "no progress")
	return cmd
}
