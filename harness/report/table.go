package report

import (
	"strings"
	"unicode/utf8"
)

// gap is the space between two columns of a terminal's table.
const gap = 2

// rule draws the line below the header.
const rule = "─"

// drawTable prints the rows with a header for a terminal.
func (s *Sheet) drawTable(out *strings.Builder, width int, color bool) {
	s = s.visible()
	widths := s.fit(width)
	header := make(Row, len(s.Columns))
	for j, c := range s.Columns {
		header[j] = Cell{Text: c.Name, Mark: Strong}
	}
	s.drawRow(out, header, widths, color)
	out.WriteString(strings.Repeat(rule, total(widths)) + "\n")
	for _, r := range s.Rows {
		s.drawRow(out, r, widths, color)
	}
}

// drawRow prints a row over as many lines as its cells need.
func (s *Sheet) drawRow(out *strings.Builder, r Row, widths []int, color bool) {
	lines, most := make([][]string, len(r)), 1
	for j, c := range r {
		lines[j] = strings.Split(wrap(c.Text, widths[j]), "\n")
		most = max(most, len(lines[j]))
	}
	for i := range most {
		line := ""
		for j, c := range r {
			text := ""
			if i < len(lines[j]) {
				text = lines[j][i]
			}
			if j > 0 {
				line += strings.Repeat(" ", gap)
			}
			line += pad(paint(text, c.Mark, color), widths[j]-utf8.RuneCountInString(text), s.Columns[j].Right)
		}
		out.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// drawMarkdown prints the rows with a header in Markdown.
func (s *Sheet) drawMarkdown(out *strings.Builder) {
	s = s.visible()
	rows := make([][]string, 1, 1+len(s.Rows))
	for _, c := range s.Columns {
		rows[0] = append(rows[0], strings.ReplaceAll(c.Name, "|", `\|`))
	}
	for _, r := range s.Rows {
		var row []string
		for j, c := range r {
			text := strings.ReplaceAll(strings.TrimSpace(c.Text), "|", `\|`)
			if j == 0 && r.Heading() {
				text = "**" + text + "**"
			}
			row = append(row, text)
		}
		rows = append(rows, row)
	}
	widths := make([]int, len(s.Columns))
	for _, r := range rows {
		for j, text := range r {
			widths[j] = max(widths[j], utf8.RuneCountInString(text))
		}
	}
	for i, r := range rows {
		for j, text := range r {
			out.WriteString("| " + pad(text, widths[j]-utf8.RuneCountInString(text), s.Columns[j].Right) + " ")
		}
		out.WriteString("|\n")
		if i > 0 {
			continue
		}
		for j, c := range s.Columns {
			dashes := strings.Repeat("-", widths[j]+1)
			if c.Right {
				out.WriteString("|" + dashes + ":")
			} else {
				out.WriteString("|:" + dashes)
			}
		}
		out.WriteString("|\n")
	}
}

// pad adds n blanks to a text: before it if it stands to the right.
func pad(text string, n int, right bool) string {
	blanks := strings.Repeat(" ", max(0, n))
	if right {
		return blanks + text
	}
	return text + blanks
}

// natural returns the widths of the columns without wrapping, and the least widths that wrapping between words can
// give them.
func (s *Sheet) natural() (natural, least []int) {
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
	widths, least := s.natural()
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

// leading returns the blanks that a text begins with.
func leading(text string) string { return text[:len(text)-len(strings.TrimLeft(text, " "))] }

// wrap breaks a text into lines of a width.
func wrap(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	var out strings.Builder
	paragraphBy(&out, width, leading(text), hanging, text)
	return strings.TrimSuffix(out.String(), "\n")
}
