package report

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// joints are the places in paths, names of fields and digests where they may be broken when a table is too wide
// otherwise: behind a mark that a letter follows, and every 16 digits.
var joints = regexp.MustCompile(`^[0-9a-f]{16}|[/._=,:-]+[A-Za-z]`)

// pieces are the words of a text, broken wherever they may be.
func pieces(text string) (list []string) {
	for _, word := range words(text) {
		for at := joints.FindStringIndex(word); at != nil; at = joints.FindStringIndex(word) {
			end := at[1]
			if at[0] > 0 || end < 16 {
				end-- // the letter begins the next one
			}
			if end == len(word) {
				break
			}
			list, word = append(list, word[:end]), word[end:]
		}
		list = append(list, word)
	}
	return list
}

// cut breaks the words of a text that no line of a width holds.
func cut(text string, width int) string {
	indent := leading(text)
	room := width - utf8.RuneCountInString(indent)
	var list []string
	for i, word := range words(text) {
		if n := utf8.RuneCountInString(word); n <= room-hanging || i == 0 && n <= room {
			list = append(list, word)
			continue
		}
		line := ""
		for _, piece := range pieces(word) {
			if line != "" && utf8.RuneCountInString(line+piece) > room-hanging {
				list, line = append(list, line), ""
			}
			line += piece
		}
		list = append(list, line)
	}
	return indent + strings.Join(list, " ")
}

// stacked has a line for each cell that says something, below the first cell of its row: for terminals on which the
// columns don't fit beside each other.
func (s *Sheet) stacked() *Sheet {
	narrow := &Sheet{Columns: []Column{{Name: s.Columns[0].Name}, {}}}
	for _, r := range s.Rows {
		narrow.Rows = append(narrow.Rows, Row{r[0], {}})
		for j := 1; j < len(r); j++ {
			if r[j].Text != "" {
				narrow.Rows = append(narrow.Rows, Row{{Text: "  " + s.Columns[j].Name}, r[j]})
			}
		}
	}
	return narrow
}

// leading returns the blanks that a text begins with.
func leading(text string) string { return text[:len(text)-len(strings.TrimLeft(text, " "))] }

// wrap breaks a text into lines of a width.
func wrap(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	var out strings.Builder
	paragraphBy(&out, width, leading(text), hanging, cut(text, width))
	return strings.TrimSuffix(out.String(), "\n")
}
