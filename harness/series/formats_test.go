package series_test

import (
	"math"
	"strings"
	"testing"

	"harness.invalid/harness/series"
	"harness.invalid/harness/series/seriestest"
)

// TestMap: a row for each operator, a column for each step with a record, which reaches back to the one before it in the
// phase; the worst operand or the chosen one; and the mean over runs.
func TestMap(t *testing.T) {
	records := seriestest.Write(t, t.TempDir(), 1,
		seriestest.Arm{Backend: "gpu-ref:fp8", Precision: "fp8", F1: 70, StepSeconds: 0.1, Flushed: 0.1},
		seriestest.Arm{Backend: "gpu-ref:mine", Precision: "mine", F1: 70, StepSeconds: 0.1, Flushed: 0.3})
	read := func(run int, effect, operand, phase string) series.Map {
		t.Helper()
		e, ok := series.EffectNamed(effect)
		if !ok {
			t.Fatalf("no effect %s", effect)
		}
		m, err := series.ReadMap(records[run].Run, e, operand, phase)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	all := read(0, "flushed", "", "")
	if len(all.Operators) != 2 || len(all.Columns) != 35 {
		t.Fatalf("%d operators and %d steps, want 2 and every second of 70", len(all.Operators), len(all.Columns))
	}
	for _, at := range []struct {
		column, from, to int
		phase            string
	}{{0, 0, 2, "phase1"}, {14, 28, 30, "phase1"}, {15, 30, 32, "squad"}} {
		if c := all.Columns[at.column]; c.From != at.from || c.To != at.to || c.Phase != at.phase {
			t.Errorf("column %d is of steps %d to %d of %s, want %d to %d of %s", at.column, c.From, c.To, c.Phase, at.from, at.to, at.phase)
		}
	}
	second := "bert.encoder.layer.1.output.dense"
	for _, want := range []struct {
		m     series.Map
		value float64
	}{
		{all, 0.2}, {read(0, "flushed", "forward.input", ""), 0}, {read(1, "flushed", "", "squad"), 0.6},
		{read(0, "largest", "forward.weight", ""), 3}, {read(0, "cosine", "", ""), 0.999},
		{series.MeanMap([]series.Map{all, read(1, "flushed", "", "")}), 0.4},
	} {
		if got := want.m.Columns[0].Values[second]; math.Abs(got-want.value) > 1e-12 {
			t.Errorf("%g of the second layer, want %g", got, want.value)
		}
	}
	if n := len(series.MeanMap([]series.Map{all, read(1, "flushed", "", "squad")}).Columns); n != 20 {
		t.Errorf("a mean has %d steps, want the 20 that both have", n)
	}
	for text, of := range map[string][2]string{
		"did you mean forward.input?": {"flushed", "forward.inputs"}, "scale is of one operand": {"scale", ""},
	} {
		e, _ := series.EffectNamed(of[0])
		if _, err := series.ReadMap(records[0].Run, e, of[1], ""); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v: %v, want %q", of, err, text)
		}
	}
}
