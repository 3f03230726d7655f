package series_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"harness.invalid/harness/series"
	"harness.invalid/harness/series/seriestest"
)

// TestRead: places on all axes add up, evaluations come after their steps, and skipped steps have no gradient norm.
func TestRead(t *testing.T) {
	r := seriestest.Write(t, t.TempDir(), 1, seriestest.Arm{Backend: "ipu", Precision: "fp16.16", F1: 80, StepSeconds: 0.1, Skip: 35,
		NaN: 60})[0]
	if len(r.Steps) != 70 || len(r.Evaluations) != 5 {
		t.Fatalf("%d steps and %d evaluations, want 70 and 5", len(r.Steps), len(r.Evaluations))
	}
	last := r.Steps[69]
	if last.Phase != "squad" || last.Step != 40 || last.Total != 70 || last.Samples != 560 || math.Abs(last.Measured-7) > 1e-9 ||
		math.Abs(last.Wall-8) > 1e-9 {
		t.Errorf("the last step is %+v, want 560 samples, 7 seconds of training and, with 4 evaluations before it, 8 in all", last)
	}
	var at []int
	for _, e := range r.Evaluations {
		at = append(at, e.Total)
		if e.Samples != int64(8*e.Total) || math.Abs(e.Measured-0.1*float64(e.Total)) > 1e-9 {
			t.Errorf("evaluation after step %d: %d samples, %g s", e.Total, e.Samples, e.Measured)
		}
	}
	if !slices.Equal(at, []int{30, 40, 50, 60, 70}) {
		t.Errorf("evaluations after %v", at)
	}
	if s := r.Steps[34]; !s.Skipped || !math.IsNaN(s.Values[series.GradientNorm]) || r.Steps[33].Skipped {
		t.Errorf("step 35 is %+v, want it skipped and without a gradient norm", s)
	}
	q := series.Quantity{Name: "loss"}
	if c := r.Curve(q, "squad", series.Samples); len(c.X) != 40 || c.X[0] != 248 || !math.IsNaN(c.Y[29]) || math.IsNaN(c.Y[28]) {
		t.Errorf("loss of squad against samples: %d points, the first at %v", len(c.X), c.X[0])
	}
	if c := r.Curve(series.Quantity{Name: "f1", Evaluated: true}, "", series.MeasuredSeconds); len(c.X) != 4 || math.Abs(c.X[3]-7) > 1e-9 {
		t.Errorf("F1 against time: %+v", c)
	}
	if !r.Began().Equal(seriestest.Begin) {
		t.Errorf("began %v", r.Began())
	}
}

func TestQuantities(t *testing.T) {
	records := seriestest.Write(t, t.TempDir(), 1, seriestest.Arm{Backend: "ipu", F1: 80, StepSeconds: 0.1})
	var names []string
	for _, q := range series.Quantities(records) {
		if q.Label == "" {
			t.Errorf("%s has no label", q.Name)
		}
		name := q.Name
		if q.Evaluated {
			name = "evaluated " + name
		}
		names = append(names, name)
	}
	want := []string{
		"loss", "masked_lm_loss", "gradient_norm", "loss_scale", "learning_rate", "measured_step_seconds", "evaluated loss",
		"evaluated masked_lm_loss",
		"evaluated masked_lm_accuracy", "evaluated next_sentence_loss", "evaluated next_sentence_accuracy", "evaluated exact_match",
		"evaluated f1",
	}
	if !slices.Equal(names, want) {
		t.Errorf("quantities %v, want %v", names, want)
	}
}

// TestModelled: there is modelled time where it was recorded, and nowhere else.
func TestModelled(t *testing.T) {
	records := seriestest.Write(t, t.TempDir(), 1, seriestest.Arm{Backend: "ipu", F1: 80, StepSeconds: 0.1, ModelledSeconds: 0.002},
		seriestest.Arm{Backend: "gpu-ref", F1: 80, StepSeconds: 0.1})
	f1 := series.Quantity{Name: "f1", Evaluated: true}
	if c := records[0].Curve(f1, "squad", series.ModelledSeconds); len(c.X) != 4 || math.Abs(c.X[3]-0.14) > 1e-12 {
		t.Errorf("F1 against modelled time: %+v, want 4 points up to 70 steps of 0.002 s", c)
	}
	if c := records[1].Curve(f1, "squad", series.ModelledSeconds); len(c.X) != 0 {
		t.Errorf("F1 against a time that nobody modelled: %+v", c)
	}
	if v := records[0].Steps[3].Values[series.ModelledStepSeconds]; v != 0.002 {
		t.Errorf("a step takes %g modelled seconds", v)
	}
	if _, ok := records[1].Steps[3].Values[series.ModelledStepSeconds]; ok {
		t.Error("a step has a time that nobody modelled")
	}
}

// TestOver: two runs of 3 and 2 points. The mean of 1 and 3 is 2, their standard deviation √2.
func TestOver(t *testing.T) {
	b := series.Over([]series.Curve{{X: []float64{1, 2, 3}, Y: []float64{1, 5, 9}}, {X: []float64{3, 4}, Y: []float64{3, math.NaN()}}})
	if b.Runs != 2 || !slices.Equal(b.X, []float64{2, 3}) || b.Mean[0] != 2 || math.Abs(b.SD[0]-math.Sqrt2) > 1e-15 || !math.IsNaN(b.Mean[1]) {
		t.Errorf("band %+v", b)
	}
	if b := series.Over([]series.Curve{{X: []float64{1}, Y: []float64{7}}}); b.SD != nil || b.Mean[0] != 7 {
		t.Errorf("band of one run %+v", b)
	}
	if b := series.Over(nil); b.Runs != 0 || b.X != nil {
		t.Errorf("band of nothing %+v", b)
	}
}

// TestSmooth compares with adding up the last n values each time.
func TestSmooth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		y := rapid.SliceOf(rapid.Float64Range(-1e6, 1e6)).Draw(t, "y")
		n := rapid.IntRange(0, 9).Draw(t, "n")
		got := series.Curve{Y: y}.Smooth(n)
		for i := range y {
			sum, count := 0.0, 0
			for j := i; j >= 0 && j > i-max(n, 1); j-- {
				sum += y[j]
				count++
			}
			if want := sum / float64(count); math.Abs(got.Y[i]-want) > 1e-9*(1+math.Abs(want))*1e3 {
				t.Fatalf("place %d: %g, want %g", i, got.Y[i], want)
			}
		}
	})
	if got := (series.Curve{Y: []float64{1, math.NaN(), 3}}).Smooth(2).Y; got[0] != 1 || got[1] != 1 || got[2] != 3 {
		t.Errorf("with a hole: %v", got)
	}
}

func TestParseAxis(t *testing.T) {
	if a, err := series.ParseAxis("samples"); err != nil || a != series.Samples {
		t.Errorf("%v, %v", a, err)
	}
	if _, err := series.ParseAxis("sampels"); err == nil ||
		err.Error() != `axis is "sampels", want one of steps, samples, measured-seconds, modelled-seconds, did you mean samples?` {
		t.Errorf("error is %v", err)
	}
}
