package report

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"harness.invalid/core/visible"
)

// Sheet is a table of text that can be printed in every format.
type Sheet struct {
	Caption string // a line above; "": none
	Columns []Column
	Rows    []Row
	Notes   []string // below, a paragraph each
}

// Column is a column of a sheet.
type Column struct {
	Name  string // in the header
	Key   string // in CSV and JSON; "": Name
	Right bool   // numbers stand to the right
}

// Row is a line of a sheet, with a cell for each column. A row whose only text is in the first cell is a heading
// for those below it.
type Row []Cell

// Cell is a field of a sheet. Leading blanks of its text indent it.
type Cell struct {
	Text string
	Mark Mark
	// Value is what CSV and JSON have instead of the text; nil: Text.
	Value any
}

// Mark is what a cell means to its reader. Terminals and pages show it as a colour, in addition to the text and
// never instead of it.
type Mark int

// The marks.
const (
	Plain Mark = iota
	Strong
	Good
	Bad
	Doubt
)

var markNames = [...]string{Plain: "", Strong: "strong", Good: "good", Bad: "bad", Doubt: "doubt"}

// Texts makes a row of unmarked cells.
func Texts(cells ...string) Row {
	r := make(Row, len(cells))
	for i, c := range cells {
		r[i].Text = c
	}
	return r
}

// Heading reports whether a row is a heading.
func (r Row) Heading() bool {
	for _, c := range r[1:] {
		if c.Text != "" {
			return false
		}
	}
	return len(r) > 1 && r[0].Text != ""
}

// key is a column's name for programs.
func (c Column) key() string {
	if c.Key != "" {
		return c.Key
	}
	return c.Name
}

// WriteSheet prints a sheet. JSON is a list of objects, one for each row.
func WriteSheet(w io.Writer, s *Sheet, o Options) error {
	for i, r := range s.Rows {
		if len(r) != len(s.Columns) {
			return fmt.Errorf("report: row %d has %d cells, want %d, one for each column", i, len(r), len(s.Columns))
		}
	}
	switch o.Format {
	case CSV:
		return s.writeCSV(w)
	case JSON:
		return s.writeJSON(w)
	}
	var out strings.Builder
	if err := s.write(&out, o); err != nil {
		return err
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// write prints for people.
func (s *Sheet) write(out *strings.Builder, o Options) error {
	switch o.Format {
	case HTML:
		return htmlTemplates.ExecuteTemplate(out, "sheet", s)
	case LaTeX:
		s.writeLaTeX(out)
		return nil
	case "", Table, Markdown:
	default:
		return unknownFormat(string(o.Format))
	}
	width := o.width()
	markdown := o.Format == Markdown
	if s.Caption != "" {
		if markdown {
			fmt.Fprintf(out, "%s\n\n", s.Caption)
		} else {
			paragraph(out, width, "", s.Caption)
			out.WriteByte('\n')
		}
	}
	if markdown {
		s.drawMarkdown(out)
	} else {
		s.drawTable(out, width, o.Color)
	}
	for i, n := range s.Notes {
		switch {
		case markdown:
			fmt.Fprintf(out, "\n%s\n", n)
		default:
			if i == 0 {
				out.WriteByte('\n')
			}
			paragraph(out, width, "", n)
		}
	}
	return nil
}

// colors of marks, as SGR sequences that all terminals have (ECMA-48, 8.3.117).
var colors = [...]string{Plain: "", Strong: "\x1b[1m", Good: "\x1b[32m", Bad: "\x1b[31m", Doubt: "\x1b[33m"}

// Colors are the sequences that tables for terminals have.
var Colors = append(colors[1:], plain)

// plain ends a colour.
const plain = "\x1b[0m"

// visible is a sheet whose texts cannot act on a terminal.
func (s *Sheet) visible() *Sheet {
	shown := &Sheet{Columns: slices.Clone(s.Columns), Rows: make([]Row, len(s.Rows))}
	for i := range shown.Columns {
		shown.Columns[i].Name = visible.Text(shown.Columns[i].Name)
	}
	for i, r := range s.Rows {
		shown.Rows[i] = slices.Clone(r)
		for j := range r {
			shown.Rows[i][j].Text = visible.Text(r[j].Text)
		}
	}
	return shown
}

// paint colours a line of text.
func paint(text string, m Mark, color bool) string {
	if !color || colors[m] == "" || text == "" {
		return text
	}
	return colors[m] + text + plain
}

// value is what programs read instead of the text.
func (c Cell) value() any {
	if c.Value != nil {
		return c.Value
	}
	return strings.TrimSpace(c.Text)
}

// number is what a spreadsheet takes for a number, or for nothing.
var number = regexp.MustCompile(`^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?%?$|^[-+]?(Inf|NaN)$|^-$`)

// inert is a cell of a CSV file that no spreadsheet takes for a formula. Names in records may come from anybody. Source:
// OWASP, CSV Injection: texts that begin with = + - @, a tab or a carriage return get a quote in front.
func inert(text string) string {
	if text == "" || !strings.ContainsRune("=+-@\t\r", rune(text[0])) || number.MatchString(text) {
		return text
	}
	return "'" + text
}

func (s *Sheet) writeCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	line := make([]string, len(s.Columns))
	for i, c := range s.Columns {
		line[i] = inert(c.key())
	}
	if err := out.Write(line); err != nil {
		return err
	}
	for _, r := range s.Rows {
		for i, c := range r {
			line[i] = inert(fmt.Sprint(c.value()))
		}
		if err := out.Write(line); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func (s *Sheet) writeJSON(w io.Writer) error {
	objects := make([]map[string]any, len(s.Rows))
	for i, r := range s.Rows {
		objects[i] = make(map[string]any, len(r))
		for j, c := range r {
			objects[i][s.Columns[j].key()] = c.value()
		}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(objects)
}
