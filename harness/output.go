package main

import (
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"harness.invalid/harness/report"
)

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

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
