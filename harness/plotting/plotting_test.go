package plotting_test

import (
	"bytes"
	"encoding/binary"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"harness.invalid/harness/plotting"
	"harness.invalid/harness/series"
	"harness.invalid/harness/series/seriestest"
)

var (
	ipu = seriestest.Arm{Backend: "ipu", Precision: "fp16.16", F1: 70, StepSeconds: 0.2, Skip: 35}
	gpu = seriestest.Arm{Backend: "gpu-ref", Precision: "fp32", F1: 82, StepSeconds: 0.1, NaN: 60}
)

func draw(t *testing.T, records []*series.Record, o plotting.Options) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := plotting.Write(&out, records, o); err != nil {
		t.Fatalf("%+v: %v", o, err)
	}
	return out.Bytes()
}

// TestSVG: every kind of curve is well-formed XML and names its arms, phases and axes.
func TestSVG(t *testing.T) {
	records := seriestest.Write(t, t.TempDir(), 3, ipu, gpu)
	for _, c := range []struct {
		o    plotting.Options
		want []string
	}{
		{plotting.Options{}, []string{">ipu/adamw<", ">gpu-ref/adamw<", ">step<", ">phase1<", ">squad<", "loss, nats (trained)",
			">Means of 3 runs, with one standard deviation to each side.<"}},
		{plotting.Options{Quantity: "f1", Against: series.MeasuredSeconds, Title: "A <title>", For: "column"},
			[]string{"F1, %", "measured seconds of training", "A &lt;title&gt;"}},
		{plotting.Options{Quantity: "evaluated loss", Phase: "phase1", For: "slide"}, []string{">loss, nats<", ">phase1<"}},
		{plotting.Options{Quantity: "gradient_norm", Log: true, Smooth: 10, EachRun: true, Against: series.Samples},
			[]string{">ipu/adamw<", "sequences trained on", "norm of the gradient", ">A line for each run.<"}},
		{plotting.Options{Quantity: "loss_scale", Log: true}, []string{"loss scale"}},
	} {
		c.o.Format = "svg"
		svg := draw(t, records, c.o)
		for _, want := range c.want {
			if !bytes.Contains(svg, []byte(want)) {
				t.Errorf("%+v: the picture has no %q", c.o, want)
			}
		}
		d := xml.NewDecoder(bytes.NewReader(svg))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%+v: %v", c.o, err)
			}
		}
		if bytes.Contains(svg, []byte("NaN")) || bytes.Contains(svg, []byte("Inf")) {
			t.Errorf("%+v: the picture has a place that is no number", c.o)
		}
		if !bytes.Equal(svg, draw(t, records, c.o)) {
			t.Errorf("%+v: two pictures of the same runs differ", c.o)
		}
	}
}

func TestPNGAndPDF(t *testing.T) {
	records := seriestest.Write(t, t.TempDir(), 1, ipu)
	picture, err := png.Decode(bytes.NewReader(draw(t, records, plotting.Options{Format: "png", WidthInch: 5, HeightInch: 2, DPI: 96})))
	if err != nil {
		t.Fatal(err)
	}
	if b := picture.Bounds(); b.Dx() != 480 || b.Dy() != 192 {
		t.Errorf("picture of %v, want 480 x 192 pixels for 5 x 2 inches", b)
	}
	colors := map[string]bool{}
	for x := range 480 {
		for y := range 192 {
			r, g, b, _ := picture.At(x, y).RGBA()
			if r>>8 == 0x00 && g>>8 == 0x72 && b>>8 == 0xb2 {
				colors["blue"] = true
			}
		}
	}
	if !colors["blue"] {
		t.Error("no point of the curve's colour is in the picture")
	}
	if pdf := draw(t, records, plotting.Options{Format: "pdf"}); !bytes.HasPrefix(pdf, []byte("%PDF-")) ||
		!bytes.Contains(pdf, []byte("%%EOF")) {
		t.Errorf("no PDF: %.20q", pdf)
	}
}

func TestErrors(t *testing.T) {
	records := seriestest.Write(t, t.TempDir(), 1, ipu)
	for want, o := range map[string]plotting.Options{
		"did you mean svg?":    {Format: "svgg"},
		"did you mean f1?":     {Format: "svg", Quantity: "f2"},
		"did you mean phase1?": {Format: "svg", Phase: "phase2"},
		"no run has recorded exact_match in phase phase1":     {Format: "svg", Quantity: "exact_match", Phase: "phase1"},
		"size is \"poster\", want one of page, column, slide": {Format: "svg", For: "poster"},
		"has no room for curves beside a legend of":           {Format: "svg", HeightInch: 1},
		"against modelled time, which exists only":            {Format: "svg", Against: series.ModelledSeconds},
	} {
		if err := plotting.Write(io.Discard, records, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q", err, want)
		}
	}
}

// texts are the texts of an SVG, with the place of each.
func texts(t *testing.T, svg []byte) map[string][2]float64 {
	t.Helper()
	at := map[string][2]float64{}
	for _, m := range regexp.MustCompile(`<text x="([-.0-9]+)" y="([-.0-9]+)"[^>]*>([^<]*)</text>`).FindAllSubmatch(svg, -1) {
		x, err := strconv.ParseFloat(string(m[1]), 64)
		y, err2 := strconv.ParseFloat(string(m[2]), 64)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		at[string(m[3])] = [2]float64{x, -y} // the writer turns the picture upside down, and its letters back
	}
	return at
}

// TestLegendIsOutside: names of phases lie above all ticks, the arms and the note below.
func TestLegendIsOutside(t *testing.T) {
	records := seriestest.Write(t, t.TempDir(), 1, ipu, gpu)
	for _, size := range plotting.SizeNames() {
		at := texts(t, draw(t, records, plotting.Options{Format: "svg", For: size}))
		for _, below := range []string{"ipu/adamw", "gpu-ref/adamw"} {
			if at[below][1] >= at["step"][1] {
				t.Errorf("%s: %s is at %v, and the label of the axis at %v: want it below", size, below, at[below], at["step"])
			}
		}
		for _, above := range []string{"phase1", "squad"} {
			if at[above][1] <= at["4"][1] {
				t.Errorf("%s: %s is at %v, and the tick 4 at %v: want it above", size, above, at[above], at["4"])
			}
		}
	}
}

// TestCoincidingArms: arms with the same losses are dashed differently, and the picture says that they coincide; so it
// does not where they differ.
func TestCoincidingArms(t *testing.T) {
	alike := ipu
	alike.Backend = "gpu-ref"
	svg := draw(t, seriestest.Write(t, t.TempDir(), 1, ipu, alike), plotting.Options{Format: "svg"})
	if !bytes.Contains(svg, []byte("Coincide: ipu/adamw, gpu-ref/adamw.")) || !bytes.Contains(svg, []byte("stroke-dasharray")) {
		t.Error("nothing says that the arms coincide, or both have a solid line")
	}
	records := seriestest.Write(t, t.TempDir(), 1, ipu, gpu)
	if svg := draw(t, records, plotting.Options{Format: "svg", Quantity: "f1"}); bytes.Contains(svg, []byte("Coincide")) {
		t.Error("arms that differ in F1 are said to coincide")
	}
}

// TestDensity: a PNG says how many pixels an inch it has, in the chunk that the format has for that.
func TestDensity(t *testing.T) {
	records := seriestest.Write(t, t.TempDir(), 1, ipu)
	for dpi, perMetre := range map[int]uint32{0: 11811, 96: 3780} { // over 0.0254
		file := draw(t, records, plotting.Options{Format: "png", WidthInch: 2, DPI: dpi})
		at := bytes.Index(file, []byte("pHYs"))
		if at < 0 || binary.BigEndian.Uint32(file[at+4:]) != perMetre || binary.BigEndian.Uint32(file[at+8:]) != perMetre || file[at+12] != 1 {
			t.Errorf("%d DPI: pHYs says %v, want %d pixels a metre", dpi, file[at:at+13], perMetre)
		}
		if _, err := png.Decode(bytes.NewReader(file)); err != nil { // checks the sums of the chunks
			t.Error(err)
		}
	}
}
