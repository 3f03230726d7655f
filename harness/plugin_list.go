package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"harness.invalid/harness/catalog"
	"harness.invalid/harness/hint"
)

func newPluginList() *cobra.Command {
	var format string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the plugins that are built in or were found",
		Long: `List shows all backends and optimizers: those that are built in, and executables named harness-backend-NAME or harness-optimizer-NAME, or folders of
that name with such an executable in them, in the folders of $HARNESS_PLUGIN_PATH, in the user's plugin folder, and in $PATH.

Each is started for a moment and asked what it is. One that does not answer, or can't be used, is a row that says why.`,
		Example: `  harness plugin list
  harness plugin list --format json
  HARNESS_PLUGIN_PATH=build harness plugin list --timeout 1m`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != "table" && format != "json" {
				return fmt.Errorf("--format is %q, want table or json", format)
			}
			if timeout <= 0 {
				return fmt.Errorf("--timeout is %v, want more than 0", timeout)
			}
			list, err := catalog.List()
			if err != nil {
				return err
			}
			rows := askAll(cmd.Context(), list, timeout)
			if err := cmd.Context().Err(); err != nil {
				return err
			}
			if format == "json" {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(rows)
			}
			return printList(cmd.OutOrStdout(), rows)
		},
	}
	cmd.Flags().StringVar(&format, "format", "table", "table or json")
	cmd.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "how long a plugin may take to answer")
	return cmd
}

// listing is a row of the list.
type listing struct {
	description
	Like  []string `json:"like,omitempty"`  // the row stands for plugins of these names
	Error string   `json:"error,omitempty"` // why it can't be used
}

// atOnce is how many plugins are asked at a time: most of what they do is to start, and that takes the CPU.
const atOnce = 4

// askAll asks plugins what they are, several at a time. The order of the rows is theirs.
func askAll(ctx context.Context, list []catalog.Entry, timeout time.Duration) []listing {
	rows := make([]listing, len(list))
	var asked sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i, e := range list {
		asked.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			rows[i] = askOne(ctx, e, timeout)
		})
	}
	asked.Wait()
	return rows
}

func askOne(ctx context.Context, e catalog.Entry, timeout time.Duration) listing {
	row := listing{Like: e.Family}
	var err error
	if e.Note != "" || e.Family != nil {
		row.Error = e.Note
		if row.description, err = described(e); err != nil && row.Error == "" {
			row.Error = err.Error()
		}
		return row
	}
	// Patience is about the start alone, and nothing bounds the calls of a plugin that is attached.
	e.Patience = timeout
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %v", timeout))
	defer cancel()
	if row.description, err = describePlugin(ctx, e, nil); err != nil {
		row.Error = err.Error()
		if advice := hint.Of(err); advice != "" {
			row.Error += "; " + advice
		}
	}
	return row
}

func printList(out io.Writer, rows []listing) error {
	t := newTable(out, "kind", "name", "version", "precisions; capabilities; options", "where", "SHA-256")
	for _, r := range rows {
		takes, where := r.takes(), r.Path
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
		if err := t.Append(string(r.Kind), r.Name, r.Version, takes, where, fmt.Sprintf("%.12s", r.SHA256)); err != nil {
			return err
		}
	}
	return t.Render()
}

// takes are the names of a backend's precisions, what a plugin can do beyond what all do, and the options with their defaults.
func (d *description) takes() string {
	var precisions, options []string
	for _, p := range d.Precisions {
		precisions = append(precisions, p.Name)
	}
	for _, o := range d.Options {
		options = append(options, o.Name+"="+o.Default)
	}
	var capabilities []string
	for _, c := range d.capabilities() {
		capabilities = append(capabilities, c.name)
	}
	var groups []string
	for _, g := range []string{strings.Join(precisions, " "), strings.Join(capabilities, ", "), strings.Join(options, " ")} {
		if g != "" {
			groups = append(groups, g)
		}
	}
	return strings.Join(groups, "; ")
}
