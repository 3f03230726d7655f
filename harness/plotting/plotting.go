// Package plotting draws curves of runs into files for papers and slides: SVG, PNG and PDF.
package plotting

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	// The formats, which register themselves.
	_ "gonum.org/v1/plot/vg/vgimg"
	_ "gonum.org/v1/plot/vg/vgpdf"
	_ "gonum.org/v1/plot/vg/vgsvg"

	"harness.invalid/core/spelling"
	"harness.invalid/harness/series"
	"harness.invalid/results"
)

// Formats are the file formats, by their extensions.
var Formats = []string{"svg", "png", "pdf"}

// Options says what to draw.
type Options struct {
	Quantity  string // such as f1; with "trained " or "evaluated " before it where both are recorded. Empty: loss
	Phase     string // empty: all phases
	Against   series.Axis
	Log       bool // the values on a logarithmic axis
	Smooth    int  // number of last steps of each run to average; 0 and 1: the values themselves
	EachRun   bool // a line for each run in place of means and bands
	Title     string
	WidthInch float64 // 0: 6
	// HeightInch 0: 3.7
	HeightInch float64
	Format     string // of Formats
}

// palette has colours that people with any kind of colour vision can tell apart: Okabe and Ito 2008, "Color
// Universal Design", without their yellow and black.
var palette = []color.NRGBA{{0x00, 0x72, 0xb2, 255}, {0xd5, 0x5e, 0x00, 255}, {0x00, 0x9e, 0x73, 255}, {0xcc, 0x79, 0xa7, 255},
	{0xe6, 0x9f, 0x00, 255}, {0x56, 0xb4, 0xe9, 255}}

// Write draws the curves of an experiment: for each arm the mean over its runs, with a band of one standard
// deviation to each side.
func Write(w io.Writer, records []*series.Record, o Options) error {
	if !slices.Contains(Formats, o.Format) {
		return fmt.Errorf("format is %q, want one of %s%s", o.Format, strings.Join(Formats, ", "), spelling.Hint(o.Format, Formats))
	}
	q, err := find(records, o)
	if err != nil {
		return err
	}
	if o.Against == "" {
		o.Against = series.Steps
	}
	p := canvas(q, o)
	if err := curves(p, q, records, o); err != nil {
		return err
	}
	if math.IsInf(p.Y.Min, 0) || math.IsInf(p.X.Min, 0) || p.Y.Min > p.Y.Max {
		return fmt.Errorf("no run has a value of %s that can be drawn", q.Name)
	}
	if p.Y.Min == p.Y.Max { // a logarithm can't make room to both sides by itself
		p.Y.Min, p.Y.Max = p.Y.Min*0.9, p.Y.Max*1.1
	}
	width, height := o.WidthInch, o.HeightInch
	if width == 0 {
		width = 6
	}
	if height == 0 {
		height = 3.7
	}
	out, err := p.WriterTo(font.Length(width)*vg.Inch, font.Length(height)*vg.Inch, o.Format)
	if err != nil {
		return fmt.Errorf("figure: %w", err)
	}
	_, err = out.WriteTo(w)
	return err
}

// canvas is the empty picture: titles, axes and grid.
func canvas(q series.Quantity, o Options) *plot.Plot {
	p := plot.New()
	p.Title.Text = o.Title
	p.X.Label.Text = o.Against.Label()
	p.Y.Label.Text = q.Label
	if !q.Evaluated {
		p.Y.Label.Text += " (trained)"
	}
	if o.Phase != "" {
		p.X.Label.Text += ", phase " + o.Phase + " of the run"
	}
	p.Legend.Top = !q.Higher // above the end of curves that fall, below that of those that rise
	if o.Log {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.TickerFunc(logTicks)
	}
	for _, style := range []*draw.TextStyle{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label,
		&p.Y.Tick.Label, &p.Legend.TextStyle} {
		style.Font.Variant = "Sans"
	}
	p.Add(grid())
	return p
}

// curves draws what the arms recorded, phase by phase.
func curves(p *plot.Plot, q series.Quantity, records []*series.Record, o Options) error {
	phases := []string{o.Phase}
	if o.Phase == "" {
		phases = nil
		for i := range records[0].Recipe.Phases {
			phases = append(phases, records[0].Recipe.Phases[i].Name)
		}
	}
	drawn := 0
	for i, arm := range armsOf(records) {
		name := arm.String() // in the legend, once
		for _, phase := range phases {
			var curves []series.Curve
			for _, r := range records {
				if r.Arm() == arm {
					if c := r.Curve(q, phase, o.Against).Smooth(o.Smooth); len(c.X) > 0 {
						curves = append(curves, c)
					}
				}
			}
			if len(curves) == 0 {
				continue
			}
			drawn++
			c := palette[i%len(palette)]
			var err error
			if o.EachRun {
				err = each(p, name, curves, c, o.Log)
			} else {
				err = band(p, name, series.Over(curves), c, q.Evaluated, o.Log)
			}
			if err != nil {
				return err
			}
			name = ""
		}
	}
	if drawn == 0 {
		where := ""
		if o.Phase != "" {
			where = " in phase " + o.Phase
		}
		if o.Against == series.ModelledSeconds {
			where += " against modelled time, which exists only if a backend models a system"
		}
		return fmt.Errorf("no run has recorded %s%s", q.Name, where)
	}
	return nil
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
			return q, phaseKnown(records, o.Phase)
		}
		if !slices.Contains(names, q.Name) {
			names = append(names, q.Name)
		}
	}
	return series.Quantity{}, fmt.Errorf("no run has recorded %q%s (there are: %s; with \"trained \" or \"evaluated \" "+
		"before the name where both are there)", name, spelling.Hint(bare, names), strings.Join(names, ", "))
}

func phaseKnown(records []*series.Record, phase string) error {
	if phase == "" {
		return nil
	}
	var names []string
	for i := range records[0].Recipe.Phases {
		names = append(names, records[0].Recipe.Phases[i].Name)
	}
	if !slices.Contains(names, phase) {
		return fmt.Errorf("recipe %s has no phase %q%s (there are: %s)", records[0].Identity.Recipe, phase, spelling.Hint(phase, names),
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

// segments are the stretches of a curve that can be drawn: a value that is not finite, or has no logarithm, cuts
// it.
func segments(x, y []float64, log bool) []plotter.XYs {
	var all []plotter.XYs
	open := false
	for i := range x {
		if math.IsNaN(y[i]) || math.IsInf(y[i], 0) || log && y[i] <= 0 {
			open = false
			continue
		}
		if !open {
			all, open = append(all, nil), true
		}
		all[len(all)-1] = append(all[len(all)-1], plotter.XY{X: x[i], Y: y[i]})
	}
	return all
}

// line draws a curve. If it has a name, it goes into the legend.
func line(p *plot.Plot, name string, x, y []float64, c color.Color, width vg.Length, points, log bool) error {
	for _, s := range segments(x, y, log) {
		l, err := plotter.NewLine(s)
		if err != nil {
			return err
		}
		l.LineStyle = draw.LineStyle{Color: c, Width: width}
		p.Add(l)
		if points || len(s) == 1 {
			dots, err := plotter.NewScatter(s)
			if err != nil {
				return err
			}
			dots.GlyphStyle = draw.GlyphStyle{Color: c, Radius: vg.Points(2), Shape: draw.CircleGlyph{}}
			p.Add(dots)
		}
		if name != "" {
			p.Legend.Add(name, l)
			name = ""
		}
	}
	return nil
}

// band draws the mean of an arm with one standard deviation to each side.
func band(p *plot.Plot, name string, b series.Band, c color.NRGBA, points, log bool) error {
	if b.SD != nil {
		if name != "" {
			name += fmt.Sprintf(", mean of %d ± sd", b.Runs)
		}
		low, high := make([]float64, len(b.X)), make([]float64, len(b.X))
		for i := range b.X {
			low[i], high[i] = b.Mean[i]-b.SD[i], b.Mean[i]+b.SD[i]
			if log && low[i] <= 0 {
				low[i] = b.Mean[i] // there is no room below on this axis
			}
		}
		lower, upper := segments(b.X, low, log), segments(b.X, high, log)
		for i := range min(len(lower), len(upper)) {
			around := slices.Clone(upper[i])
			slices.Reverse(lower[i])
			area, err := plotter.NewPolygon(append(around, lower[i]...))
			if err != nil {
				return err
			}
			area.Color, area.LineStyle.Width = color.NRGBA{c.R, c.G, c.B, 50}, 0
			p.Add(area)
		}
	}
	return line(p, name, b.X, b.Mean, c, vg.Points(1.2), points, log)
}

// each draws all runs of an arm.
func each(p *plot.Plot, name string, curves []series.Curve, c color.Color, log bool) error {
	for _, one := range curves {
		if err := line(p, name, one.X, one.Y, c, vg.Points(0.7), false, log); err != nil {
			return err
		}
		name = ""
	}
	return nil
}

func grid() *plotter.Grid {
	g := plotter.NewGrid()
	g.Vertical.Width = 0
	g.Horizontal = draw.LineStyle{Color: color.Gray{220}, Width: vg.Points(0.5)}
	return g
}

// logTicks are at 1 to 9 of each power of ten; 1, 2 and 5 are labelled, or only 1 if there are many powers.
func logTicks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	powers := math.Log10(high / low)
	for e := math.Floor(math.Log10(low)); e <= math.Log10(high); e++ {
		for m := 1.0; m < 10; m++ {
			t := plot.Tick{Value: m * math.Pow(10, e)}
			if t.Value < low || t.Value > high {
				continue
			}
			if m == 1 || powers < 3 && (m == 2 || m == 5) {
				t.Label = strconv.FormatFloat(t.Value, 'g', 3, 64)
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}
