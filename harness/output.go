package main

import (
	"encoding/json"
	"fmt"
	"io"

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
	return writeSheet(cmd.OutOrStdout(), s, f)
}

// writeSheet is printSheet for any writer.
func writeSheet(out io.Writer, s *report.Sheet, f report.Format) error {
	w := width(out)
	if w == 0 {
		w = 1000
	}
	return report.WriteSheet(out, s, report.Options{Format: f, Width: w, Color: color(out)})
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// newSheet is a sheet of columns of text.
func newSheet(header ...string) *report.Sheet {
	s := &report.Sheet{}
	for _, name := range header {
		s.Columns = append(s.Columns, report.Column{Name: name})
	}
	return s
}
