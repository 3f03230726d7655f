package thismachine

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/optimizer"
)

// epyc was measured on one core of a fourth-generation AMD EPYC.
func epyc(t testing.TB) *System {
	t.Helper()
	text, err := os.ReadFile("testdata/epyc.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func program(t testing.TB, step Step) backend.Program {
	t.Helper()
	row := step.row()
	p, err := row.Program()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func adamWOf(t testing.TB, p *backend.Program) optimizer.Cost {
	t.Helper()
	c, err := adamW(p)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestJudge: the model is within 15% of all steps that were measured, from Tiny to Base, and the interval from the others
// has most of them.
func TestJudge(t *testing.T) {
	judged, err := epyc(t).Judge()
	if err != nil || len(judged) != 5 {
		t.Fatalf("%d steps, %v", len(judged), err)
	}
	covered := 0
	for _, j := range judged {
		if e := j.Modelled/j.Seconds - 1; math.Abs(e) > 0.15 {
			t.Errorf("%s: modelled %.3g s, measured %.3g", j.Model, j.Modelled, j.Seconds)
		}
		if j.Low < j.Seconds && j.Seconds < j.High {
			covered++
		}
		if !(j.Low < j.Modelled && j.Modelled < j.High) {
			t.Errorf("%s: %g is not between %g and %g", j.Model, j.Modelled, j.Low, j.High)
		}
	}
	if covered < 4 {
		t.Errorf("%d of 5 steps lie in the interval from the others", covered)
	}
}

// TestParts: products take what their operations take at the measured rate, launches what their number takes, and the parts
// are the step.
func TestParts(t *testing.T) {
	s := epyc(t)
	const rate = 1e11
	s.Products = []Product{{128, rate, rate}}
	p := program(t, Step{Model: "tiny", Length: 128, Batch: 32})
	e, err := s.Estimate(p, adamWOf(t, &p))
	if err != nil {
		t.Fatal(err)
	}
	by, sum := map[string]float64{}, 0.
	for _, b := range e.Breakdown {
		by[b.Name] = b.Seconds
		sum += b.Seconds
	}
	if math.Abs(sum/e.StepSeconds-1) > 1e-12 || e.GlobalBatch != 32 || e.Err() != nil {
		t.Errorf("parts %g s, step %g s, %v", sum, e.StepSeconds, e.Err())
	}
	const rows, masked, hidden, words = 32 * 128, 32 * 20, 128, 30522
	macs := 2*12*rows*hidden*hidden + masked*hidden*(hidden+words) + 32*hidden*(hidden+2)
	if want := 3 * 2 * float64(macs) / rate; math.Abs(by["products"]/want-1) > 1e-9 {
		t.Errorf("products take %.6g s, want %.6g", by["products"], want)
	}
	s.Operator = Pair{10 * s.Operator.Forward, 10 * s.Operator.Backward}
	slow, err := s.Estimate(p, adamWOf(t, &p))
	if err != nil || math.Abs((slow.StepSeconds-e.StepSeconds)/(9*by["operators"])-1) > 1e-9 {
		t.Errorf("ten times as slow operators make a step of %g s from %g s, %v", slow.StepSeconds, e.StepSeconds, err)
	}
}

// TestConfidence: inside are programs like the measured steps; fewer than four steps say nothing.
func TestConfidence(t *testing.T) {
	s := epyc(t)
	p := program(t, Step{Model: "small", Length: 128, Batch: 8})
	e, err := s.Estimate(p, adamWOf(t, &p))
	if err != nil || e.Confidence == nil || !e.Confidence.Inside || !strings.Contains(e.Confidence.Why, "5 measured rows") {
		t.Errorf("%+v, %v", e.Confidence, err)
	}
	p.Length = 384
	if e, err = s.Estimate(p, adamWOf(t, &p)); err != nil || e.Confidence.Inside {
		t.Errorf("384 tokens: %+v, %v", e.Confidence, err)
	}
	s.Steps = s.Steps[:3]
	if e, err = s.Estimate(p, adamWOf(t, &p)); err != nil || e.Confidence != nil {
		t.Errorf("three steps: %+v, %v", e.Confidence, err)
	}
	p.Precision = "bf16"
	if _, err := s.Estimate(p, adamWOf(t, &p)); !errors.Is(err, backend.ErrUnsupported) {
		t.Errorf("bf16: %v", err)
	}
}

// TestFile: what is written is read again; a machine that was not measured says how; a file without a figure names it.
func TestFile(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	path, err := Path()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Load(); err == nil || !strings.Contains(err.Error(), "harness bench machine") {
		t.Errorf("%v", err)
	}
	s := epyc(t)
	if err := s.Write(path); err != nil {
		t.Fatal(err)
	}
	if back, err := Load(); err != nil || !reflect.DeepEqual(back, s) {
		t.Errorf("%+v, %v", back, err)
	}
	delete(s.Passes, "gelu")
	other := filepath.Join(t.TempDir(), "other.yaml")
	if err := s.Write(other); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Parse(string(text)); err == nil || !strings.Contains(err.Error(), "passes.gelu is 0") {
		t.Errorf("%v", err)
	}
	if _, err := Parse("extends: dgx-h100\n" + string(text)); err == nil || !strings.Contains(err.Error(), "no system has that name") {
		t.Errorf("%v", err)
	}
	if _, err := (Estimator{}).Estimate(t.Context(), backend.Program{}, backend.Machine{System: "dgx"}); err == nil ||
		!strings.Contains(err.Error(), `named "dgx", want this-machine`) {
		t.Errorf("%v", err)
	}
}

// TestMedian: a profile is the median of each figure.
func TestMedian(t *testing.T) {
	list := make([]Profile, 3)
	for i := range list {
		list[i] = epyc(t).Profile
		list[i].Operator.Forward = float64(3 - i)
		list[i].Gradients = map[string]float64{"add": float64(i * i)}
	}
	if m := middle(list); m.Operator.Forward != 2 || m.Gradients["add"] != 1 || !reflect.DeepEqual(m.Products, list[0].Products) {
		t.Errorf("%+v", m)
	}
}

// TestDocument: docs/machines.md shows the steps of testdata/epyc.yaml.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/machines.md")
	if err != nil {
		t.Fatal(err)
	}
	judged, err := epyc(t).Judge()
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range judged {
		line := fmt.Sprintf("| BERT-%s, %d x %d | %.0f ms | %.0f ms | %+.0f%% | %.0f to %.0f ms |", strings.ToUpper(j.Model[:1])+j.Model[1:],
			j.Batch, j.Length, 1e3*j.Seconds, 1e3*j.Modelled, 100*(j.Modelled/j.Seconds-1), 1e3*j.Low, 1e3*j.High)
		if !strings.Contains(string(text), line) {
			t.Errorf("docs/machines.md has no line %s", line)
		}
	}
}
