// Package report prints a comparison: as a table for people, on a terminal or in Markdown, and as CSV or JSON for programs.
//
// A row is a quantity, a column an arm of the comparison; beside each arm but the first stand its difference to the first and the verdict.
// Times carry the word measured, because they are those of the programs that ran and not of the hardware that a backend stands for.
package report

import (
	"fmt"
	"io"
	"slices"

	"harness.invalid/core/spelling"
	"harness.invalid/results"
)

// Format is how a comparison is printed.
type Format string

// The formats.
const (
	Table    Format = "table"
	Markdown Format = "markdown"
	CSV      Format = "csv"  // one line for each quantity and arm, numbers in full
	JSON     Format = "json" // results.Comparison
)

var formats = []string{string(Table), string(Markdown), string(CSV), string(JSON)}

// ParseFormat reads the name of a format.
func ParseFormat(name string) (Format, error) {
	if !slices.Contains(formats, name) {
		return "", fmt.Errorf("format is %q, want table, markdown, csv or json%s", name, spelling.Hint(name, formats))
	}
	return Format(name), nil
}

// DefaultWidth is that of a table when it is not known how much there is.
const DefaultWidth = 100

// Options say how to print.
type Options struct {
	Format Format // empty: Table
	// Width is the number of columns that a Table may take; 0: DefaultWidth. Arms that do not fit go into blocks below.
	Width int
}

// Write prints a comparison.
func Write(w io.Writer, c *results.Comparison, o Options) error {
	if len(c.Runs) == 0 || len(c.Arms) == 0 || len(c.Comparisons) != len(c.Arms)-1 {
		return fmt.Errorf("report: the comparison has %d runs, %d arms and %d comparisons, want one comparison for each arm but the first", len(c.Runs), len(c.Arms), len(c.Comparisons))
	}
	if o.Width <= 0 {
		o.Width = DefaultWidth
	}
	switch o.Format {
	case "", Table:
		return writeTable(w, c, o.Width)
	case Markdown:
		return writeMarkdown(w, c)
	case CSV:
		return writeCSV(w, c)
	case JSON:
		return c.WriteJSON(w)
	}
	return fmt.Errorf("report: format is %q, want table, markdown, csv or json", o.Format)
}
