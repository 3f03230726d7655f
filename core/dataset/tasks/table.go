package tasks

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"harness.invalid/core/spelling"
)

// bare describes a file without a header, recognized by its number of columns: the columns, from 0, of segments and
// label. b is -1 if there is none.
type bare struct{ columns, a, b, label int }

// table reads tab-separated values. There is no quoting in them, as in the published programs.
func (r *reader) table(text string) error {
	f := &r.Task.format
	at := bare{b: -1, label: -1}
	header := false
	for i, line := range strings.Split(text, "\n") {
		r.line = i + 1
		line = strings.TrimSuffix(line, "\r")
		if line == "" {
			continue
		}
		cells := strings.Split(line, "\t")
		if at.columns == 0 {
			var err error
			if at, header, err = f.columns(cells); err != nil {
				return err
			}
			if header {
				continue
			}
		}
		if len(cells) <= max(at.a, at.b, at.label) {
			if !f.skipShort {
				return fmt.Errorf("the line has %d columns, want %d", len(cells), at.columns)
			}
			r.Skipped = append(r.Skipped, Place{r.path, r.line})
			r.rows++
			continue
		}
		segments := []string{cells[at.a]}
		if at.b >= 0 {
			segments = append(segments, cells[at.b])
		}
		label, known := "", at.label >= 0
		if known {
			label = cells[at.label]
		}
		if err := r.add("", [][]string{segments}, label, known); err != nil {
			return err
		}
	}
	return nil
}

// columns derives the columns' meaning from the first line, and whether that line is a header.
func (f *format) columns(cells []string) (at bare, header bool, err error) {
	find := func(names []string) int {
		for _, name := range names {
			if i := slices.Index(cells, name); i >= 0 {
				return i
			}
		}
		return -1
	}
	at = bare{columns: len(cells), a: find(f.a), b: find(f.b), label: find(f.label)}
	if at.a >= 0 && (at.b >= 0 || f.b == nil) {
		return at, true, nil
	}
	for _, b := range f.bare {
		if b.columns == len(cells) {
			return b, false, nil
		}
	}
	want := strings.Join(f.a, " or ")
	if f.b != nil {
		want += " and " + strings.Join(f.b, " or ")
	}
	want += " (and " + strings.Join(f.label, " or ") + ")"
	hint := ""
	for _, c := range cells {
		if hint == "" && len(c) < 40 {
			hint = spelling.Hint(c, append(slices.Clone(f.a), f.b...))
		}
	}
	return at, false, fmt.Errorf("the first line has %d columns, %s: want a header with %s%s", len(cells), quote(cells), want, hint)
}

// quote shows the beginning of a line.
func quote(cells []string) string {
	text := strings.Join(cells, "|")
	if runes := []rune(text); len(runes) > 60 {
		text = string(runes[:60]) + "..."
	}
	return strconv.Quote(text)
}
