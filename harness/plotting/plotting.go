// Package plotting draws curves of runs into files for papers and slides: SVG, PNG and PDF.
package plotting

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"harness.invalid/core/spelling"
	"harness.invalid/harness/series"
	"harness.invalid/results"
)

// Formats are the file formats, by their extensions.
var Formats = []string{"svg", "png", "pdf"}

// Options says what to draw.
type Options struct {
	Quantity string // such as f1; with "trained " or "evaluated " before it where both are recorded. Empty: loss
	Phase    string // empty: all phases
	Operand  string // of maps of number formats, such as forward.weight; empty: the worst of each operator
	Against  series.Axis
	Log      bool // the values on a logarithmic axis
	Smooth   int  // number of last steps of each run to average; 0 and 1: the values themselves
	EachRun  bool // a line for each run in place of means and bands
	Title    string
	For      string // name of a size, of Sizes; empty: the first
	// These replace those of the size; 0: its own. A height that is the size's own grows with the legend.
	WidthInch, HeightInch, FontPoints float64
	DPI                               int    // of a PNG; 0: DefaultDPI
	Format                            string // of Formats

	growing bool // the height is the size's own
}

// Write draws the curves of an experiment: for each arm the mean over its runs, with a band of one standard
// deviation to each side.
func Write(w io.Writer, records []*series.Record, o Options) error {
	if !slices.Contains(Formats, o.Format) {
		return fmt.Errorf("format is %q, want one of %s%s", o.Format, strings.Join(Formats, ", "), spelling.Hint(o.Format, Formats))
	}
	o, err := o.resolved()
	if err != nil {
		return err
	}
	q, err := find(records, o)
	if err != nil {
		return err
	}
	if o.Against == "" {
		o.Against = series.Steps
	}
	s := newSheet(q, o)
	if err := s.curves(q, records); err != nil {
		return err
	}
	if math.IsInf(s.Y.Min, 0) || math.IsInf(s.X.Min, 0) || s.Y.Min > s.Y.Max {
		return fmt.Errorf("no run has a value of %s that can be drawn", q.Name)
	}
	if s.Y.Min == s.Y.Max { // a logarithm can't make room to both sides by itself
		s.Y.Min, s.Y.Max = s.Y.Min*0.9, s.Y.Max*1.1
	}
	return s.write(w)
}

// newSheet is the empty picture: title, axes and grid.
func newSheet(q series.Quantity, o Options) *sheet {
	p := plot.New()
	p.X.Label.Text = o.Against.Label()
	p.Y.Label.Text = q.Label
	if !q.Evaluated {
		p.Y.Label.Text += " (trained)"
	}
	size := vg.Points(o.FontPoints)
	inEms := func(inches, ems float64) int { return max(2, int(inches*72/(ems*o.FontPoints))) }
	p.X.Tick.Marker = roundTicks(inEms(o.WidthInch, 5))
	p.Y.Tick.Marker = roundTicks(inEms(o.HeightInch, 3))
	if o.Log {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.TickerFunc(logTicks)
	}
	for _, style := range []*draw.TextStyle{&p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label} {
		style.Font.Variant, style.Font.Size = "Sans", size
	}
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Tick.Length, a.Padding = size*0.5, size*0.4
		a.LineStyle.Width, a.Tick.LineStyle.Width = size*0.06, size*0.06
	}
	p.BackgroundColor = nil // the sheet has one
	s := &sheet{Plot: p, o: o, title: o.Title, text: p.X.Tick.Label}
	s.text.XAlign, s.text.YAlign = draw.XLeft, draw.YBottom
	p.Add(s.grid())
	return s
}

// find finds the quantity to draw, and checks the phase.
func find(records []*series.Record, o Options) (series.Quantity, error) {
	name := o.Quantity
	if name == "" {
		name = "loss"
	}
	all := series.Quantities(records)
	bare, evaluated := strings.CutPrefix(name, "evaluated ")
	bare, trained := strings.CutPrefix(bare, "trained ")
	var names []string
	for _, q := range all {
		if q.Name == bare && q.Evaluated == (evaluated || !trained &&
			!slices.ContainsFunc(all, func(p series.Quantity) bool { return p.Name == bare && !p.Evaluated })) {
			return q, phaseKnown(records[0].Run, o.Phase)
		}
		if !slices.Contains(names, q.Name) {
			names = append(names, q.Name)
		}
	}
	return series.Quantity{}, fmt.Errorf("no run has recorded %q%s (there are: %s; with \"trained \" or \"evaluated \" "+
		"before the name where both are there)", name, spelling.Hint(bare, names), strings.Join(names, ", "))
}

func phaseKnown(r *results.Run, phase string) error {
	if phase == "" {
		return nil
	}
	var names []string
	for i := range r.Recipe.Phases {
		names = append(names, r.Recipe.Phases[i].Name)
	}
	if !slices.Contains(names, phase) {
		return fmt.Errorf("recipe %s has no phase %q%s (there are: %s)", r.Identity.Recipe, phase, spelling.Hint(phase, names),
			strings.Join(names, ", "))
	}
	return nil
}

// armsOf lists the arms in the order of the records.
func armsOf(records []*series.Record) []results.Arm {
	var arms []results.Arm
	for _, r := range records {
		if !slices.Contains(arms, r.Arm()) {
			arms = append(arms, r.Arm())
		}
	}
	return arms
}
