package plotting

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"harness.invalid/harness/series"
	"harness.invalid/results"
)

// palette has colours that people with any kind of colour vision can tell apart: Okabe and Ito 2008, "Color
// Universal Design", without their yellow and black.
var palette = []color.NRGBA{{0x00, 0x72, 0xb2, 255}, {0xd5, 0x5e, 0x00, 255}, {0x00, 0x9e, 0x73, 255}, {0xcc, 0x79, 0xa7, 255},
	{0xe6, 0x9f, 0x00, 255}, {0x56, 0xb4, 0xe9, 255}}

// dashes are those of the arms after the first, which has a broad line: where arms coincide, all of them are seen, in
// grey print, too. In points at a font of 10.
var dashes = [][]float64{{6, 3}, {2, 2.5}, {9, 2.5, 2, 2.5}, {3.5, 3.5}, {11, 4}, {1, 3.5}, {7, 2, 2, 2, 2, 2}, {5, 2}}

var glyphs = []draw.GlyphDrawer{draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{}, draw.PlusGlyph{}}

// style is how arm number i is drawn.
func (s *sheet) style(i int) (draw.LineStyle, draw.GlyphStyle) {
	c := palette[i%len(palette)]
	if i == 0 {
		return draw.LineStyle{Color: c, Width: s.pt(2.2)}, draw.GlyphStyle{Color: c, Radius: s.pt(2.8), Shape: draw.CircleGlyph{}}
	}
	l := draw.LineStyle{Color: c, Width: s.pt(1.2)}
	for _, d := range dashes[(i-1)%len(dashes)] {
		l.Dashes = append(l.Dashes, s.pt(d))
	}
	return l, draw.GlyphStyle{Color: c, Radius: s.pt(2.2), Shape: glyphs[(i-1)%len(glyphs)]}
}

// curves draws what the arms recorded, phase by phase: all bands, and then the lines on them.
func (s *sheet) curves(q series.Quantity, records []*series.Record) error {
	o := s.o
	phases := []string{o.Phase}
	if o.Phase == "" {
		phases = nil
		for i := range records[0].Recipe.Phases {
			phases = append(phases, records[0].Recipe.Phases[i].Name)
		}
	}
	arms := armsOf(records)
	means := make([][]series.Band, len(arms)) // by arm, of the phases that it has
	fewest, most := math.MaxInt, 0            // runs of a mean
	var lines []func() error
	for _, phase := range phases {
		var spans []series.Curve
		for i, arm := range arms {
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
			if s.entries == nil || !slices.ContainsFunc(s.entries, func(e entry) bool { return e.name == arm.String() }) {
				s.entries = append(s.entries, s.entryOf(arm, i, q.Evaluated && !o.EachRun))
			}
			if o.EachRun {
				spans = append(spans, curves...)
				lines = append(lines, func() error { return s.each(curves, i) })
				continue
			}
			band := series.Over(curves)
			means[i] = append(means[i], band)
			spans = append(spans, series.Curve{X: band.X})
			fewest, most = min(fewest, len(curves)), max(most, len(curves))
			if err := s.area(band, palette[i%len(palette)]); err != nil {
				return err
			}
			l, g := s.style(i)
			lines = append(lines, func() error { return s.line(band.X, band.Mean, l, g, q.Evaluated) })
		}
		s.stretch(phase, spans)
	}
	if len(s.entries) == 0 {
		return nothingRecorded(q, o)
	}
	for _, draw := range lines {
		if err := draw(); err != nil {
			return err
		}
	}
	slices.SortStableFunc(s.entries, func(a, b entry) int { return a.arm - b.arm })
	s.note = strings.Join(slices.DeleteFunc([]string{spread(o.EachRun, fewest, most), s.coinciding(arms, means)},
		func(text string) bool { return text == "" }), " ")
	return nil
}

func nothingRecorded(q series.Quantity, o Options) error {
	where := ""
	if o.Phase != "" {
		where = " in phase " + o.Phase
	}
	if o.Against == series.ModelledSeconds {
		where += " against modelled time, which exists only if a backend models a system"
	}
	return fmt.Errorf("no run has recorded %s%s", q.Name, where)
}

func (s *sheet) entryOf(arm results.Arm, i int, points bool) entry {
	line, glyph := s.style(i)
	if s.o.EachRun {
		line.Width, line.Dashes = s.pt(0.9), nil
	}
	e := entry{arm: i, name: arm.String(), style: line}
	if points {
		e.glyph = &glyph
	}
	return e
}

// spread says what lines and bands are.
func spread(eachRun bool, fewest, most int) string {
	switch {
	case eachRun:
		return "A line for each run."
	case most < 2:
		return "" // single runs
	case fewest == most:
		return fmt.Sprintf("Means of %d runs, with one standard deviation to each side.", most)
	}
	return fmt.Sprintf("Means of %d to %d runs, with one standard deviation to each side.", fewest, most)
}

// stretch notes where the curves of a phase lie on the axis.
func (s *sheet) stretch(phase string, curves []series.Curve) {
	if len(curves) == 0 {
		return
	}
	from, to := math.Inf(1), math.Inf(-1)
	for _, c := range curves {
		from, to = min(from, c.X[0]), max(to, c.X[len(c.X)-1])
	}
	s.phases = append(s.phases, stretch{phase, from, to})
}

// nearby is the share of an axis within which curves coincide: about as thick as a line.
const nearby = 0.01

// coinciding says which arms cannot be told apart: whose means are nowhere further apart than a line is thick.
func (s *sheet) coinciding(arms []results.Arm, means [][]series.Band) string {
	at := func(v float64) float64 {
		if s.o.Log {
			return (math.Log(v) - math.Log(s.Y.Min)) / (math.Log(s.Y.Max) - math.Log(s.Y.Min))
		}
		return (v - s.Y.Min) / (s.Y.Max - s.Y.Min)
	}
	near := func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) < nearby }
	same := func(a, b series.Band) bool {
		if len(a.X) != len(b.X) {
			return false
		}
		for i := range a.X {
			if !near(a.X[i]/(s.X.Max-s.X.Min), b.X[i]/(s.X.Max-s.X.Min)) || !near(at(a.Mean[i]), at(b.Mean[i])) {
				return false
			}
		}
		return true
	}
	var groups [][]int
	for i := range arms {
		if len(means[i]) == 0 {
			continue
		}
		g := slices.IndexFunc(groups, func(g []int) bool { return slices.EqualFunc(means[g[0]], means[i], same) })
		if g < 0 {
			groups = append(groups, []int{i})
		} else {
			groups[g] = append(groups[g], i)
		}
	}
	var texts []string
	for _, g := range groups {
		if len(g) > 1 {
			var names []string
			for _, i := range g {
				names = append(names, arms[i].String())
			}
			texts = append(texts, strings.Join(names, ", "))
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return "Coincide: " + strings.Join(texts, "; ") + "."
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

// line draws a curve, with its points if asked for or if one stands alone.
func (s *sheet) line(x, y []float64, style draw.LineStyle, glyph draw.GlyphStyle, points bool) error {
	for _, part := range segments(x, y, s.o.Log) {
		l, err := plotter.NewLine(part)
		if err != nil {
			return err
		}
		l.LineStyle = style
		s.Add(l)
		if points || len(part) == 1 {
			dots, err := plotter.NewScatter(part)
			if err != nil {
				return err
			}
			dots.GlyphStyle = glyph
			s.Add(dots)
		}
	}
	return nil
}

// area draws one standard deviation to each side of a mean.
func (s *sheet) area(b series.Band, c color.NRGBA) error {
	if b.SD == nil {
		return nil
	}
	low, high := make([]float64, len(b.X)), make([]float64, len(b.X))
	for i := range b.X {
		low[i], high[i] = b.Mean[i]-b.SD[i], b.Mean[i]+b.SD[i]
		if s.o.Log && low[i] <= 0 {
			low[i] = b.Mean[i] // there is no room below on this axis
		}
	}
	lower, upper := segments(b.X, low, s.o.Log), segments(b.X, high, s.o.Log)
	for i := range min(len(lower), len(upper)) {
		around := slices.Clone(upper[i])
		slices.Reverse(lower[i])
		area, err := plotter.NewPolygon(append(around, lower[i]...))
		if err != nil {
			return err
		}
		area.Color, area.LineStyle.Width = color.NRGBA{c.R, c.G, c.B, 50}, 0
		s.Add(area)
	}
	return nil
}

// each draws all runs of an arm.
func (s *sheet) each(curves []series.Curve, i int) error {
	style, glyph := s.style(i)
	style.Width, style.Dashes = s.pt(0.9), nil
	for _, one := range curves {
		if err := s.line(one.X, one.Y, style, glyph, false); err != nil {
			return err
		}
	}
	return nil
}

func (s *sheet) grid() *plotter.Grid {
	g := plotter.NewGrid()
	g.Vertical.Width = 0
	g.Horizontal = draw.LineStyle{Color: color.Gray{220}, Width: vg.Points(0.5)}
	return g
}
