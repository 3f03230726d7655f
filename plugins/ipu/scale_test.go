package ipu

import (
	"strings"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
)

// pretrainingGradients runs the first step of a pretraining program on a batch of its own.
func pretrainingGradients(t *testing.T, p backend.Program) []float32 {
	t.Helper()
	s, m, err := start(t, p)
	if err != nil {
		t.Fatal(err)
	}
	b := &bert.Batch{
		Size: 4, Length: 8, Predictions: 2,
		InputIDs: make([]int32, 32), TokenTypeIDs: make([]int32, 32), AttentionMask: make([]int32, 32),
		MaskedLMPositions: []int32{1, 5, 2, 6, 3, 4, 1, 2}, MaskedLMIDs: []int32{7, 30, 12, 39, 0, 1, 22, 8},
		MaskedLMWeights: []float32{1, 1, 1, 1, 1, 1, 1, 0}, NextSentenceLabels: []int32{0, 1, 1, 0},
	}
	for i := range b.InputIDs {
		b.InputIDs[i], b.AttentionMask[i] = int32(i*7%40), 1
	}
	batches := func(yield func(*bert.Batch, error) bool) { yield(b, nil) }
	_, err = s.Step(t.Context(), backend.Step{Step: 1, Sequences: 4, MaskedWeight: 7}, batches)
	if err != nil {
		t.Fatal(err)
	}
	return m.Grads
}

// TestScaleUpdate follows the rule: halved where more than the share is large, else doubled, after every period.
func TestScaleUpdate(t *testing.T) {
	s := scale{Scale: 8, period: 2, threshold: 0.01}
	for i, c := range []struct {
		large, all int64
		want       float64
	}{{0, 100, 8}, {0, 100, 16}, {2, 100, 16}, {0, 100, 32}, {2, 100, 32}, {1, 100, 16}, {50, 100, 16}, {0, 100, 8}} {
		s.update(c.large, c.all)
		if s.Scale != c.want {
			t.Errorf("after update %d the scale is %g, want %g", i, s.Scale, c.want)
		}
	}
	static := scale{Scale: 8}
	static.update(100, 100)
	if static.Scale != 8 {
		t.Error("a static scale changes")
	}
	s = scale{Scale: greatestScale, period: 1}
	if s.update(0, 1); s.Scale != greatestScale {
		t.Errorf("the scale grows to %g", s.Scale)
	}
}

// TestAutomaticScale: from 1 the scale doubles step by step until gradients come near FP16's range, and then stays
// within a factor of two of that; a session that goes on from the state has the same scale.
func TestAutomaticScale(t *testing.T) {
	options := map[string]string{"loss_scale": "auto", "loss_scale_bin_edge": "1e-4"} // 6.55: reached soon
	p := program("fp16.16", 2, 1, options)
	s, _, err := start(t, p)
	if err != nil {
		t.Fatal(err)
	}
	var scales []float64
	step := func(s backend.Session, n int) float64 { return stepOf(t, s, p, n).LossScale }
	for n := 1; n <= 16; n++ {
		scales = append(scales, step(s, n))
	}
	top := 0
	for scales[top+1] > scales[top] {
		if scales[top] != float64(int(1)<<top) {
			t.Fatalf("scales are %v, want them doubled from 1", scales)
		}
		top++
	}
	if top < 3 || top > 13 {
		t.Fatalf("scales are %v, want growth that ends", scales)
	}
	for _, v := range scales[top:] {
		if v > scales[top] || v < scales[top]/4 {
			t.Errorf("scales are %v, want them to stay near %g", scales, scales[top])
		}
	}
	state, err := s.Save(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := start(t, p)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Load(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	if a, b := step(s, 17), step(other, 17); a != b || a == 1 {
		t.Errorf("a session from the state has scale %g, want %g", b, a)
	}
	for _, state := range []string{`{"loss_scale":0}`, `{"loss_scale":-1}`, `{"loss_scale":8,"large":2,"all":1}`, `[]`, ``} {
		if err := other.Load(t.Context(), []byte(state)); err == nil {
			t.Errorf("state %s was taken", state)
		}
	}
}

// TestExceptions: what the option names ends the run, and nothing else does.
func TestExceptions(t *testing.T) {
	for exceptions, want := range map[string]string{
		"none": "", "oflo": "floating point exceptions", "inv": "", "inv,oflo": "floating point exceptions",
	} {
		p := program("fp16.16", 1, 1, map[string]string{"loss_scale": "16777216", "fp_exceptions": exceptions})
		s, _, err := start(t, p)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Step(t.Context(), backend.Step{Step: 1, Sequences: 4}, cutBatch(p))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("fp_exceptions=%s: %v, want %q", exceptions, err, want)
		}
	}
	// Overflow to NaN makes results that are not a number.
	p := program("fp16.16", 1, 1, map[string]string{"loss_scale": "16777216", "overflow": "nan"})
	s, _, err := start(t, p)
	if err != nil {
		t.Fatal(err)
	}
	if r := stepOf(t, s, p, 1); r.Invalid == 0 || r.Overflows == 0 || r.Finite {
		t.Errorf("%d invalid results, %d overflows, finite %v, want some, some and false", r.Invalid, r.Overflows, r.Finite)
	}
	p.Options = map[string]string{"fp_exceptions": "inv", "overflow": "nan", "loss_scale": "16777216"}
	if s, _, err = start(t, p); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Step(t.Context(), backend.Step{Step: 1, Sequences: 4}, cutBatch(p)); err == nil {
		t.Error("fp_exceptions=inv lets a step with results that are not a number pass")
	}
}

// TestStochasticRoundingModes: with replica_identical_only weights are rounded stochastically and nothing else, so
// gradients do not depend on the step.
func TestStochasticRoundingModes(t *testing.T) {
	p := program("fp16.16", 1, 1, map[string]string{"stochastic_rounding": "replica_identical_only"})
	s, m, err := start(t, p)
	if err != nil {
		t.Fatal(err)
	}
	nearest, all := 0, 0
	_, n, err := start(t, program("fp16.16", 1, 1, map[string]string{"stochastic_rounding": "false"}))
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range m.Params {
		if all++; v == n.Params[i] {
			nearest++
		}
	}
	if nearest == all {
		t.Error("weights are rounded to nearest")
	}
	stepOf(t, s, p, 1)
	first := append([]float32(nil), m.Grads...)
	stepOf(t, s, p, 2)
	if distance(m.Grads, first) != 0 {
		t.Error("gradients are rounded stochastically")
	}
	// The matrix unit's stores to nearest change bits, and are not all there is.
	get := func(options map[string]string) []float32 {
		g, _ := gradients(t, program("fp16.16", 1, 1, options), 1)
		return g
	}
	on, off := get(nil), get(map[string]string{"disable_sr_for_amp_vertices": "true"})
	none := get(map[string]string{"stochastic_rounding": "false"})
	if distance(on, off) == 0 || distance(off, none) == 0 {
		t.Error("disable_sr_for_amp_vertices changes nothing, or leaves no stochastic rounding")
	}
}
