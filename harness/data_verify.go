package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"harness.invalid/core/dataset/pretraining"
	"harness.invalid/core/spelling"
)

// verifiedData says whether prepared data is as it was written.
type verifiedData struct {
	Folder    string `json:"folder"`
	Sequences int64  `json:"sequences"`
	Shards    int    `json:"shards"`
	Sound     bool   `json:"sound"`
	Fault     string `json:"fault,omitempty"`
}

func newDataVerify() *cobra.Command {
	var quiet bool
	var format string
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
			p := newProgress(cmd.ErrOrStderr(), quiet)
			defer p.close()
			observe, done := p.task("verify")
			err = data.Verify(observe)
			done()
			if errors.Is(err, pretraining.ErrInvalid) || errors.Is(err, fs.ErrNotExist) {
				v := verifiedData{Folder: args[0], Sequences: data.Sequences(), Shards: len(data.Shards), Fault: err.Error()}
				fmt.Fprintf(cmd.ErrOrStderr(), "harness: %v\n", err)
				if format == "json" {
					err = writeJSON(cmd.OutOrStdout(), v)
				} else {
					err = nil
				}
				return errors.Join(err, errFailed)
			}
			if err != nil {
				return err
			}
			v := verifiedData{Folder: args[0], Sequences: data.Sequences(), Shards: len(data.Shards), Sound: true}
			return show(cmd, format, v, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%s: %d sequences in %s are as they were written\n", v.Folder, v.Sequences,
					spelling.Count(v.Shards, "shard"))
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&quiet, "quiet", false, "no progress")
	addFormat(cmd, &format, "table")
	return cmd
}
