package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"harness.invalid/results"
	"harness.invalid/results/statistics"
	"harness.invalid/results/verdict"
)

// writeTable prints for a terminal.
func writeTable(out *strings.Builder, c *verdict.Comparison, o Options) error {
	width := o.width()
	t := newTable(c, o)
	foot := newFootnotes(c)
	for _, p := range c.Comparisons {
		paragraph(out, width, "", p.Sentence)
	}
	if len(c.Comparisons) > 0 {
		out.WriteByte('\n')
	}
	paragraph(out, width, "", title(c))
	for _, block := range t.blocks(width, foot) {
		out.WriteByte('\n')
		block.whole = o.Width == 0
		if err := block.draw(out, width, false, o.Color); err != nil {
			return err
		}
	}
	out.WriteByte('\n')
	for _, v := range verdicts(c) {
		paragraph(out, width, "", v.Heading)
		for _, line := range v.Lines {
			paragraph(out, width, "  ", line)
		}
		out.WriteByte('\n')
	}
	for _, s := range statisticsSheets(c, width) {
		if err := s.write(out, o); err != nil {
			return err
		}
		out.WriteByte('\n')
	}
	for _, text := range t.remarks() {
		paragraph(out, width, "", text)
	}
	for i, n := range foot.notes {
		paragraph(out, width, "", fmt.Sprintf("[%d] %s", i+1, n.text))
	}
	return nil
}

// writeMarkdown prints one table of any width, since a browser wraps.
func writeMarkdown(out *strings.Builder, c *verdict.Comparison, o Options) error {
	t := newTable(c, o)
	foot := newFootnotes(c)
	for _, p := range c.Comparisons {
		fmt.Fprintf(out, "%s\n\n", p.Sentence)
	}
	fmt.Fprintf(out, "%s\n\n", title(c))
	if err := t.sheet(t.all(), foot, true).draw(out, 0, true, false); err != nil {
		return err
	}
	out.WriteByte('\n')
	for _, v := range verdicts(c) {
		fmt.Fprintf(out, "%s\n\n", v.Heading)
		for _, line := range v.Lines {
			fmt.Fprintf(out, "- %s\n", line)
		}
		out.WriteByte('\n')
	}
	for _, s := range statisticsSheets(c, 0) {
		if err := s.write(out, Options{Format: Markdown}); err != nil {
			return err
		}
		out.WriteByte('\n')
	}
	fmt.Fprintln(out, strings.Join(t.remarks(), "\n\n"))
	for i, n := range foot.notes {
		fmt.Fprintf(out, "\n[%d] %s\n", i+1, n.text)
	}
	return nil
}

// writeLaTeX prints one table, the verdicts as text below it, then the statistics.
func writeLaTeX(out *strings.Builder, c *verdict.Comparison, o Options) {
	for i := range c.Comparisons {
		out.WriteString(latexText(c.Comparisons[i].Sentence) + "\n\n")
	}
	t := newTable(c, o)
	foot := newFootnotes(c)
	s := t.sheet(t.all(), foot, true)
	s.Caption = title(c)
	for _, v := range verdicts(c) {
		s.Notes = append(s.Notes, v.Heading+" "+strings.Join(v.Lines, "; ")+".")
	}
	s.Notes = append(s.Notes, t.remarks()...)
	for i, n := range foot.notes {
		s.Notes = append(s.Notes, fmt.Sprintf("[%d] %s", i+1, n.text))
	}
	s.writeLaTeX(out)
	for _, s := range statisticsSheets(c, 0) {
		out.WriteByte('\n')
		s.writeLaTeX(out)
	}
}

func title(c *verdict.Comparison) string {
	return fmt.Sprintf("Recipe %s (fingerprint %.12s), data %.12s, %s", c.Recipe, c.Fingerprint, c.DataDigest, seeds(c))
}

// seeds lists the seeds of all runs.
func seeds(c *verdict.Comparison) string {
	var all []uint64
	for _, r := range c.Runs {
		all = append(all, r.Seed)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	first, last := all[0], all[len(all)-1]
	switch n := uint64(len(all)); {
	case n == 1:
		return fmt.Sprintf("seed %d", first)
	case n > 2 && last-first == n-1:
		return fmt.Sprintf("seeds %d to %d", first, last)
	}
	text := make([]string, len(all))
	for i, s := range all {
		text[i] = strconv.FormatUint(s, 10)
	}
	return "seeds " + strings.Join(text, ", ")
}

// all are the arms of the table.
func (t *table) all() []int {
	all := make([]int, len(t.Arms))
	for i := range all {
		all[i] = i
	}
	return all
}

// sheet turns the rows of some arms into text, with a heading before each phase.
func (t *table) sheet(arms []int, foot *footnotes, withVerdicts bool) *Sheet {
	s := &Sheet{Columns: []Column{{}}}
	for _, i := range arms {
		s.Columns = append(s.Columns, Column{Name: t.Arms[i].Backend + foot.marks(t.Arms[i].Arm), Right: true})
		if i > 0 {
			s.Columns = append(s.Columns, Column{Name: "difference", Right: true})
			if withVerdicts {
				s.Columns = append(s.Columns, Column{Name: "verdict"})
			}
		}
	}
	section := ""
	for _, r := range t.rows {
		if r.phase != section {
			section = r.phase
			name := section
			if name == "" {
				name = "whole run"
			}
			s.Rows = append(s.Rows, append(Row{{Text: name, Mark: Strong}}, make(Row, len(s.Columns)-1)...))
		}
		label := r.label
		if section != "" || r.cells[0].sample != nil {
			label = "  " + label
		}
		line := Texts(label)
		for _, i := range arms {
			c := r.cells[i]
			text := c.text
			if text == "" {
				text = "-"
			}
			line = append(line, Cell{Text: text})
			if i > 0 {
				line = append(line, Cell{Text: c.difference})
				if withVerdicts {
					line = append(line, Cell{Text: verdictText(c.paired), Mark: markOf(c.paired)})
				}
			}
		}
		s.Rows = append(s.Rows, line)
	}
	return s
}

// markOf is the mark of a verdict, hence its colour.
func markOf(d *verdict.Difference) Mark {
	switch {
	case d == nil:
	case d.Verdict == verdict.Equivalent:
		return Good
	case d.Verdict == verdict.Different && d.Direction == verdict.Better:
		return Good
	case d.Verdict == verdict.Different:
		return Bad
	case d.Verdict == verdict.Inconclusive:
		return Doubt
	}
	return Plain
}

// blocks splits the arms into tables that fit the width. Each begins with the first arm, to which the others are
// compared. If not even one more arm fits, cells are wrapped, and the column of verdicts is dropped: they are told
// below.
func (t *table) blocks(width int, foot *footnotes) []*Sheet {
	fits := func(arms []int) bool {
		natural, _ := t.sheet(arms, foot, true).natural(words)
		return total(natural) <= width
	}
	var all []*Sheet
	add := func(arms []int) {
		s := t.sheet(arms, foot, true)
		if _, least := s.natural(words); total(least) > width {
			s = t.sheet(arms, foot, false)
		}
		all = append(all, s)
	}
	block := []int{0}
	for i := 1; i < len(t.Arms); i++ {
		if next := append(slices.Clone(block), i); len(block) == 1 || fits(next) {
			block = next
			continue
		}
		add(block)
		block = []int{0, i}
	}
	add(block)
	return all
}

// writeCSV prints one line for each quantity and arm. The sentence of an arm is in the line of its primary metric, in a
// column of its own: readers of CSV take no comments unless they are told to.
func writeCSV(w io.Writer, c *verdict.Comparison, o Options) error {
	out := csv.NewWriter(w)
	header := []string{"phase", "quantity", "backend", "optimizer", "format", "n", "mean", "sd", "difference", "low", "high", "level",
		"bootstrap_low", "bootstrap_high",
		"multi_bootstrap_low", "multi_bootstrap_high", "p_difference", "p_permutation", "p_equivalence", "margin", "verdict", "direction",
		"sentence"}
	lines := [][]string{header}
	full := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	for _, r := range newTable(c, o).rows {
		for i, cell := range r.cells {
			if cell.sample == nil {
				continue
			}
			arm := c.Arms[i]
			line := []string{inert(r.phase), inert(r.quantity), inert(arm.Backend), inert(arm.Optimizer), inert(arm.Precision),
				strconv.Itoa(cell.sample.N), full(float64(cell.sample.Mean))}
			line = append(line, make([]string, len(header)-len(line))...)
			put := func(column, text string) { line[slices.Index(header, column)] = text }
			number := func(column string, v *results.Number) {
				if v != nil {
					put(column, full(float64(*v)))
				}
			}
			interval := func(prefix string, v *statistics.Interval) {
				if v != nil {
					number(prefix+"low", &v.Low)
					number(prefix+"high", &v.High)
				}
			}
			number("sd", cell.sample.SD)
			if cell.change != nil {
				put("difference", full(*cell.change))
			}
			if d := cell.paired; d != nil {
				if inf := d.Inference; inf != nil {
					interval("", &inf.Interval)
					put("level", full(inf.Interval.Level))
					interval("bootstrap_", inf.BootstrapInterval)
					number("p_difference", &inf.PDifference)
					number("p_permutation", &inf.PPermutation)
					number("p_equivalence", inf.PEquivalence)
				}
				if m := d.MultiBootstrap; m != nil {
					interval("multi_bootstrap_", &m.Interval)
				}
				if d.Margin > 0 {
					put("margin", full(d.Margin))
				}
				put("verdict", string(d.Verdict))
				put("direction", d.Direction)
				if d.Primary {
					put("sentence", inert(c.Comparisons[i-1].Sentence))
				}
			}
			lines = append(lines, line)
		}
	}
	return out.WriteAll(lines)
}
