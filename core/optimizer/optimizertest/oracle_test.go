package optimizertest_test

import (
	"context"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"harness.invalid/core/agreement"
	"harness.invalid/core/checkpoint/safetensors"
	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/internal/reference"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/optimizer/optimizertest"
	"harness.invalid/core/tensor"
	"harness.invalid/plugins/optimizers/adamw"
	"harness.invalid/plugins/optimizers/lamb"
	"harness.invalid/plugins/optimizers/sam"
	"harness.invalid/plugins/optimizers/schedulefree"
	"harness.invalid/plugins/optimizers/sgd"
	"harness.invalid/plugins/optimizers/shampoo"
)

// TestAgainstFloat64 holds the built-in optimizers against trajectories that an independent program computed in float64.
func TestAgainstFloat64(t *testing.T) {
	file := reference.PathOrExcerpt(t, "golden", "optimizers.safetensors")
	for name, test := range map[string]struct {
		o     optimizer.Optimizer
		rules int
	}{
		"adamw": {adamw.New(), 2},
		"lamb":  {lamb.New(), 3},
		"sgd":   {sgd.New(), 2},
	} {
		rows, err := optimizertest.Oracle(t.Context(), test.o, name, file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		// Five tensors; six steps, or the three of the excerpt.
		if whole := test.rules * 6 * 5; len(rows) != whole && len(rows) != whole/2 {
			t.Errorf("%s: %d rows, want %d or half of it: rules x steps x tensors", name, len(rows), whole)
		}
		var worst agreement.Row
		for _, r := range rows {
			if r.RelError >= worst.RelError {
				worst = r
			}
			if !r.Pass {
				t.Errorf("%s %s: relative error %.2e, want at most %.0e", r.Case, r.Quantity, r.RelError, r.Limit)
			}
		}
		t.Logf("%s: %d rows; largest error %.2e: %s %s", name, len(rows), worst.RelError, worst.Case, worst.Quantity)
	}
}

// TestAgainstPapers compares Shampoo, and the rules that probe or average, with trajectories that testdata/papers.py computed
// in float64 from the papers' formulas.
func TestAgainstPapers(t *testing.T) {
	const file = "testdata/papers.safetensors"
	for name, test := range map[string]struct {
		o    optimizer.Optimizer
		rows int // for each step and tensor
	}{
		"sam":                 {sam.New(), 2}, // where the second gradient is taken, and the step
		"schedule-free-adamw": {schedulefree.New(), 2},
		"shampoo":             {shampoo.New(), 2}, // with two sets of options
	} {
		rows, err := optimizertest.Oracle(t.Context(), test.o, name, file)
		if want := test.rows * 6 * 5; err != nil || len(rows) != want {
			t.Errorf("%s: %d rows, error %v, want %d rows", name, len(rows), err, want)
		}
		worst := 0.0
		for _, r := range rows {
			worst = max(worst, r.RelError)
			if !r.Pass {
				t.Errorf("%s %s: relative error %.2e, want at most %.0e", r.Case, r.Quantity, r.RelError, r.Limit)
			}
		}
		t.Logf("%s: %d rows; largest error %.2e", name, len(rows), worst)
	}
}

// TestOracleFindsErrors writes a trajectory of plain descent, and expects the oracle to tell a rule that follows it from one that does not.
func TestOracleFindsErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trajectory.safetensors")
	shape := tensor.Shape{3}
	err := safetensors.Write(file, []weights.Content{
		weights.Of("w0.w", shape, []float32{1, 2, 3}),
		weights.Of("grad.0.w", shape, []float32{1, -1, 2}),
		weights.Of("lr", tensor.Shape{1}, []float64{0.5}),
		weights.Of("sgd.0.w", shape, []float64{0.5, 2.5, 2}),
		weights.Of("other.0.w", shape, []float64{0.5, 2.5, 2.001}),
		weights.Of("broken.0.w", shape, []float64{math.NaN(), 0, 0}),
	}, map[string]string{"rules": `{"sgd":{}, "other":{"plugin":"other"}, "broken":{"plugin":"broken","options":{"momentum":"x"}}}`})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		pass bool
		err  string
	}{
		{"sgd", true, ""},
		{"other", false, ""},
		{"broken", false, "momentum"},
		{"adamw", false, "no rule for adamw"},
	} {
		rows, err := optimizertest.Oracle(t.Context(), sgd.New(), test.name, file)
		switch {
		case test.err == "" && (err != nil || agreement.Passed(rows) != test.pass):
			t.Errorf("%s: passed %v, error %v, want %v and none", test.name, agreement.Passed(rows), err, test.pass)
		case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
			t.Errorf("%s: error %v, want one with %q", test.name, err, test.err)
		}
	}
}

// broken is a rule with one fault.
type broken struct {
	optimizer.Optimizer
	fault string
	state float32
}

func (b *broken) Open(ctx context.Context, options map[string]string, m optimizer.Memory) (optimizer.Session, error) {
	if b.fault == "lengths" && m.Check(len(m.Slots)) != nil {
		return session{b: b}, nil
	}
	s, err := b.Optimizer.Open(ctx, options, m)
	return session{b, s, m}, err
}

func (b *broken) Cost(ctx context.Context, options map[string]string, l *tensor.Layout) (optimizer.Cost, error) {
	c, err := b.Optimizer.(optimizer.Coster).Cost(ctx, options, l)
	if b.fault == "cost" {
		c.Slots = optimizer.FP32Slots("momentum_buffer")
	}
	return c, err
}

type session struct {
	b *broken
	optimizer.Session
	m optimizer.Memory
}

func (s session) Close() error { return nil }

func (s session) Step(ctx context.Context, step optimizer.Step) (optimizer.StepResult, error) {
	if s.b.fault == "steps" {
		step.Step = max(step.Step, 1)
	}
	r, err := s.Session.Step(ctx, step)
	switch s.b.fault {
	case "padding":
		s.m.Params[len(s.m.Params)-1] = 1
	case "norm":
		r.GradientNorm *= 1.001
	case "state":
		s.b.state++
		s.m.Params[0] += s.b.state
	case "nan":
		s.m.Params[0] = float32(math.NaN())
	case "rate":
		s.m.Params[0]++
	}
	return r, err
}

// TestConformanceFindsFaults breaks a rule in one way at a time, and expects the suite to say so.
func TestConformanceFindsFaults(t *testing.T) {
	for fault, want := range map[string]string{
		"":        "",
		"lengths": "refuses memory of the wrong length",
		"steps":   "refuses an impossible step",
		"padding": "leaves padding alone",
		"norm":    "reports the norm of the gradients",
		"state":   "keeps no state outside of its slots",
		"nan":     "stays finite without a gradient",
		"rate":    "keeps parameters at learning rate 0",
		"cost":    "keeps the state that its cost states",
	} {
		found := want == ""
		for _, r := range optimizertest.Conformance(t.Context(), &broken{Optimizer: sgd.New(), fault: fault}) {
			if r.Err != nil && fault == "" {
				t.Errorf("a sound rule fails %q: %v", r.Name, r.Err)
			}
			found = found || r.Err != nil && r.Name == want
		}
		if !found {
			t.Errorf("fault %q does not fail %q", fault, want)
		}
	}
}
