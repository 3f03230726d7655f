package report

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
	"harness.invalid/core/visible"
)

// Sheet is a table of text that can be printed in every format.
type Sheet struct {
	Caption string // a line above; "": none
	Columns []Column
	Rows    []Row
	Notes   []string // below, a paragraph each

	whole bool // words stay whole, and columns beside each other: it is not for a terminal
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
		return htmlTemplates().ExecuteTemplate(out, "sheet", s)
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
	s.whole = o.Width == 0
	if err := s.draw(out, width, markdown, o.Color); err != nil {
		return err
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

// gap is the space between two columns of a terminal's table.
const gap = 2

// rule draws the line below the header.
const rule = "─"

// draw prints the rows with a header, for a terminal or in Markdown.
func (s *Sheet) draw(w io.Writer, width int, markdown, color bool) error {
	s = s.visible()
	align := make([]tw.Align, len(s.Columns))
	header := make([]string, len(s.Columns))
	for i, c := range s.Columns {
		align[i], header[i] = tw.AlignLeft, c.Name
		if c.Right {
			align[i] = tw.AlignRight
		}
	}
	widths := s.fit(width)
	if !markdown && !s.whole && total(widths) > width && len(s.Columns) > 2 {
		return s.stacked().draw(w, width, false, color)
	}
	lines := make([][]string, len(s.Rows))
	for i, r := range s.Rows {
		lines[i] = make([]string, len(r))
		for j, c := range r {
			switch {
			case markdown:
				text := strings.ReplaceAll(strings.TrimSpace(c.Text), "|", `\|`)
				if j == 0 && r.Heading() {
					text = "**" + text + "**"
				}
				lines[i][j] = text
			default:
				lines[i][j] = paint(wrap(c.Text, widths[j]), c.Mark, color)
			}
		}
	}
	for j := range header {
		if markdown {
			header[j] = strings.ReplaceAll(header[j], "|", `\|`)
		} else {
			header[j] = paint(wrap(header[j], widths[j]), Strong, color)
		}
	}
	options := []tablewriter.Option{
		tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithHeaderAutoWrap(tw.WrapNone),
		tablewriter.WithRowAutoWrap(tw.WrapNone),
		tablewriter.WithTrimSpace(tw.Off),
		tablewriter.WithAlignment(align),
		tablewriter.WithHeaderAlignmentConfig(tw.CellAlignment{PerColumn: align}),
	}
	if markdown {
		options = append(options, tablewriter.WithRenderer(renderer.NewMarkdown()))
	} else {
		pad := tw.Padding{Right: strings.Repeat(" ", gap), Overwrite: true}
		options = append(options, tablewriter.WithPadding(pad), tablewriter.WithRenderer(renderer.NewBlueprint(tw.Rendition{
			Borders: tw.BorderNone,
			Settings: tw.Settings{
				Separators: tw.Separators{BetweenColumns: tw.Off, BetweenRows: tw.Off},
				Lines:      tw.Lines{ShowTop: tw.Off, ShowBottom: tw.Off, ShowHeaderLine: tw.On},
			},
		})))
	}
	var out strings.Builder
	drawing := tablewriter.NewTable(&out, options...)
	drawing.Header(header)
	if err := drawing.Bulk(lines); err != nil {
		return err
	}
	if err := drawing.Render(); err != nil {
		return err
	}
	for line := range strings.Lines(out.String()) {
		if !markdown && strings.HasPrefix(line, rule) {
			line = strings.Repeat(rule, total(widths)) // the renderer draws it below the gap behind the last column, too
		}
		line = strings.TrimRight(line, " \n")
		for strings.HasSuffix(line, " "+plain) { // the renderer ends colours once more, behind the gap
			line = strings.TrimRight(strings.TrimSuffix(line, plain), " ")
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// natural returns the widths of the columns without wrapping, and the least widths that wrapping between words (or
// pieces) can give them.
func (s *Sheet) natural(words func(text string) []string) (natural, least []int) {
	natural, least = make([]int, len(s.Columns)), make([]int, len(s.Columns))
	see := func(j int, text string) {
		natural[j] = max(natural[j], utf8.RuneCountInString(text))
		in := utf8.RuneCountInString(leading(text))
		for i, word := range words(text) {
			n := in + utf8.RuneCountInString(word)
			if i > 0 {
				n += hanging
			}
			least[j] = max(least[j], n)
		}
	}
	for j, c := range s.Columns {
		see(j, c.Name)
	}
	for _, r := range s.Rows {
		for j, c := range r {
			see(j, c.Text)
		}
	}
	for j := range least {
		least[j] = min(least[j], natural[j])
	}
	return natural, least
}

// fit chooses widths of columns so that the table is no wider than width, if words are short enough for that.
func (s *Sheet) fit(width int) []int {
	widths, least := s.natural(words)
	if !s.whole && total(least) > width {
		_, least = s.natural(pieces)
	}
	for total(widths) > width {
		widest := -1
		for j := range widths {
			if widths[j] > least[j] && (widest < 0 || widths[j] > widths[widest]) {
				widest = j
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return widths
}

// total is the width of a table.
func total(widths []int) int {
	sum := gap * (len(widths) - 1)
	for _, w := range widths {
		sum += w
	}
	return sum
}

// hanging is the indent of a cell's second line.
const hanging = 1

// colors of marks, as SGR sequences that all terminals have (ECMA-48, 8.3.117).
var colors = [...]string{Plain: "", Strong: "\x1b[1m", Good: "\x1b[32m", Bad: "\x1b[31m", Doubt: "\x1b[33m"}

// Colors are the sequences that tables for terminals have.
var Colors = append(colors[1:], plain)

// plain ends a colour.
const plain = "\x1b[0m"

// visible is a sheet whose texts cannot act on a terminal.
func (s *Sheet) visible() *Sheet {
	shown := &Sheet{Columns: slices.Clone(s.Columns), Rows: make([]Row, len(s.Rows)), whole: s.whole}
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

// paint colours every line of a text.
func paint(text string, m Mark, color bool) string {
	if !color || colors[m] == "" || text == "" {
		return text
	}
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = colors[m] + lines[i] + plain
	}
	return strings.Join(lines, "\n")
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
