package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"harness.invalid/harness/plotting"
	"harness.invalid/harness/series"
	"harness.invalid/results/verdict"
)

// plotFormats draws what number formats did, which curves of other quantities have no part in.
func plotFormats(cmd *cobra.Command, folders []string, out, baseline string, o plotting.Options) error {
	for _, name := range []string{"against", "log", "smooth", "each-run"} {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s is of curves, and %s is drawn as a map", name, o.Quantity)
		}
	}
	runs, err := series.OpenRuns(folders, baseline)
	if err != nil {
		return err
	}
	if _, err := verdict.Compare(runs); err != nil {
		return err
	}
	return writeTo(cmd, out, func(w io.Writer) error { return plotting.WriteFormats(w, runs, o) })
}

func effectNames() []string {
	var names []string
	for _, e := range series.Effects {
		names = append(names, e.Name)
	}
	return names
}
