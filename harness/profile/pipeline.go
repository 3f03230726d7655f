package profile

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// drawnCycles of a step are in the picture at each end, besides those of fill and drain.
const drawnCycles = 2

// partColours are those of what a device does; what is not named here is grey. Dark ones have white numbers.
var partColours = map[string]struct {
	fill string
	dark bool
}{
	"forward": {"#0072B2", true}, "recomputation": {"#56B4E9", false}, "backward": {"#E69F00", false}, "weights": {"#CC79A7", false}, "streaming": {"#009E73", true},
	"all_reduce": {"#D55E00", true}, "optimizer": {"#F0E442", false}, "host_io": {"#999999", false},
}

func partColour(name string) string {
	if c, ok := partColours[name]; ok {
		return c.fill
	}
	return "#999999"
}

// Pipeline draws what each device of a replica does in the first cycles of a step and in the last ones, with the
// number of the micro-batch, and the update behind them. White is waiting.
func (s *Step) Pipeline(w io.Writer) error {
	const left, top, row, pitch, between, updating, charge = 70, 84, 34, 44, 86, 130, 1060
	m := s.Estimate
	p := &m.Pipeline
	shown, rest := s.layOut(drawnCycles)
	cycles := p.Cycles - rest.cycles
	scale := charge / (float64(cycles) * p.CycleSeconds)
	place := func(t float64) float64 { // of a time in the picture
		if rest.cycles > 0 && t >= rest.start+rest.seconds {
			return left + (t-rest.seconds)*scale + between
		}
		return left + t*scale
	}
	wide := charge
	if rest.cycles > 0 {
		wide += between
	}
	bottom := top + len(m.Memory)*pitch
	b := begin(left+wide+updating+40, bottom+40, fmt.Sprintf("Modelled step of %s on %s, one replica: %s of %s", s.Phase, m.System, cyclesOf(p.Cycles), milliseconds(p.CycleSeconds)))
	var names []string
	for _, c := range shown {
		if !slices.Contains(names, c.part) {
			names = append(names, c.part)
		}
	}
	for _, u := range p.Update {
		if !slices.Contains(names, u.Name) {
			names = append(names, u.Name)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	legend(b, left, 36, names, partColour)
	for c := 0; c <= p.Cycles; c++ { // a line where a cycle begins
		if rest.cycles > 0 && c > rest.first && c < rest.first+rest.cycles {
			continue
		}
		x := place(float64(c) * p.CycleSeconds)
		fmt.Fprintf(b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#DDDDDD"/>`+"\n", x, top-8, x, bottom)
		if c < p.Cycles && c != rest.first+rest.cycles-1 && (rest.cycles == 0 || c != rest.first) {
			fmt.Fprintf(b, `<text x="%.1f" y="%d" font-size="9" fill="#777777">%d</text>`+"\n", x+2, top-11, c)
		}
	}
	fmt.Fprintf(b, `<text x="10" y="%d" font-size="9" fill="#777777">cycle</text>`+"\n", top-11)
	for d, memory := range m.Memory {
		fmt.Fprintf(b, `<text x="10" y="%d">%s</text>`+"\n", top+d*pitch+21, escape(memory.Device))
	}
	for _, c := range shown {
		x, y, width := place(c.start), top+c.device*pitch, c.seconds*scale
		fmt.Fprintf(b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s" stroke="white" stroke-width="0.5"><title>%s: %s of micro-batch %d, %s</title></rect>`+"\n",
			x, y, width, row, partColour(c.part), escape(c.stage), escape(c.part), c.microBatch, milliseconds(c.seconds))
		text := fmt.Sprint(c.microBatch)
		if width > 6*float64(len(text)) {
			ink := "black"
			if partColours[c.part].dark {
				ink = "white"
			}
			fmt.Fprintf(b, `<text x="%.1f" y="%d" font-size="9" text-anchor="middle" fill="%s">%s</text>`+"\n", x+width/2, y+row/2+3, ink, text)
		}
	}
	if rest.cycles > 0 {
		x := place(rest.start) + between/2
		for i, text := range []string{cyclesOf(rest.cycles), "like these,", milliseconds(rest.seconds)} {
			fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle" fill="#555555">%s</text>`+"\n", x, (top+bottom)/2-22+16*i, text)
		}
	}
	// The update is no cycle, and many times as long as one: it has a scale of its own.
	all := 0.
	for _, u := range p.Update {
		all += u.Seconds
	}
	x := float64(left + wide + 14)
	fmt.Fprintf(b, `<text x="%.1f" y="%d" font-size="9" fill="#777777">update, %s</text>`+"\n", x, top-11, milliseconds(all))
	for _, u := range p.Update {
		width := u.Seconds / all * updating
		fmt.Fprintf(b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"><title>%s, %s</title></rect>`+"\n",
			x, top, width, bottom-top-(pitch-row), partColour(u.Name), escape(strings.ReplaceAll(u.Name, "_", " ")), milliseconds(u.Seconds))
		x += width
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" fill="#555555">Numbers are micro-batches. White is waiting. The update has a scale of its own.</text>`+"\n", left, bottom+18)
	return finish(w, b)
}

// rank is the order of parts in a legend.
func rank(name string) int {
	order := []string{"weights", "forward", "recomputation", "backward", "launch", "all_reduce", "second_gradient", "optimizer", "streaming", "host_io"}
	if i := slices.Index(order, name); i >= 0 {
		return i
	}
	return len(order)
}

func milliseconds(seconds float64) string {
	if seconds >= 1 {
		return fmt.Sprintf("%.3g s", seconds)
	}
	return fmt.Sprintf("%.3g ms", seconds*1e3)
}

func cyclesOf(n int) string {
	if n == 1 {
		return "1 cycle"
	}
	return fmt.Sprintf("%d cycles", n)
}
