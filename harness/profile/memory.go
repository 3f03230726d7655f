package profile

import (
	"fmt"
	"io"
	"strings"
)

// colours are Okabe and Ito's, which people with any colour vision can tell apart.
var colours = []string{"#0072B2", "#56B4E9", "#E69F00", "#F0E442", "#009E73", "#D55E00", "#CC79A7", "#999999"}

func colour(i int) string { return colours[i%len(colours)] }

// Memory draws a bar for each device with a piece for each part, and a line where its memory ends.
func (s *Step) Memory(w io.Writer) error {
	const left, width, bar, gap, top = 70, 700, 26, 12, 70
	m := s.Estimate
	most := int64(1)
	var names []string
	for _, d := range m.Memory {
		most = max(most, d.Bytes, d.Total())
	}
	if len(m.Memory) > 0 {
		for _, p := range m.Memory[0].Parts {
			names = append(names, p.Name)
		}
	}
	scale := func(b int64) float64 { return float64(b) / float64(most) * width }
	height := top + len(m.Memory)*(bar+gap) + 20
	b := begin(left+width+120, height, fmt.Sprintf("Modelled memory of %s on %s, MB", s.Phase, m.System))
	legend(b, left, 36, names, func(name string) string {
		for i, n := range names {
			if n == name {
				return colour(i)
			}
		}
		return ""
	})
	for i, d := range m.Memory {
		y := top + i*(bar+gap)
		fmt.Fprintf(b, `<text x="10" y="%d">%s</text>`+"\n", y+17, escape(d.Device))
		x := float64(left)
		for k, p := range d.Parts {
			fmt.Fprintf(b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"><title>%s: %.1f MB</title></rect>`+"\n",
				x, y, scale(p.Bytes), bar, colour(k), escape(p.Name), float64(p.Bytes)/1e6)
			x += scale(p.Bytes)
		}
		end := left + scale(d.Bytes)
		fmt.Fprintf(b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="black" stroke-width="2"/>`+"\n", end, y-3, end, y+bar+3)
		fmt.Fprintf(b, `<text x="%.1f" y="%d">%.0f of %.0f</text>`+"\n", max(x, end)+8, y+17, float64(d.Total())/1e6, float64(d.Bytes)/1e6)
	}
	return finish(w, b)
}

// begin opens a picture with a white ground, so that it can be read in a dark page, and a headline.
func begin(width, height int, title string) *strings.Builder {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" `+
		`font-family="sans-serif" font-size="12">`+"\n",
		width, height, width, height)
	fmt.Fprintf(&b, `<title>%s</title>`+"\n"+`<rect width="%d" height="%d" fill="white"/>`+"\n", escape(title), width, height)
	fmt.Fprintf(&b, `<text x="10" y="20" font-size="14">%s</text>`+"\n", escape(title))
	return &b
}

func finish(w io.Writer, b *strings.Builder) error {
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// legend names colours in a row.
func legend(b *strings.Builder, x, y int, names []string, colour func(name string) string) {
	for _, name := range names {
		text := strings.ReplaceAll(name, "_", " ")
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="12" height="12" fill="%s"/><text x="%d" y="%d">%s</text>`+"\n",
			x, y, colour(name), x+17, y+11, escape(text))
		x += 38 + 7*len(text)
	}
}

var xmlEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")

func escape(text string) string { return xmlEscapes.Replace(text) }
