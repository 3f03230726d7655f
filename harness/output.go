package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/tw"
	"github.com/spf13/cobra"

	"harness.invalid/harness/report"
)

// tableOrJSON reports a --format that is neither.
func tableOrJSON(format string) error {
	if format != "table" && format != "json" {
		return fmt.Errorf("--format is %q, want table or json", format)
	}
	return nil
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// printSheet prints for a terminal's width, and in pipes a line for each row.
func printSheet(cmd *cobra.Command, s *report.Sheet, f report.Format) error {
	out := cmd.OutOrStdout()
	w := width(out)
	if w == 0 {
		w = 1000
	}
	return report.WriteSheet(out, s, report.Options{Format: f, Width: w, Color: color(out)})
}

// newTable is a plain table whose cells are left as they are.
func newTable(out io.Writer, header ...string) *tablewriter.Table {
	t := tablewriter.NewTable(out,
		tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithHeaderAlignment(tw.AlignLeft),
		tablewriter.WithRendition(tw.Rendition{Borders: tw.BorderNone, Settings: tw.Settings{Separators: tw.Separators{BetweenColumns: tw.Off}}}),
		tablewriter.WithRowMaxWidth(72))
	t.Header(header)
	return t
}
