package main

import (
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"harness.invalid/core/durable"
	"harness.invalid/harness/report"
	"harness.invalid/results/index"
)

func newRunsExport() *cobra.Command {
	var store, where, format, output string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write everything that the index knows of runs, as CSV or JSON",
		Long:  "Export writes one line per run with all columns and every metric that any of them has, at full precision.\n\n" + whereDoc,
		Example: `  harness runs export --where 'recipe=quick' --output runs.csv
  harness runs export --format json`,
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
				write := func(w io.Writer) error {
					if f == report.JSON {
						return writeJSON(w, list)
					}
					return report.WriteSheet(w, exportSheet(list), report.Options{Format: f})
				}
				if output == "" {
					return write(cmd.OutOrStdout())
				}
				return durable.WriteFile(output, write)
			})
		},
	}
	storeFlag(cmd.Flags(), &store)
	cmd.Flags().StringVar(&where, "where", "", "export only the runs that match this filter")
	cmd.Flags().StringVar(&format, "format", "csv", report.Formats)
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to a file")
	return cmd
}

func exportSheet(list []index.Entry) *report.Sheet {
	s := &report.Sheet{}
	for _, name := range []string{"id", "host", "dir", "recipe", "fingerprint", "data_digest", "backend", "precision", "optimizer", "seed",
		"status", "error", "started", "finished", "version", "cpu", "steps", "skipped", "measured_seconds", "tags"} {
		s.Columns = append(s.Columns, report.Column{Name: name})
	}
	names := map[string]bool{}
	for _, e := range list {
		for name := range e.Metrics {
			names[name] = true
		}
	}
	metrics := slices.Sorted(maps.Keys(names))
	for _, name := range metrics {
		s.Columns = append(s.Columns, report.Column{Name: name, Right: true})
	}
	full := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	for _, e := range list {
		row := report.Texts(e.ID, e.Host, e.Dir, e.Recipe, e.Fingerprint, e.DataDigest, e.Backend, e.Precision, e.Optimizer,
			strconv.FormatUint(e.Seed, 10), string(e.Status), e.Error, e.Started, e.Finished, e.Version, e.CPU,
			strconv.Itoa(e.Steps), strconv.Itoa(e.Skipped), full(e.MeasuredSeconds), strings.Join(e.Tags, " "))
		for _, name := range metrics {
			text := ""
			if v, ok := e.Metrics[name]; ok {
				text = full(v)
			}
			row = append(row, report.Cell{Text: text})
		}
		s.Rows = append(s.Rows, row)
	}
	return s
}
