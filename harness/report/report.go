// Package report prints tables: for people on a terminal, in Markdown, HTML or LaTeX, and as CSV or JSON for programs. The table of a comparison is
// the one that most commands end in; Sheet is for all others.
//
// A row is a quantity, a column an arm of the comparison; beside each arm but the first stand its difference to the first and the verdict.
// Times carry the word measured, because they are those of the programs that ran and not of the hardware that a backend stands for.
package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"harness.invalid/core/spelling"
	"harness.invalid/results/verdict"
)

// Format is how a comparison is printed.
type Format string

// The formats.
const (
	Table    Format = "table"
	Markdown Format = "markdown"
	CSV      Format = "csv"   // one line for each quantity and arm, numbers in full
	JSON     Format = "json"  // verdict.Comparison
	HTML     Format = "html"  // a fragment, to be put into a page
	LaTeX    Format = "latex" // a tabular with the rules of booktabs
)

var formats = []string{string(Table), string(Markdown), string(CSV), string(JSON), string(HTML), string(LaTeX)}

// Formats is the list of formats in words, for the help of commands.
const Formats = "table, markdown, csv, json, html or latex"

func unknownFormat(name string) error {
	return fmt.Errorf("format is %q, want %s%s", name, Formats, spelling.Hint(name, formats))
}

// ParseFormat reads the name of a format.
func ParseFormat(name string) (Format, error) {
	if !slices.Contains(formats, name) {
		return "", unknownFormat(name)
	}
	return Format(name), nil
}

// DefaultWidth is that of a table when it is not known how much there is.
const DefaultWidth = 100

// Options say how to print.
type Options struct {
	Format Format // empty: Table
	// Width is the number of columns that a Table may take; 0: DefaultWidth. Arms that do not fit go into blocks below, and cells that do not are
	// broken between words.
	Width int
	// Color lets a Table have colours.
	Color bool
}

func (o Options) width() int {
	if o.Width <= 0 {
		return DefaultWidth
	}
	return o.Width
}

// Write prints a comparison.
func Write(w io.Writer, c *verdict.Comparison, o Options) error {
	if len(c.Runs) == 0 || len(c.Arms) == 0 || len(c.Comparisons) != len(c.Arms)-1 {
		return fmt.Errorf("report: the comparison has %d runs, %d arms and %d comparisons, want one comparison for each arm but the first", len(c.Runs), len(c.Arms), len(c.Comparisons))
	}
	var out strings.Builder
	var err error
	switch o.Format {
	case CSV:
		return writeCSV(w, c)
	case JSON:
		return c.WriteJSON(w)
	case "", Table:
		err = writeTable(&out, c, o)
	case Markdown:
		err = writeMarkdown(&out, c)
	case HTML:
		err = writeHTML(&out, c)
	case LaTeX:
		writeLaTeX(&out, c)
	default:
		err = fmt.Errorf("report: %w", unknownFormat(string(o.Format)))
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, out.String())
	return err
}
