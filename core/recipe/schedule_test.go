package recipe

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"harness.invalid/core/bert"
)

// TestLR holds the schedules against values worked out by hand from their sources' formulas.
func TestLR(t *testing.T) {
	const base = 6e-3
	for name, test := range map[string]struct {
		schedule    Schedule
		step, total int
		want        float64
	}{
		"constant, first of 10":       {Schedule{Kind: Constant, WarmupSteps: 10, Power: 1}, 1, 100, 0},
		"constant, half of warm-up":   {Schedule{Kind: Constant, WarmupSteps: 10, Power: 1}, 6, 100, base / 2},
		"constant, last":              {Schedule{Kind: Constant, WarmupSteps: 10, Power: 1}, 100, 100, base},
		"linear, no warm-up":          {Schedule{Kind: Linear, Power: 1}, 1, 100, base},
		"linear, first after warm-up": {Schedule{Kind: Linear, WarmupSteps: 20, Power: 1}, 21, 100, base},
		"linear, half of decay":       {Schedule{Kind: Linear, WarmupSteps: 20, Power: 1}, 61, 100, base / 2},
		"linear, last":                {Schedule{Kind: Linear, WarmupSteps: 20, Power: 1}, 100, 100, base / 80},
		"linear, beyond":              {Schedule{Kind: Linear, WarmupSteps: 20, Power: 1}, 200, 100, 0},
		"linear, ratio is rounded up": {Schedule{Kind: Linear, WarmupRatio: 0.101, Power: 1}, 12, 100, base},
		"polynomial, half of decay": {Schedule{Kind: Polynomial, WarmupSteps: 20, Power: 2, EndLearningRate: 1e-3}, 61, 100,
			(base-1e-3)*0.25 + 1e-3},
		"polynomial, beyond":          {Schedule{Kind: Polynomial, WarmupSteps: 20, Power: 2, EndLearningRate: 1e-3}, 101, 100, 1e-3},
		"google, last of warm-up":     {Schedule{Kind: Google, WarmupSteps: 20, Power: 1}, 20, 100, base * 19 / 20},
		"google, after the jump":      {Schedule{Kind: Google, WarmupSteps: 20, Power: 1}, 21, 100, base * 0.8},
		"google, ratio is rounded":    {Schedule{Kind: Google, WarmupRatio: 0.109, Power: 1}, 11, 100, base * 0.9},
		"nvidia, first":               {Schedule{Kind: NVIDIA, WarmupRatio: 0.2843, Power: 0.5}, 1, 7038, base / (7038 * 0.2843)},
		"nvidia, phase 1 half-way":    {Schedule{Kind: NVIDIA, WarmupRatio: 0.2843, Power: 0.5}, 3519, 7038, base * math.Sqrt(0.5)},
		"nvidia, last":                {Schedule{Kind: NVIDIA, WarmupRatio: 0.2843, Power: 0.5}, 7038, 7038, 0},
		"nothing but warm-up":         {Schedule{Kind: Linear, WarmupRatio: 1, Power: 1}, 10, 10, base * 0.9},
		"nothing but warm-up, beyond": {Schedule{Kind: Linear, WarmupRatio: 1, Power: 1}, 11, 10, 0},
		"google, nothing but warm-up": {Schedule{Kind: Google, WarmupRatio: 1, Power: 1}, 10, 10, base * 0.9},
	} {
		if got := test.schedule.With(base).LR(test.step, test.total); math.Abs(got-test.want) > 1e-15 {
			t.Errorf("%s: %g, want %g", name, got, test.want)
		}
	}
	// The published jump: NVIDIA's phase 1 climbs to 6e-3 and falls to 5.08e-3 at once.
	s := Schedule{Kind: NVIDIA, LearningRate: base, WarmupRatio: 0.2843, Power: 0.5}
	if before, after := s.LR(2000, 7038), s.LR(2001, 7038); math.Abs(before-6e-3) > 5e-6 || math.Abs(after-5.08e-3) > 5e-6 {
		t.Errorf("at the end of warm-up the rate goes from %g to %g, want 6e-3 and 5.08e-3", before, after)
	}
}

// TestLRStaysInRange: whatever the settings, a rate is between 0 and the highest.
func TestLRStaysInRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.IntRange(1, 1000).Draw(t, "total")
		s := Schedule{
			Kind:         rapid.SampledFrom(scheduleKinds).Draw(t, "kind"),
			LearningRate: rapid.Float64Range(1e-6, 1).Draw(t, "learning_rate"),
			Power:        1,
		}
		if rapid.Bool().Draw(t, "ratio") {
			s.WarmupRatio = rapid.Float64Range(0, 1).Draw(t, "warmup_ratio")
		} else {
			s.WarmupSteps = rapid.IntRange(0, total).Draw(t, "warmup_steps")
		}
		if s.Kind != Constant && s.Kind != Linear {
			s.Power = rapid.Float64Range(0.1, 3).Draw(t, "power")
		}
		if s.Kind == Polynomial || s.Kind == Google {
			s.EndLearningRate = s.LearningRate * rapid.Float64Range(0, 1).Draw(t, "end")
		}
		if field, err := s.validate(); err != nil {
			t.Fatalf("%s: %v", field, err)
		}
		step := rapid.IntRange(1, total+1).Draw(t, "step")
		// The rates are a product and a sum of rounded numbers: one unit in the last place above is in order.
		if lr := s.LR(step, total); !(lr >= 0 && lr <= s.LearningRate*(1+1e-15)) {
			t.Fatalf("rate of step %d of %d is %g, want 0 to %g", step, total, lr, s.LearningRate)
		}
	})
}

func TestCut(t *testing.T) {
	for _, test := range []struct {
		global, micro, accumulation, replicas int
		want                                  [4]int // all 0: an error
	}{
		{32, 0, 0, 0, [4]int{32, 32, 1, 1}},
		{32, 8, 0, 0, [4]int{32, 8, 4, 1}},
		{32, 0, 4, 0, [4]int{32, 8, 4, 1}},
		{32, 0, 0, 4, [4]int{32, 8, 1, 4}},
		{0, 8, 2, 4, [4]int{64, 8, 2, 4}},
		{0, 8, 0, 0, [4]int{8, 8, 1, 1}},
		{32, 8, 2, 0, [4]int{32, 8, 2, 2}},
		{65536, 8, 2048, 4, [4]int{65536, 8, 2048, 4}}, // Graphcore, large, POD16
		{32, 5, 0, 0, [4]int{}},
		{32, 64, 0, 0, [4]int{}},
		{32, 8, 2, 3, [4]int{}},
		{0, 0, 2, 2, [4]int{}},
		{-1, 1, 0, 0, [4]int{}},
		{1 << 40, 1, 0, 0, [4]int{}},
	} {
		global, c, err := cut(test.global, test.micro, test.accumulation, test.replicas)
		if got := [4]int{global, c.MicroBatch, c.Accumulation, c.Replicas}; got != test.want || (err != nil) != (test.want == [4]int{}) {
			t.Errorf("cut(%d, %d, %d, %d) is %v, %v, want %v", test.global, test.micro, test.accumulation, test.replicas, got, err, test.want)
		}
	}
}

func TestForBackend(t *testing.T) {
	r, err := Parse("r.yaml", []byte(small+`backends:
  ipu:
    options: {loss_scale: 64, stochastic_rounding: true}
    phases: {one: {options: {loss_scale: 128}, micro_batch: 4}}
  "ipu:fp16.32": {options: {loss_scale: 256}, precision: fp16.32}
`))
	if err != nil {
		t.Fatal(err)
	}
	b := r.ForBackend("ipu", "", "one")
	if b.Options["loss_scale"] != "128" || b.Options["stochastic_rounding"] != "true" || b.Precision != "" {
		t.Errorf("settings of ipu are %+v", b)
	}
	if c, err := r.Phases[0].Cut(b); err != nil || c != (Cut{4, 8, 1}) {
		t.Errorf("cut is %v, %v, want 4 x 8 x 1", c, err)
	}
	if b := r.ForBackend("ipu", "fp16.32", "one"); b.Options["loss_scale"] != "256" || b.Precision != "fp16.32" {
		t.Errorf("settings of ipu:fp16.32 are %+v", b)
	}
	if b := r.ForBackend("gpu-ref", "bf16", "one"); b.Precision != "bf16" || len(b.Options) != 0 {
		t.Errorf("settings of gpu-ref:bf16 are %+v", b)
	}
	if c, err := r.Phases[0].Cut(r.ForBackend("gpu-ref", "", "one")); err != nil || c != (Cut{32, 1, 1}) {
		t.Errorf("cut is %v, %v, want the phase's", c, err)
	}
}

func TestOptimizerNamed(t *testing.T) {
	p := Phase{
		Schedule:     Schedule{LearningRate: 1e-3},
		Optimizer:    Optimizer{Name: "adamw", Options: Options{"eps": "1e-6"}},
		Alternatives: map[string]Optimizer{"lamb": {LearningRate: 4e-3}},
	}
	for name, want := range map[string]float64{"": 1e-3, "adamw": 1e-3, "lamb": 4e-3, "lion": 1e-3} {
		if o := p.OptimizerNamed(name); o.LearningRate != want || name != "" && o.Name != name {
			t.Errorf("optimizer %q is %+v, want a rate of %g", name, o, want)
		}
	}
}

func TestModelConfig(t *testing.T) {
	r := &Recipe{Model: Model{Config: bert.Defaults()}, Vocab: Vocab{PadToMultipleOf: 8}}
	// NVIDIA's padding of the published vocabulary.
	if c, err := r.ModelConfig(30522); err != nil || c.VocabSize != 30528 {
		t.Errorf("vocab_size is %d, %v, want 30528", c.VocabSize, err)
	}
	r.Model.VocabSize = 0
	if c, err := r.ModelConfig(1000); err != nil || c.VocabSize != 1000 {
		t.Errorf("vocab_size is %d, %v, want 1000", c.VocabSize, err)
	}
	r.Model.VocabSize = 999
	if _, err := r.ModelConfig(1000); err == nil {
		t.Error("a vocabulary larger than vocab_size is taken")
	}
}

func TestTotalSteps(t *testing.T) {
	// SQuAD v1.1 as google-research/bert fine-tunes it: 87,599 questions in windows of 384 give 88,641 features;
	// batch 32, 3 epochs.
	p := Phase{GlobalBatch: 32, Epochs: 3}
	if got := p.TotalSteps(88641); got != 8310 {
		t.Errorf("%d steps, want 8310", got)
	}
	if got := p.TotalSteps(1); got != 1 {
		t.Errorf("%d steps, want 1", got)
	}
	p = Phase{GlobalBatch: 32, Steps: 5}
	if got := p.TotalSteps(88641); got != 5 {
		t.Errorf("%d steps, want 5", got)
	}
}
