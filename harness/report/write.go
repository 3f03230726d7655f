package report

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"harness.invalid/results"
)

// disclaimer stands below every table.
const disclaimer = "Measured times are wall time of the programs that ran here, not of the hardware that a backend stands for."

// writeTable prints for a terminal.
func writeTable(w io.Writer, c *results.Comparison, width int) error {
	t := newTable(c)
	foot := newFootnotes(c)
	var out bytes.Buffer
	paragraph(&out, width, "", title(c))
	for _, arms := range t.blocks(width, foot) {
		out.WriteByte('\n')
		if err := t.render(&out, arms, foot, false); err != nil {
			return err
		}
	}
	out.WriteByte('\n')
	for _, v := range verdicts(c) {
		paragraph(&out, width, "", v.heading)
		for _, line := range v.lines {
			paragraph(&out, width, "  ", line)
		}
		out.WriteByte('\n')
	}
	paragraph(&out, width, "", disclaimer)
	for i, n := range foot.notes {
		paragraph(&out, width, "", fmt.Sprintf("[%d] %s", i+1, n.text))
	}
	_, err := w.Write(out.Bytes())
	return err
}

// writeMarkdown prints one table however wide it is, since a browser wraps.
func writeMarkdown(w io.Writer, c *results.Comparison) error {
	t := newTable(c)
	foot := newFootnotes(c)
	all := make([]int, len(c.Arms))
	for i := range all {
		all[i] = i
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s\n\n", title(c))
	if err := t.render(&out, all, foot, true); err != nil {
		return err
	}
	out.WriteByte('\n')
	for _, v := range verdicts(c) {
		fmt.Fprintf(&out, "%s\n\n", v.heading)
		for _, line := range v.lines {
			fmt.Fprintf(&out, "- %s\n", line)
		}
		out.WriteByte('\n')
	}
	fmt.Fprintln(&out, disclaimer)
	for i, n := range foot.notes {
		fmt.Fprintf(&out, "\n[%d] %s\n", i+1, n.text)
	}
	_, err := w.Write(out.Bytes())
	return err
}

func title(c *results.Comparison) string {
	return fmt.Sprintf("Recipe %s (fingerprint %.12s), data %.12s, %s", c.Recipe, c.Fingerprint, c.DataDigest, seeds(c))
}

// seeds lists the seeds of all runs.
func seeds(c *results.Comparison) string {
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

// grid lays the rows of some arms out as cells of text: the header first, and a line with nothing but its name before each phase.
func (t *table) grid(arms []int, foot *footnotes) (lines [][]string, align []tw.Align) {
	header := []string{""}
	align = []tw.Align{tw.AlignLeft}
	for _, i := range arms {
		header = append(header, t.Arms[i].Backend+foot.marks(t.Arms[i].Arm))
		align = append(align, tw.AlignRight)
		if i > 0 {
			header = append(header, "difference", "verdict")
			align = append(align, tw.AlignRight, tw.AlignLeft)
		}
	}
	lines = append(lines, header)
	section := ""
	for _, r := range t.rows {
		if r.phase != section {
			section = r.phase
			name := section
			if name == "" {
				name = "whole run"
			}
			lines = append(lines, append([]string{name}, make([]string, len(header)-1)...))
		}
		label := r.label
		if len(lines) > 1 && section != "" || r.cells[0].sample != nil {
			label = "  " + label
		}
		line := []string{label}
		for _, i := range arms {
			c := r.cells[i]
			text := c.text
			if text == "" {
				text = "-"
			}
			line = append(line, text)
			if i > 0 {
				line = append(line, c.difference, verdict(c.paired))
			}
		}
		lines = append(lines, line)
	}
	return lines, align
}

// blocks cuts the arms into tables that fit the width. Every one begins with the first arm, which the others are held against.
func (t *table) blocks(width int, foot *footnotes) [][]int {
	block := []int{0}
	var all [][]int
	for i := 1; i < len(t.Arms); i++ {
		if next := append(slices.Clone(block), i); len(block) == 1 || t.width(next, foot) <= width {
			block = next
			continue
		}
		all = append(all, block)
		block = []int{0, i}
	}
	return append(all, block)
}

// gap is the space between two columns.
const gap = 2

// width is that of the table of some arms.
func (t *table) width(arms []int, foot *footnotes) int {
	lines, align := t.grid(arms, foot)
	sum := gap * (len(align) - 1)
	for column := range align {
		most := 0
		for _, l := range lines {
			most = max(most, utf8.RuneCountInString(l[column]))
		}
		sum += most
	}
	return sum
}

// render draws the table of some arms.
func (t *table) render(w io.Writer, arms []int, foot *footnotes, markdown bool) error {
	lines, align := t.grid(arms, foot)
	if markdown {
		for i, l := range lines {
			if i > 0 && strings.Join(l[1:], "") == "" {
				l[0] = "**" + l[0] + "**"
			}
			l[0] = strings.TrimSpace(l[0])
			for j := range l {
				l[j] = strings.ReplaceAll(l[j], "|", `\|`)
			}
		}
	}
	var out bytes.Buffer
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
	drawing := tablewriter.NewTable(&out, options...)
	drawing.Header(lines[0])
	if err := drawing.Bulk(lines[1:]); err != nil {
		return err
	}
	if err := drawing.Render(); err != nil {
		return err
	}
	for line := range strings.Lines(out.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// writeCSV prints one line for each quantity and arm.
func writeCSV(w io.Writer, c *results.Comparison) error {
	out := csv.NewWriter(w)
	lines := [][]string{{"phase", "quantity", "backend", "optimizer", "format", "n", "mean", "sd", "difference", "low", "high", "level", "margin", "verdict", "direction"}}
	full := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	for _, r := range newTable(c).rows {
		for i, cell := range r.cells {
			if cell.sample == nil {
				continue
			}
			arm := c.Arms[i]
			line := []string{r.phase, r.quantity, arm.Backend, arm.Optimizer, arm.Precision, strconv.Itoa(cell.sample.N), full(float64(cell.sample.Mean))}
			line = append(line, make([]string, len(lines[0])-len(line))...)
			if sd := cell.sample.SD; sd != nil {
				line[7] = full(float64(*sd))
			}
			if cell.change != nil {
				line[8] = full(*cell.change)
			}
			if d := cell.paired; d != nil {
				if inf := d.Inference; inf != nil {
					line[9], line[10], line[11] = full(float64(inf.Interval.Low)), full(float64(inf.Interval.High)), full(inf.Interval.Level)
				}
				if d.Margin > 0 {
					line[12] = full(d.Margin)
				}
				line[13], line[14] = string(d.Verdict), d.Direction
			}
			lines = append(lines, line)
		}
	}
	return out.WriteAll(lines)
}
