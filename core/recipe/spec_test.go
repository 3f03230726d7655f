package recipe

import (
	"cmp"
	"maps"
	"math"
	"strings"
	"testing"
)

func TestParseSpec(t *testing.T) {
	for _, c := range []struct{ text, canonical, wrong string }{
		{"ipu", "ipu", ""},
		{"ipu:", "ipu", ""},
		{"ipu:fp16.16", "ipu:fp16.16", ""},
		{"ipu?b=1&a=2", "ipu?a=2&b=1", ""},
		{"ipu:fp16.16?b=&a=x:y?z=1,2", "ipu:fp16.16?a=x:y?z=1,2&b=", ""},
		{"adamw+lamb", "adamw+lamb", ""},
		{"", "", "names no plugin"},
		{":fp16", "", "names no plugin"},
		{"?a=1", "", "names no plugin"},
		{"ipu?", "", `"" is not an option`},
		{"ipu?a", "", `"a" is not an option`},
		{"ipu?=1", "", `"=1" is not an option`},
		{"ipu?a=1&", "", `"" is not an option`},
		{"ipu?a=1&a=1", "", "option a is given twice"},
	} {
		s, err := ParseSpec(c.text)
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%q: error %v, want %q in it", c.text, err, c.wrong)
			}
		} else if err != nil || s.String() != c.canonical {
			t.Errorf("%q: %q, error %v, want %q", c.text, s, err, c.canonical)
		}
	}
}

// TestLearningRateOption: the rate of an arm, or a factor of the phase's, and no option that a plugin sees.
func TestLearningRateOption(t *testing.T) {
	p := Phase{
		GlobalBatch: 64, Schedule: Schedule{LearningRate: 2e-3, BatchScaling: LinearScaling, ReferenceBatch: 32},
		Optimizer: Optimizer{Name: "adamw"}, Alternatives: map[string]Optimizer{"lamb": {LearningRate: 8e-3}},
	}
	for spec, want := range map[string]float64{
		"": 4e-3, "adamw": 4e-3, "adamw?learning_rate=1e-3": 2e-3, "adamw?learning_rate=x1.5": 6e-3, "lamb?learning_rate=x0.5": 8e-3,
		"lamb?learning_rate=0": 0,
	} {
		o := p.OptimizerNamed(spec)
		if math.Abs(o.LearningRate-want) > 1e-12 || len(o.Options) > 0 {
			t.Errorf("%s: rate %g with options %v, want %g and none", spec, o.LearningRate, o.Options, want)
		}
		if _, err := ParseOptimizer(cmp.Or(spec, "adamw")); err != nil {
			t.Error(err)
		}
	}
	for spec, want := range map[string]string{
		"adamw?learning_rate=1.5x": "want a rate from 0 to 100", "adamw?learning_rate=": "want a rate", "adamw?learning_rate=x": "want a rate",
		"adamw?learning_rate=-1": "want a rate", "adamw?learning_rate=NaN": "want a rate", "adamw:fp32": "an optimizer has no precision",
	} {
		if _, err := ParseOptimizer(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q in it", spec, err, want)
		}
	}
}

// TestMicroBatchOption: it replaces every other cut of that backend, and no plugin sees it.
func TestMicroBatchOption(t *testing.T) {
	r := parsed(t, small, `backends={
		gpu-ref: {accumulation: 2, options: {a: "1"}, phases: {one: {replicas: 4}}}, ipu: {accumulation: 4}}`)
	s, err := ParseBackend("gpu-ref:fp32?micro_batch=4")
	if err != nil {
		t.Fatal(err)
	}
	changed := r.WithBackend(s)
	b := changed.ForBackend("gpu-ref", "fp32", "one")
	if c, err := r.Phases[0].Cut(b); err != nil || c != (Cut{4, 8, 1}) || len(b.Options) != 1 {
		t.Errorf("cut %+v, error %v, options %v, want 4 x 8 x 1 and one option", c, err, b.Options)
	}
	if b := changed.ForBackend("ipu", "fp16.16", "one"); b.Accumulation != 4 {
		t.Errorf("accumulation %d of another backend, want 4", b.Accumulation)
	}
	if b := r.ForBackend("gpu-ref", "fp32", "one"); b.Replicas != 4 || changed.Fingerprint() != r.Fingerprint() {
		t.Errorf("the recipe itself changed: %+v", b)
	}
	for _, wrong := range []string{"", "0", "-1", "8.0", "65537", "many"} {
		if _, err := ParseBackend("ipu?micro_batch=" + wrong); err == nil || !strings.Contains(err.Error(), "want a number of sequences") {
			t.Errorf("micro_batch %q: error %v", wrong, err)
		}
	}
}

// FuzzParseSpec: what is read is written as text that reads back equal, and that names the same plugin.
func FuzzParseSpec(f *testing.F) {
	for _, text := range []string{"ipu", "ipu:fp16.16?b=1&a=2", "a?b=c?d=e:f&g=", "x:?y=z", "?", "a:b:c?d==e"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSpec(text)
		if err != nil {
			return
		}
		if PluginName(text) != s.Name {
			t.Errorf("%q: plugin %q, want %q", text, PluginName(text), s.Name)
		}
		again, err := ParseSpec(s.String())
		if err != nil || again.Name != s.Name || again.Precision != s.Precision || !maps.Equal(again.Options, s.Options) {
			t.Errorf("%q: %+v reads back as %+v, error %v", text, s, again, err)
		}
	})
}

// TestWithBackend: options of a spec override those of all phases, precisions and steps, and no others.
func TestWithBackend(t *testing.T) {
	r := parsed(t, small, `backends={
		ipu: {options: {a: weak, keep: "1"}, options_by_step: {3: {a: late, keep: "2"}}, phases: {one: {options: {a: phase}}}},
		"ipu:fp16.32": {phases: {one: {options: {a: strong}}}},
		x: {options: {a: other}}}`)
	before := r.Fields()
	for _, text := range []string{"ipu?a=mine", "ipu:fp16.32?a=mine"} {
		s, err := ParseSpec(text)
		if err != nil {
			t.Fatal(err)
		}
		changed := r.WithBackend(s)
		b := changed.ForBackend(s.Name, s.Precision, "one")
		for done, keep := range map[int]string{0: "1", 3: "2"} {
			if o := b.OptionsAt(done); len(o) != 2 || o["a"] != "mine" || o["keep"] != keep {
				t.Errorf("%s: options %v after %d steps", text, o, done)
			}
		}
		if o := changed.ForBackend("x", "", "one").Options; o["a"] != "other" {
			t.Errorf("%s: options %v of another backend", text, o)
		}
		if changed.Fingerprint() != r.Fingerprint() {
			t.Errorf("%s: another fingerprint", text)
		}
		if !maps.Equal(r.Fields(), before) {
			t.Errorf("%s: the recipe itself changed", text)
		}
	}
}

// TestOptimizerWithOptions: options of a spec override the recipe's own and those of alternatives.
func TestOptimizerWithOptions(t *testing.T) {
	r := parsed(t, small, `phases.one.optimizer={name: adamw, options: {beta1: "0.8", weight_decay: "0.1"}}`,
		`phases.one.alternatives={lamb: {learning_rate: 0.5, options: {weight_decay: "0.2"}}}`)
	p := &r.Phases[0]
	for spec, want := range map[string]string{
		"adamw":                       "adamw?beta1=0.8&bias_correction=false&eps=1e-6&weight_decay=0.1",
		"adamw?weight_decay=0":        "adamw?beta1=0.8&bias_correction=false&eps=1e-6&weight_decay=0",
		"lamb?weight_decay=0&bias=no": "lamb?bias=no&weight_decay=0",
		"sgd?momentum=0":              "sgd?momentum=0",
	} {
		o := p.OptimizerNamed(spec)
		if got := (Spec{Name: o.Name, Options: o.Options}).String(); got != want {
			t.Errorf("%s: %s, want %s", spec, got, want)
		}
	}
	if rate := p.OptimizerNamed("lamb?weight_decay=0").LearningRate; rate != 0.5 {
		t.Errorf("learning rate %g of an alternative with options, want 0.5", rate)
	}
	if p.OptimizerNamed("").Options["weight_decay"] != "0.1" {
		t.Error("the recipe itself changed")
	}
}
