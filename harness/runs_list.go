package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"harness.invalid/harness/report"
	"harness.invalid/results"
	"harness.invalid/results/index"
)

// whereDoc explains --where.
const whereDoc = `A filter compares columns (id, recipe, backend, precision, optimizer, seed, status, started, finished, dir,
host, version, cpu, steps, skipped, measured_seconds), metrics (f1, phase1.masked_lm_loss, squad.steps_to_target ...)
and tag by =, !=, <, <=, >, >= and ~ (contains), joined by and, or, not and brackets. Quote words that contain blanks.`

func newRunsList() *cobra.Command {
	var store, where, format string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List runs",
		Long:  "List prints one line per run, the oldest first.\n\n" + whereDoc,
		Example: `  harness runs list
  harness runs list --where 'backend=ipu and f1>80'
  harness runs list --where "tag=nightly and not status=complete" --format json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := report.ParseFormat(format)
			if err != nil {
				return err
			}
			return index.Use(cmd.Context(), store, func(x *index.Index) error {
				list, err := x.List(cmd.Context(), where)
				if err != nil {
					return err
				}
				if f == report.JSON {
					return writeJSON(cmd.OutOrStdout(), list)
				}
				return printSheet(cmd, listSheet(list), f)
			})
		},
	}
	storeFlag(cmd.Flags(), &store)
	cmd.Flags().StringVar(&where, "where", "", "list only the runs that match this filter")
	cmd.Flags().StringVar(&format, "format", "table", report.Formats)
	return cmd
}

// listSheet has a row for each run, with the metric that says most about it.
func listSheet(list []index.Entry) *report.Sheet {
	s := &report.Sheet{Columns: []report.Column{{Name: "id"}, {Name: "started"}, {Name: "recipe"}, {Name: "backend"}, {Name: "optimizer"},
		{Name: "seed", Right: true}, {Name: "status"}, {Name: "result", Right: true},
		{Name: "measured seconds", Key: "measured_seconds", Right: true}, {Name: "tags"}, {Name: "folder", Key: "dir"}}}
	for _, e := range list {
		seconds := ""
		if e.MeasuredSeconds > 0 {
			seconds = strconv.FormatFloat(e.MeasuredSeconds, 'f', 1, 64)
		}
		mark := report.Plain
		switch e.Status {
		case results.Failed, results.BrokenOff:
			mark = report.Bad
		case results.Unfinished, results.Stopped:
			mark = report.Doubt
		}
		row := report.Texts(e.ID, startedText(e), e.Recipe, e.Backend, e.Optimizer, strconv.FormatUint(e.Seed, 10), string(e.Status),
			headline(e), seconds, strings.Join(e.Tags, " "), shortPath(e.Dir))
		row[1].Value, row[6].Mark, row[10].Value = e.Started, mark, e.Dir
		if e.MeasuredSeconds > 0 {
			row[8].Value = e.MeasuredSeconds
		}
		s.Rows = append(s.Rows, row)
	}
	return s
}

// startedText is the time to the minute, in UTC.
func startedText(e index.Entry) string {
	if len(e.Started) < 16 {
		return e.Started
	}
	return strings.Replace(e.Started[:16], "T", " ", 1)
}

// mostWhy is how much is shown of why a run stands.
const mostWhy = 40

// headline is the best known metric that a run has, or why it stands.
func headline(e index.Entry) string {
	if why, _, _ := strings.Cut(e.Error, "\n"); why != "" {
		if len(why) > mostWhy {
			why = strings.ToValidUTF8(why[:mostWhy], "") + "..."
		}
		return why
	}
	for _, name := range []string{"f1", "accuracy", "masked_lm_loss", "loss"} {
		if v, ok := e.Metrics[name]; ok {
			return fmt.Sprintf("%s %.4g", name, v)
		}
	}
	return ""
}

// shortPath is a path as seen from the working folder where that is shorter.
func shortPath(path string) string {
	if here, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(here, path); err == nil && len(rel) < len(path) {
			return rel
		}
	}
	return path
}
