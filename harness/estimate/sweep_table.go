package estimate

import (
	"fmt"
	"io"
	"text/tabwriter"

	"harness.invalid/results"
)

// WriteSweepJSON writes the points of a sweep for programs.
func (e *Estimation) WriteSweepJSON(w io.Writer, points []Point) error {
	return indented(w, struct {
		Backend string  `json:"backend"`
		Points  []Point `json:"points"`
	}{e.Backend, points})
}

// WriteSweepTable writes a table for each thing that was varied.
func (e *Estimation) WriteSweepTable(w io.Writer, points []Point) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	table := ""
	for _, p := range points {
		if at := p.Phase + ": " + p.Varied; at != table {
			if table != "" {
				fmt.Fprintln(t)
			}
			table = at
			if p.Varied == variedCut {
				at += fmt.Sprintf(" of %d, micro-batch x accumulation x replicas", p.GlobalBatch)
			}
			fmt.Fprintf(t, "%s\tsystem\tmodelled sequences/s\tmodelled seconds a step\tglobal batch\tof peak\n", at)
		}
		if p.SequencesPerSecond == 0 {
			fmt.Fprintf(t, "%s\t-\t-\t-\t-\t-\t%s\n", p.Value, p.Error)
			continue
		}
		mark := p.Error
		switch {
		case p.Best:
			mark = "best that fits"
		case p.Fastest:
			mark = "fastest that fits"
		}
		figure := Significant(p.SequencesPerSecond)
		if p.Outside {
			figure += results.Outside
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%.1f%%\t%s\n",
			p.Value, p.System, figure, Significant(p.StepSeconds), p.GlobalBatch, 100*p.PeakShare, mark)
	}
	return t.Flush()
}
