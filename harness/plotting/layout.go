package plotting

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image/color"
	"io"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	_ "gonum.org/v1/plot/vg/vgpdf" // registers its format
	_ "gonum.org/v1/plot/vg/vgsvg"
)

// Size is a picture's size for a place where it is shown.
type Size struct {
	Name, Doc             string
	WidthInch, HeightInch float64 // with a legend of one row
	FontPoints            float64
}

// Sizes are those that have a name; the first is the default. Widths are those of the text on A4 or letter paper with
// usual margins, of a column of IEEE's and ACM's two-column layouts, and of a slide of 16:9.
var Sizes = []Size{
	{"page", "text across a page, 6.3 inches in 9 points", 6.3, 3.5, 9},
	{"column", "a column of a paper, 3.3 inches in 8 points", 3.3, 2.5, 8},
	{"slide", "a slide of 16:9, 10 inches in 16 points", 10, 5.2, 16},
}

// SizeNames lists the names of Sizes.
func SizeNames() []string {
	var names []string
	for _, s := range Sizes {
		names = append(names, s.Name)
	}
	return names
}

// resolved fills in what o leaves open, from the named size.
func (o Options) resolved() (Options, error) {
	size := Sizes[0]
	if o.For != "" {
		size.Name = ""
		for _, s := range Sizes {
			if s.Name == o.For {
				size = s
			}
		}
		if size.Name == "" {
			return o, fmt.Errorf("size is %q, want one of %s", o.For, strings.Join(SizeNames(), ", "))
		}
	}
	if o.WidthInch == 0 {
		o.WidthInch = size.WidthInch
	}
	if o.FontPoints == 0 {
		o.FontPoints = size.FontPoints
	}
	if o.DPI == 0 {
		o.DPI = DefaultDPI
	}
	o.growing = o.HeightInch == 0
	if o.growing {
		o.HeightInch = size.HeightInch
	}
	return o, nil
}

// DefaultDPI is what journals ask of line art at the least.
const DefaultDPI = 300

// sheet is a picture in the making: the plot in the middle, the title and the names of the phases above it, the legend
// and a note below, so that nothing but curves is inside the axes.
type sheet struct {
	*plot.Plot
	o       Options
	text    draw.TextStyle // of legend, note and phases
	title   string
	phases  []stretch
	entries []entry
	note    string
}

// stretch is where the curves of a phase lie on the axis.
type stretch struct {
	name     string
	from, to float64
}

// entry is a line of the legend.
type entry struct {
	arm   int // its number
	name  string
	style draw.LineStyle
	glyph *draw.GlyphStyle
}

// pt is a length that grows with the font, in points at a font of 10.
func (s *sheet) pt(n float64) vg.Length { return vg.Points(n * s.o.FontPoints / 10) }

func (s *sheet) row() vg.Length { return s.pt(13) }

func (s *sheet) margin() vg.Length { return s.pt(6) }

// write draws the picture in the format of the options.
func (s *sheet) write(w io.Writer) error {
	width := font.Length(s.o.WidthInch) * vg.Inch
	rows := s.legendRows(width - 2*s.margin())
	notes := wrap(s.text, s.note, width-2*s.margin())
	below := s.row() * vg.Length(len(rows)+len(notes))
	height := font.Length(s.o.HeightInch) * vg.Inch
	if s.o.growing && len(rows)+len(notes) > 2 {
		height += s.row() * vg.Length(len(rows)+len(notes)-2)
	}
	if height-below < s.pt(70) {
		return fmt.Errorf("a picture of %.1f inches has no room for curves beside a legend of %d lines: make it higher or wider",
			float64(height/vg.Inch), len(rows)+len(notes))
	}
	return s.onCanvas(w, height, func(c draw.Canvas) {
		s.drawBelow(draw.Crop(c, 0, 0, 0, below-(c.Max.Y-c.Min.Y)), rows, notes)
		s.drawPlot(draw.Crop(c, 0, 0, below+s.pt(3), 0))
	})
}

// onCanvas writes what paint draws within the margins of a picture of a height.
func (s *sheet) onCanvas(w io.Writer, height vg.Length, paint func(draw.Canvas)) error {
	width := font.Length(s.o.WidthInch) * vg.Inch
	var out interface {
		vg.CanvasSizer
		io.WriterTo
	}
	if s.o.Format == "png" {
		out = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(s.o.DPI))}
	} else {
		c, err := draw.NewFormattedCanvas(width, height, s.o.Format)
		if err != nil {
			return fmt.Errorf("figure: %w", err)
		}
		out = c.(interface {
			vg.CanvasSizer
			io.WriterTo
		})
	}
	c := draw.New(out)
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	margin := s.margin()
	paint(draw.Crop(c, margin, -margin, margin, -margin))
	var b bytes.Buffer
	if _, err := out.WriteTo(&b); err != nil {
		return fmt.Errorf("figure: %w", err)
	}
	_, err := w.Write(finish(b.Bytes(), s.o))
	return err
}

// finish adds to a file what its writer leaves out: fonts to fall back on in an SVG, since few machines have that of the
// letters' widths by its name, and the density of a PNG.
func finish(file []byte, o Options) []byte {
	switch o.Format {
	case "svg":
		return bytes.ReplaceAll(file, []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;"))
	case "png": // PNG (ISO/IEC 15948), 11.3.5.3: pHYs comes before the data; here after IHDR, which has 8 + 25 bytes with the signature
		perMetre := uint32(math.Round(float64(o.DPI) / 0.0254))
		chunk := binary.BigEndian.AppendUint32([]byte("pHYs"), perMetre)
		chunk = append(binary.BigEndian.AppendUint32(chunk, perMetre), 1)
		framed := append(binary.BigEndian.AppendUint32(nil, uint32(len(chunk)-4)), chunk...)
		framed = binary.BigEndian.AppendUint32(framed, crc32.ChecksumIEEE(chunk))
		const head = 8 + 25
		return append(append(bytes.Clone(file[:head]), framed...), file[head:]...)
	}
	return file
}

// drawPlot draws the title, the names of the phases and the plot below them.
func (s *sheet) drawPlot(c draw.Canvas) {
	if s.title != "" {
		s.drawTitle(&c, s.title)
	}
	// How many rows the names take depends on where the curves lie across the picture, and not on its height.
	data := s.DataCanvas(c)
	lines := s.phaseRows(&data)
	high := 0
	for _, l := range lines {
		high = max(high, l.row+1)
	}
	inner := draw.Crop(c, 0, 0, 0, -s.row()*vg.Length(high)-s.pt(3))
	data = s.DataCanvas(inner)
	x, _ := s.Transforms(&data)
	gray := draw.LineStyle{Color: color.Gray{150}, Width: s.pt(0.6)}
	for i, p := range s.phases {
		if i > 0 && s.phases[i-1].to <= p.from {
			at := (x(s.phases[i-1].to) + x(p.from)) / 2
			dashed := gray
			dashed.Dashes = []vg.Length{s.pt(2), s.pt(2)}
			c.StrokeLine2(dashed, at, data.Min.Y, at, data.Max.Y)
		}
	}
	s.Draw(inner)
	for i, l := range lines {
		y := data.Max.Y + s.pt(5) + s.row()*vg.Length(l.row)
		c.StrokeLine2(gray, x(s.phases[i].from)+s.pt(0.5), y, x(s.phases[i].to)-s.pt(0.5), y)
		c.FillText(s.text, vg.Point{X: l.at, Y: y + s.pt(2.5)}, s.phases[i].name)
	}
}

// drawTitle takes a title off the top of a canvas.
func (s *sheet) drawTitle(c *draw.Canvas, title string) {
	style := s.text
	style.Font.Size *= 1.2
	style.XAlign, style.YAlign = draw.XCenter, draw.YTop
	c.FillText(style, vg.Point{X: c.Center().X, Y: c.Max.Y}, title)
	c.Max.Y -= s.row() * 1.4
}

// placed is where the name of a phase goes.
type placed struct {
	at  vg.Length
	row int // from below
}

// phaseRows places the names of the phases in as few rows as hold them.
func (s *sheet) phaseRows(data *draw.Canvas) []placed {
	x, _ := s.Transforms(data)
	var all []placed
	var ends []vg.Length // of the rows
	for _, p := range s.phases {
		from, to, width := x(p.from), x(p.to), s.text.Width(p.name)
		at := max(min((from+to-width)/2, data.Max.X-width), data.Min.X)
		left, right := min(at-s.pt(2), from), max(at+width+s.pt(2), to)
		row := 0
		for row < len(ends) && ends[row] > left {
			row++
		}
		if row == len(ends) {
			ends = append(ends, 0)
		}
		ends[row] = right
		all = append(all, placed{at, row})
	}
	return all
}

// sample is the length of a line in the legend.
func (s *sheet) sample() vg.Length { return s.pt(24) }

// cell is an entry, or a part of one with a long name, in a row of the legend.
type cell struct {
	entry
	at    vg.Length
	first bool // has the sample
}

// legendRows lets the entries flow into rows of a width.
func (s *sheet) legendRows(width vg.Length) [][]cell {
	var rows [][]cell
	var at vg.Length
	for _, e := range s.entries {
		for i, part := range wrap(s.text, e.name, width-s.sample()-s.pt(4)) {
			one := e
			one.name = part
			need := s.sample() + s.pt(4) + s.text.Width(part) + s.pt(14)
			if len(rows) == 0 || i > 0 || at > 0 && at+need-s.pt(14) > width {
				rows, at = append(rows, nil), 0
			}
			rows[len(rows)-1] = append(rows[len(rows)-1], cell{one, at, i == 0})
			at += need
		}
	}
	return rows
}

// drawBelow draws the legend and the note.
func (s *sheet) drawBelow(c draw.Canvas, rows [][]cell, notes []string) {
	y := c.Max.Y - s.row()
	for _, row := range rows {
		for _, e := range row {
			from, middle := c.Min.X+e.at, y+s.pt(3)
			if e.first {
				c.StrokeLine2(e.style, from, middle, from+s.sample(), middle)
			}
			if e.first && e.glyph != nil {
				c.DrawGlyph(*e.glyph, vg.Point{X: from + s.sample()/2, Y: middle})
			}
			c.FillText(s.text, vg.Point{X: from + s.sample() + s.pt(4), Y: y}, e.name)
		}
		y -= s.row()
	}
	for _, line := range notes {
		c.FillText(s.text, vg.Point{X: c.Min.X, Y: y}, line)
		y -= s.row()
	}
}

// wrap breaks a text into lines of a width, between words where a line has several.
func wrap(style draw.TextStyle, text string, width vg.Length) []string {
	var lines []string
	line := ""
	for _, r := range text {
		if line != "" && style.Width(line+string(r)) > width {
			rest := ""
			if i := strings.LastIndexByte(line, ' '); i > 0 && r != ' ' {
				line, rest = line[:i], line[i+1:]
			}
			lines = append(lines, strings.TrimSpace(line))
			line = rest
		}
		line += string(r)
	}
	if line = strings.TrimSpace(line); line != "" {
		lines = append(lines, line)
	}
	return lines
}
