package plotting_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
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

// TestSVG: every kind of curve is well-formed XML and names its arms and axes.
func TestSVG(t *testing.T) {
	records := seriestest.Write(t, t.TempDir(), 3, ipu, gpu)
	for _, c := range []struct {
		o    plotting.Options
		want []string
	}{
		{plotting.Options{}, []string{"ipu/adamw, mean of 3 ± sd", "gpu-ref/adamw, mean of 3 ± sd", ">step<", "loss, nats (trained)"}},
		{plotting.Options{Quantity: "f1", Against: series.MeasuredSeconds, Title: "A <title>"},
			[]string{"F1, %", "measured seconds of training", "A &lt;title&gt;"}},
		{plotting.Options{Quantity: "evaluated loss", Phase: "phase1"}, []string{">loss, nats<", "phase phase1 of the run"}},
		{plotting.Options{Quantity: "gradient_norm", Log: true, Smooth: 10, EachRun: true, Against: series.Samples},
			[]string{">ipu/adamw<", "sequences trained on", "norm of the gradient"}},
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
	picture, err := png.Decode(bytes.NewReader(draw(t, records, plotting.Options{Format: "png", WidthInch: 5, HeightInch: 2})))
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
		"no run has recorded exact_match in phase phase1": {Format: "svg", Quantity: "exact_match", Phase: "phase1"},
		"against modelled time, which exists only":        {Format: "svg", Against: series.ModelledSeconds},
	} {
		if err := plotting.Write(io.Discard, records, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q", err, want)
		}
	}
}
