package plotting_test

import (
	"bytes"
	"fmt"
	"image/color"
	"image/png"
	"io"
	"strings"
	"testing"

	"harness.invalid/harness/plotting"
	"harness.invalid/harness/series"
	"harness.invalid/harness/series/seriestest"
	"harness.invalid/results"
)

var fp8 = seriestest.Arm{Backend: "gpu-ref:fp8", Precision: "fp8", F1: 70, StepSeconds: 0.1, Flushed: 0.1}

func drawFormats(t *testing.T, runs []*results.Run, o plotting.Options) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := plotting.WriteFormats(&out, runs, o); err != nil {
		t.Fatalf("%+v: %v", o, err)
	}
	return out.Bytes()
}

// TestFormats: a map names its arms, layers and scale, and leaves out arms without a record.
func TestFormats(t *testing.T) {
	other := fp8
	other.Backend, other.Flushed = "gpu-ref:mine", 0.3
	runs := series.Runs(seriestest.Write(t, t.TempDir(), 2, fp8, gpu, other))
	for _, c := range []struct {
		o    plotting.Options
		want []string
	}{
		{plotting.Options{Quantity: "flushed", Title: "Zeros"}, []string{">gpu-ref:fp8/adamw<", ">gpu-ref:mine/adamw<", ">layer 0<", ">layer 1<",
			">step<", ">0.6<", ">share that became zero, worst operand<", ">Zeros<"}},
		{plotting.Options{Quantity: "largest", Operand: "forward.weight", Phase: "squad", For: "slide"},
			[]string{">largest magnitude, forward.weight<", ">3<"}},
		{plotting.Options{Quantity: "cosine", For: "column"}, []string{">0.999<", ">1<"}},
	} {
		c.o.Format = "svg"
		svg := drawFormats(t, runs, c.o)
		for _, want := range c.want {
			if !bytes.Contains(svg, []byte(want)) {
				t.Errorf("%+v: the picture has no %q", c.o, want)
			}
		}
		if bytes.Contains(svg, []byte("NaN")) || bytes.Contains(svg, []byte("gpu-ref/adamw")) {
			t.Errorf("%+v: the picture has a place that is no number, or FP32", c.o)
		}
	}
}

// TestFormatsShade: twice the share is darker, and none is the lightest colour of the scale.
func TestFormatsShade(t *testing.T) {
	runs := series.Runs(seriestest.Write(t, t.TempDir(), 1, fp8))
	luminance := func(o plotting.Options, layer int) string {
		o.Format, o.DPI = "png", 50
		picture, err := png.Decode(bytes.NewReader(drawFormats(t, runs, o)))
		if err != nil {
			t.Fatal(err)
		}
		b := picture.Bounds()
		at := picture.At(b.Dx()/2+3, b.Dy()*(1+2*layer)/6+5)
		return fmt.Sprintf("%03d", color.GrayModel.Convert(at).(color.Gray).Y)
	}
	flushed, inputs := plotting.Options{Quantity: "flushed"}, plotting.Options{Quantity: "flushed", Operand: "forward.input"}
	first, second, none := luminance(flushed, 0), luminance(flushed, 1), luminance(inputs, 0)
	if !(second < first && first < none) {
		t.Errorf("luminances are %s for 0.2, %s for 0.1 and %s for 0, want them rising", second, first, none)
	}
}

func TestFormatsErrors(t *testing.T) {
	dir := t.TempDir()
	recorded := series.Runs(seriestest.Write(t, dir+"/with", 1, fp8))
	without := series.Runs(seriestest.Write(t, dir+"/without", 1, gpu))
	for want, c := range map[string]struct {
		runs []*results.Run
		o    plotting.Options
	}{
		"train with the backend's option inspect_formats": {without, plotting.Options{Quantity: "flushed"}},
		"did you mean phase1?":                            {recorded, plotting.Options{Quantity: "flushed", Phase: "phase2"}},
		"scale is of one operand":                         {recorded, plotting.Options{Quantity: "scale"}},
		"no room for the maps of 1 arms":                  {recorded, plotting.Options{Quantity: "flushed", HeightInch: 1}},
		`"loss" is no effect of number formats`:           {recorded, plotting.Options{Quantity: "loss"}},
	} {
		c.o.Format = "svg"
		if err := plotting.WriteFormats(io.Discard, c.runs, c.o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q", err, want)
		}
	}
}
