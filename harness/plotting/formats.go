package plotting

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"harness.invalid/harness/series"
	"harness.invalid/results"
)

// unrecorded is the colour of a cell without a value, such as a magnitude that is not finite.
var unrecorded = color.NRGBA{0xd5, 0x5e, 0x00, 255}

// WriteFormats draws what number formats did to operands of products: for each arm a map of operators by steps, the mean
// over its runs, all in the same colours. o.Quantity is a column of series.Effects.
func WriteFormats(w io.Writer, runs []*results.Run, o Options) error {
	e, ok := series.EffectNamed(o.Quantity)
	if !ok {
		return fmt.Errorf("%q is no effect of number formats", o.Quantity)
	}
	o, err := o.resolved()
	if err != nil {
		return err
	}
	if err := phaseKnown(runs[0], o.Phase); err != nil {
		return err
	}
	m := maps{o: o, effect: e, least: math.Inf(1), most: math.Inf(-1)}
	if err := m.read(runs); err != nil {
		return err
	}
	return m.write(w)
}

// maps are the maps of the arms, one below the other, above a scale of the colours.
type maps struct {
	o           Options
	effect      series.Effect
	panels      []panel
	least, most float64 // of all values
}

type panel struct {
	name string
	series.Map
}

// read reads the maps, and the range of their values.
func (m *maps) read(runs []*results.Run) error {
	byArm := map[results.Arm][]series.Map{}
	var arms []results.Arm
	for _, r := range runs {
		one, err := series.ReadMap(r, m.effect, m.o.Operand, m.o.Phase)
		if err != nil {
			return err
		}
		if len(one.Columns) == 0 {
			continue // such as FP32, which quantises nothing
		}
		if !slices.Contains(arms, r.Arm()) {
			arms = append(arms, r.Arm())
		}
		byArm[r.Arm()] = append(byArm[r.Arm()], one)
	}
	for _, a := range arms {
		p := panel{a.String(), series.MeanMap(byArm[a])}
		for _, c := range p.Columns {
			for _, v := range c.Values {
				if !math.IsNaN(v) {
					m.least, m.most = min(m.least, v), max(m.most, v)
				}
			}
		}
		m.panels = append(m.panels, p)
	}
	switch {
	case len(m.panels) == 0:
		return errors.New("no run has recorded what number formats did: train with the backend's option inspect_formats, " +
			"such as gpu-ref:fp8?inspect_formats=10")
	case m.least > m.most:
		return fmt.Errorf("no run has a value of %s: each block of the format has its own", m.effect.Name)
	}
	switch {
	case m.effect.Share && m.effect.Least:
		m.most = 1
	case m.effect.Share:
		m.least = 0
	}
	return nil
}

// log reports whether the colours follow the logarithm.
func (m *maps) log() bool { return !m.effect.Share }

// shade is the colour of a value: darker is more, or less where that is worse.
func (m *maps) shade(v float64) color.Color {
	if math.IsNaN(v) {
		return unrecorded
	}
	at := 0.0
	if m.most > m.least {
		if at = (v - m.least) / (m.most - m.least); m.log() {
			at = math.Log(v/m.least) / math.Log(m.most/m.least)
		}
	}
	if m.effect.Share && m.effect.Least {
		at = 1 - at
	}
	return mix(at)
}

// mix goes from nearly white over the blue of the palette to nearly black: it can be read in grey print, too.
func mix(at float64) color.Color {
	stops := [...][3]float64{{0xf2, 0xf5, 0xf8}, {0x00, 0x72, 0xb2}, {0x0a, 0x14, 0x28}}
	at = min(max(at, 0), 1) * float64(len(stops)-1)
	i := min(int(at), len(stops)-2)
	at -= float64(i)
	channel := func(c int) uint8 { return uint8(math.Round(stops[i][c]*(1-at) + stops[i+1][c]*at)) }
	return color.NRGBA{channel(0), channel(1), channel(2), 255}
}

// write draws all panels and the scale.
func (m *maps) write(w io.Writer) error {
	s := &sheet{Plot: plot.New(), o: m.o}
	s.text = s.X.Tick.Label
	s.text.Font.Variant, s.text.Font.Size = "Sans", vg.Points(m.o.FontPoints)
	s.text.XAlign, s.text.YAlign = draw.XLeft, draw.YBottom
	height := font.Length(m.o.HeightInch) * vg.Inch
	if m.o.growing && len(m.panels) > 2 {
		height += font.Length(m.o.HeightInch) * vg.Inch * vg.Length(len(m.panels)-2) / 2
	}
	top, below := vg.Length(0), 5*s.row()
	if m.o.Title != "" {
		top = s.row() * 1.4
	}
	each := (height - 2*s.margin() - top - below) / vg.Length(len(m.panels))
	if each < s.pt(50) {
		return fmt.Errorf("a picture of %.1f inches has no room for the maps of %d arms: make it higher", float64(height/vg.Inch), len(m.panels))
	}
	return s.onCanvas(w, height, func(c draw.Canvas) {
		if m.o.Title != "" {
			s.drawTitle(&c, m.o.Title)
		}
		left := m.namesWidth(s)
		for i, p := range m.panels {
			y := c.Max.Y - each*vg.Length(i)
			inner := draw.Crop(c, left, -s.pt(10), y-each-c.Min.Y, y-c.Max.Y-s.row()*1.3)
			c.FillText(s.text, vg.Point{X: inner.Min.X, Y: inner.Max.Y + s.pt(2)}, p.name)
			m.drawPanel(s, inner, p, i == len(m.panels)-1)
		}
		m.drawScale(s, draw.Crop(c, left, -s.pt(10), 0, 2.2*s.row()-(c.Max.Y-c.Min.Y)))
	})
}

// layerOf is what an operator's name has before the part within its layer, in short.
func layerOf(operator string) string {
	rest, ok := strings.CutPrefix(operator, "bert.encoder.layer.")
	if number, _, found := strings.Cut(rest, "."); ok && found {
		return "layer " + number
	}
	return operator
}

func (m *maps) namesWidth(s *sheet) vg.Length {
	width := vg.Length(0)
	for _, p := range m.panels {
		for _, o := range p.Operators {
			width = max(width, s.text.Width(layerOf(o)))
		}
	}
	return width + s.pt(8)
}

// drawPanel draws the map of an arm: the first layer on top.
func (m *maps) drawPanel(s *sheet, c draw.Canvas, p panel, last bool) {
	rows, first, end := vg.Length(len(p.Operators)), p.Columns[0].From, p.Columns[len(p.Columns)-1].To
	size := c.Max.Sub(c.Min)
	x := func(step int) vg.Length { return c.Min.X + size.X*vg.Length(step-first)/vg.Length(end-first) }
	y := func(row vg.Length) vg.Length { return c.Max.Y - size.Y*row/rows }
	for i, o := range p.Operators {
		for at := 0; at < len(p.Columns); {
			v, ok := p.Columns[at].Values[o]
			end := at + 1
			if !ok {
				at = end
				continue
			}
			shade := m.shade(v)
			for end < len(p.Columns) { // neighbours of one colour are one rectangle
				next, ok := p.Columns[end].Values[o]
				if !ok || p.Columns[end].From != p.Columns[end-1].To || m.shade(next) != shade {
					break
				}
				end++
			}
			c.SetColor(shade)
			r := vg.Rectangle{Min: vg.Point{X: x(p.Columns[at].From), Y: y(vg.Length(i + 1))}}
			r.Max = vg.Point{X: x(p.Columns[end-1].To), Y: y(vg.Length(i))}
			c.Fill(r.Path())
			at = end
		}
	}
	line := draw.LineStyle{Color: color.Gray{150}, Width: s.pt(0.6)}
	c.StrokeLines(line, []vg.Point{c.Min, {X: c.Max.X, Y: c.Min.Y}, c.Max, {X: c.Min.X, Y: c.Max.Y}, c.Min})
	// The names of layers, so many as have room.
	style, used := s.text, c.Max.Y+s.row()
	style.XAlign, style.YAlign = draw.XRight, draw.YCenter
	for i := 0; i < len(p.Operators); {
		n := i
		for n < len(p.Operators) && layerOf(p.Operators[n]) == layerOf(p.Operators[i]) {
			n++
		}
		if middle := y(vg.Length(i+n) / 2); used-middle >= s.row() {
			c.FillText(style, vg.Point{X: c.Min.X - s.pt(5), Y: middle}, layerOf(p.Operators[i]))
			used = middle
		}
		if i > 0 {
			c.StrokeLine2(line, c.Min.X-s.pt(3), y(vg.Length(i)), c.Max.X, y(vg.Length(i)))
		}
		i = n
	}
	for i, column := range p.Columns {
		if i > 0 && column.Phase != p.Columns[i-1].Phase {
			c.StrokeLine2(draw.LineStyle{Color: color.Black, Width: s.pt(0.8)}, x(column.From), c.Min.Y, x(column.From), c.Max.Y)
		}
	}
	if !last {
		return
	}
	style.XAlign, style.YAlign = draw.XCenter, draw.YTop
	for _, t := range roundTicks(max(2, int(size.X/s.pt(50))))(float64(first), float64(end)) {
		if t.Value != math.Trunc(t.Value) {
			continue
		}
		c.StrokeLine2(line, x(int(t.Value)), c.Min.Y, x(int(t.Value)), c.Min.Y-s.pt(3))
		c.FillText(style, vg.Point{X: x(int(t.Value)), Y: c.Min.Y - s.pt(4)}, t.Label)
	}
	c.FillText(style, vg.Point{X: c.Center().X, Y: c.Min.Y - s.row() - s.pt(4)}, "step")
}

// drawScale draws the colours from the least to the most value, and what they show.
func (m *maps) drawScale(s *sheet, c draw.Canvas) {
	const parts = 64
	bar := c.Rectangle
	bar.Min.Y = bar.Max.Y - s.pt(8)
	width := bar.Max.X - bar.Min.X
	for i := range parts {
		at := (float64(i) + 0.5) / parts
		v := m.least + at*(m.most-m.least)
		if m.log() {
			v = m.least * math.Pow(m.most/m.least, at)
		}
		c.SetColor(m.shade(v))
		r := bar
		r.Min.X, r.Max.X = bar.Min.X+width*vg.Length(i)/parts, bar.Min.X+width*vg.Length(i+1)/parts
		c.Fill(r.Path())
	}
	what := "worst operand"
	if m.o.Operand != "" {
		what = m.o.Operand
	}
	number := func(v float64) string {
		if m.effect.Share {
			return strconv.FormatFloat(v, 'g', 3, 64)
		}
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	style := s.text
	style.YAlign = draw.YTop
	for i, t := range []string{number(m.least), m.effect.Label + ", " + what, number(m.most)} {
		style.XAlign = draw.XRight * text.XAlignment(i) / 2
		c.FillText(style, vg.Point{X: bar.Min.X + width*vg.Length(i)/2, Y: bar.Min.Y - s.pt(2)}, t)
	}
}
