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

// addFormat adds --format to a command that prints texts, or the same as JSON; an unknown one is refused before the
// command does anything.
func addFormat(cmd *cobra.Command, format *string, usual string) {
	cmd.Flags().StringVar(format, "format", usual, "table or json (docs/json.md says what it holds)")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := tableOrJSON(*format); err != nil {
			return err
		}
		return run(cmd, args)
	}
}

// show prints a result: v as JSON, or the texts that tell prints of it.
func show(cmd *cobra.Command, format string, v any, tell func(io.Writer) error) error {
	if format == "json" {
		return writeJSON(cmd.OutOrStdout(), v)
	}
	return tell(cmd.OutOrStdout())
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// printLines prints texts, one a line.
func printLines(w io.Writer, lines []string) error {
	for _, l := range lines {
		if _, err := fmt.Fprintln(w, l); err != nil {
			return err
		}
	}
	return nil
}

// aLine is a width at which every row is a line, for the programs that read a pipe.
const aLine = 1000

// printSheet prints for a terminal's width, and in pipes a line for each row.
func printSheet(cmd *cobra.Command, s *report.Sheet, f report.Format) error {
	out := cmd.OutOrStdout()
	w := width(out)
	if w == 0 {
		w = aLine
	}
	return report.WriteSheet(out, s, report.Options{Format: f, Width: w, Color: color(out)})
}

// table is a table of texts, which is as wide as the terminal. In a pipe every row is a line, unless the table is prose.
type table struct {
	out   io.Writer
	sheet report.Sheet
	prose bool
}

func newTable(out io.Writer, header ...string) *table {
	t := &table{out: out}
	for _, name := range header {
		t.sheet.Columns = append(t.sheet.Columns, report.Column{Name: name})
	}
	return t
}

func (t *table) add(cells ...string) { t.sheet.Rows = append(t.sheet.Rows, report.Texts(cells...)) }

func (t *table) print() error {
	w := width(t.out)
	if w == 0 && !t.prose {
		w = aLine
	}
	return report.WriteSheet(t.out, &t.sheet, report.Options{Width: w, Color: color(t.out)})
}
