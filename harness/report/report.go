// Package report prints tables: for people on a terminal, in Markdown, HTML or LaTeX, and as CSV or JSON for
// programs. Write prints a verdict.Comparison, which is where most commands end; WriteSheet prints any other table.
//
// A comparison begins with a sentence for each arm but the first, which is verdict.Pairing's. In the table below, a row is
// a quantity and a column an arm. Each arm but the first has its difference to the first beside it, and the verdict.
// Times are called measured, because they are those of the programs that ran and not of the hardware that a backend
// stands for.
package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"harness.invalid/core/spelling"
	"harness.invalid/results/verdict"
)

// Format is how to print a comparison.
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

// Formats lists the formats, for the help of commands.
const Formats = "table, markdown, csv, json, html or latex"

func unknownFormat(name string) error {
	return fmt.Errorf("format is %q, want %s%s", name, Formats, spelling.Hint(name, formats))
}

// ParseFormat parses the name of a format.
func ParseFormat(name string) (Format, error) {
	if !slices.Contains(formats, name) {
		return "", unknownFormat(name)
	}
	return Format(name), nil
}

// DefaultWidth is the width of a table if that of the terminal is not known.
const DefaultWidth = 100

// Options says how to print.
type Options struct {
	Format Format // empty: Table
	// Width is the number of columns that a Table may take; 0: DefaultWidth. Arms that do not fit go into blocks
	// below, and cells that do not are wrapped between words.
	Width int
	// Color allows colours in a Table.
	Color bool
	// Bare leaves the sentences out of HTML, for a page that has them elsewhere.
	Bare bool
	// Modelled shows modelled figures even where the model was never checked on such a program.
	Modelled bool
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
		return fmt.Errorf("report: the comparison has %d runs, %d arms and %d comparisons, want one comparison for each arm "+
			"but the first", len(c.Runs), len(c.Arms), len(c.Comparisons))
	}
	var out strings.Builder
	var err error
	switch o.Format {
	case CSV:
		return writeCSV(w, c, o)
	case JSON:
		return c.WriteJSON(w)
	case "", Table:
		err = writeTable(&out, c, o)
	case Markdown:
		err = writeMarkdown(&out, c, o)
	case HTML:
		err = writeHTML(&out, c, o)
	case LaTeX:
		writeLaTeX(&out, c, o)
	default:
		err = fmt.Errorf("report: %w", unknownFormat(string(o.Format)))
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, out.String())
	return err
}
