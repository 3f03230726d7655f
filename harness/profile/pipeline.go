package profile

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// drawnCycles are shown at each end of a step, besides those of fill and drain.
const drawnCycles = 2

// partColours are the colours of what a device does; the rest is grey. Dark ones have white numbers.
var partColours = map[string]struct {
	fill string
	dark bool
}{
	"forward": {"#0072B2", true}, "recomputation": {"#56B4E9", false}, "backward": {"#E69F00", false}, "weights": {"#CC79A7", false},
	"streaming": {"#009E73", true}, "all_reduce": {"#D55E00", true}, "optimizer": {"#F0E442", false}, "data_loader": {"#999999", false},
}

func partColour(name string) string {
	if c, ok := partColours[name]; ok {
		return c.fill
	}
	return "#999999"
}

// Measures of the picture, in pixels.
const (
	pipelineLeft = 70
	pipelineTop  = 84
	rowHeight    = 34
	rowPitch     = 44
	gapWidth     = 86   // of the cycles that are left out
	updateWidth  = 130  // of the update
	cyclesWidth  = 1060 // of the cycles that are shown
)

// pipelinePicture is a picture of a pipeline while it is drawn.
type pipelinePicture struct {
	*strings.Builder
	step   *Step
	shown  []slice
	rest   gap
	scale  float64 // pixels a second
	wide   int     // of the cycles with the gap
	bottom int
}

// Pipeline draws what each device of a replica does in the first cycles of a step and in the last ones, with the
// number of the micro-batch, and the update after them. White is waiting.
func (s *Step) Pipeline(w io.Writer) error {
	m := s.Estimate
	p := &m.Pipeline
	shown, rest := s.layOut(drawnCycles)
	d := pipelinePicture{
		step: s, shown: shown, rest: rest, scale: cyclesWidth / (float64(p.Cycles-rest.cycles) * p.CycleSeconds),
		wide: cyclesWidth, bottom: pipelineTop + len(m.Memory)*rowPitch,
	}
	if rest.cycles > 0 {
		d.wide += gapWidth
	}
	d.Builder = begin(pipelineLeft+d.wide+updateWidth+40, d.bottom+40, fmt.Sprintf("Modelled step of %s on %s, one replica: %s of %s",
		s.Phase, m.System, cyclesOf(p.Cycles), milliseconds(p.CycleSeconds)))
	legend(d.Builder, pipelineLeft, 36, d.parts(), partColour)
	d.cycles()
	d.devices()
	d.gap()
	d.update()
	fmt.Fprintf(d, `<text x="%d" y="%d" fill="#555555">Numbers are micro-batches. White is waiting. `+
		`The update has a scale of its own.</text>`+"\n",
		pipelineLeft, d.bottom+18)
	return finish(w, d.Builder)
}

// at is the place of a time.
func (d *pipelinePicture) at(seconds float64) float64 {
	if d.rest.cycles > 0 && seconds >= d.rest.start+d.rest.seconds {
		return pipelineLeft + (seconds-d.rest.seconds)*d.scale + gapWidth
	}
	return pipelineLeft + seconds*d.scale
}

// parts names what devices do, in the order of the legend.
func (d *pipelinePicture) parts() (names []string) {
	for _, c := range d.shown {
		if !slices.Contains(names, c.part) {
			names = append(names, c.part)
		}
	}
	for _, u := range d.step.Estimate.Pipeline.Update {
		if !slices.Contains(names, u.Name) {
			names = append(names, u.Name)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	return names
}

// cycles draws a line where each cycle begins.
func (d *pipelinePicture) cycles() {
	p, rest := &d.step.Estimate.Pipeline, d.rest
	for c := 0; c <= p.Cycles; c++ {
		if rest.cycles > 0 && c > rest.first && c < rest.first+rest.cycles {
			continue
		}
		x := d.at(float64(c) * p.CycleSeconds)
		fmt.Fprintf(d, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#DDDDDD"/>`+"\n", x, pipelineTop-8, x, d.bottom)
		if c < p.Cycles && c != rest.first+rest.cycles-1 && (rest.cycles == 0 || c != rest.first) {
			fmt.Fprintf(d, `<text x="%.1f" y="%d" font-size="9" fill="#777777">%d</text>`+"\n", x+2, pipelineTop-11, c)
		}
	}
	fmt.Fprintf(d, `<text x="10" y="%d" font-size="9" fill="#777777">cycle</text>`+"\n", pipelineTop-11)
}

// devices draws a row for each device, with what it does and for which micro-batch.
func (d *pipelinePicture) devices() {
	for i, memory := range d.step.Estimate.Memory {
		fmt.Fprintf(d, `<text x="10" y="%d">%s</text>`+"\n", pipelineTop+i*rowPitch+21, escape(memory.Device))
	}
	for _, c := range d.shown {
		x, y, width := d.at(c.start), pipelineTop+c.device*rowPitch, c.seconds*d.scale
		fmt.Fprintf(d, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s" stroke="white" stroke-width="0.5">`,
			x, y, width, rowHeight, partColour(c.part))
		fmt.Fprintf(d, `<title>%s: %s of micro-batch %d, %s</title></rect>`+"\n",
			escape(c.stage), escape(c.part), c.microBatch, milliseconds(c.seconds))
		text := fmt.Sprint(c.microBatch)
		if width > 6*float64(len(text)) {
			ink := "black"
			if partColours[c.part].dark {
				ink = "white"
			}
			fmt.Fprintf(d, `<text x="%.1f" y="%d" font-size="9" text-anchor="middle" fill="%s">%s</text>`+"\n",
				x+width/2, y+rowHeight/2+3, ink, text)
		}
	}
}

// gap says what is left out.
func (d *pipelinePicture) gap() {
	if d.rest.cycles == 0 {
		return
	}
	x := d.at(d.rest.start) + gapWidth/2
	for i, text := range []string{cyclesOf(d.rest.cycles), "like these,", milliseconds(d.rest.seconds)} {
		fmt.Fprintf(d, `<text x="%.1f" y="%d" text-anchor="middle" fill="#555555">%s</text>`+"\n", x, (pipelineTop+d.bottom)/2-22+16*i, text)
	}
}

// update draws the update. It takes many times as long as a cycle, so it has a scale of its own.
func (d *pipelinePicture) update() {
	phases := d.step.Estimate.Pipeline.Update
	all := 0.
	for _, u := range phases {
		all += u.Seconds
	}
	x := float64(pipelineLeft + d.wide + 14)
	fmt.Fprintf(d, `<text x="%.1f" y="%d" font-size="9" fill="#777777">update, %s</text>`+"\n", x, pipelineTop-11, milliseconds(all))
	for _, u := range phases {
		width := u.Seconds / all * updateWidth
		fmt.Fprintf(d, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"><title>%s, %s</title></rect>`+"\n",
			x, pipelineTop, width, d.bottom-pipelineTop-(rowPitch-rowHeight), partColour(u.Name),
			escape(strings.ReplaceAll(u.Name, "_", " ")), milliseconds(u.Seconds))
		x += width
	}
}

// rank is the order of parts in a legend.
func rank(name string) int {
	order := []string{
		"weights", "forward", "recomputation", "backward", "launch", "all_reduce", "second_gradient", "optimizer", "streaming",
		"data_loader", "host_exchange", "engine_start", "program",
	}
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
