package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"harness.invalid/harness/catalog"
	"harness.invalid/harness/extension"
)

func newPluginList() *cobra.Command {
	var format string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List all plugins, built-in or found",
		Long: `List shows all backends and optimizers: the built-in ones, and executables named harness-backend-NAME or
harness-optimizer-NAME, or folders of that name with such an executable in them, in the folders of
$HARNESS_PLUGIN_PATH, in your plugin folder, and in $PATH.

It starts each for a moment and asks what it is. For one that does not answer or can't be used, the row says why.
harness plugin inspect has the defaults of options and what they do; --format json has all, with SHA-256 of the programs.`,
		Example: `  harness plugin list
  harness plugin list --format json
  HARNESS_PLUGIN_PATH=build harness plugin list --timeout 1m`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := tableOrJSON(format); err != nil {
				return err
			}
			if timeout <= 0 {
				return fmt.Errorf("--timeout is %v, want more than 0", timeout)
			}
			list, err := catalog.List()
			if err != nil {
				return err
			}
			rows := extension.List(cmd.Context(), list, timeout)
			if err := cmd.Context().Err(); err != nil {
				return err
			}
			if format == "json" {
				return writeJSON(cmd.OutOrStdout(), rows)
			}
			return printList(cmd.OutOrStdout(), rows)
		},
	}
	cmd.Flags().StringVar(&format, "format", "table", "table or json")
	cmd.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "how long a plugin may take to answer")
	return cmd
}

func printList(out io.Writer, rows []extension.Listing) error {
	t := newTable(out, "kind", "name", "version", "precisions; capabilities; options", "where")
	t.prose = true
	for _, r := range rows {
		takes, where := r.Takes(), r.Path
		switch {
		case r.Error != "":
			takes = r.Error
		case r.Like != nil:
			takes = "such as " + strings.Join(r.Like, ", ")
		}
		switch {
		case r.BuiltIn:
			where = "built in"
		case r.Attached != "":
			where = "attached at " + r.Attached
		case r.Pinned:
			where += " (pinned)"
		}
		t.add(string(r.Kind), r.Name, r.Version, takes, where)
	}
	return t.print()
}
