package machine

import (
	"math"
	"strings"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
)

// checked has errors of nine rows of BERT-Base and BERT-Large.
func checked() *Checked {
	c := &Checked{Errors: []float64{0.01, -0.02, 0.03, -0.04, 0.05, 0.06, 0.07, 0.08, -0.5}}
	for i := range c.Errors {
		c.Rows = append(c.Rows, Row{
			Framework: "PopART", Model: []string{"base", "large"}[i%2], Vocab: 30400, Task: bert.Pretraining, Length: 128 << (i % 3),
			MaxPredictions: 20, MicroBatch: 8, Accumulation: 64, Replicas: 1 << (i % 4), Precision: "fp16", SequencesPerSecond: 1,
		})
		c.Chips = append(c.Chips, "chip")
	}
	return c
}

// TestInterval: of nine errors the eighth smallest makes the 80% interval; with fewer than four there is none.
func TestInterval(t *testing.T) {
	c := checked()
	p, err := c.Rows[0].Program()
	if err != nil {
		t.Fatal(err)
	}
	got := c.Confidence(&p, "chip", 1000)
	if math.Abs(got.High-1080) > 1e-9 || math.Abs(got.Low-1000/1.08) > 1e-9 || got.Level != 0.8 || !got.Inside {
		t.Errorf("confidence %+v, want 925.9 to 1080, inside", got)
	}
	if !strings.Contains(got.Why, "9 published rows (PopART)") {
		t.Errorf("why is %q", got.Why)
	}
	for i, covered := range c.Covered() {
		if covered != (i < 8) {
			t.Errorf("row %d of 9 is covered: %v, want all but the last", i, covered)
		}
	}
	few := Checked{Errors: c.Errors[:3]}
	if w := few.width(); !math.IsInf(w, 1) {
		t.Errorf("three errors give a width of %g, want none", w)
	}
}

// TestOutside: settings that no published row has are named.
func TestOutside(t *testing.T) {
	for _, c := range []struct {
		chip   string
		change func(*backend.Program)
		want   string
	}{
		{"chip", func(p *backend.Program) { p.Model.NumHiddenLayers = 2 }, "2 layers, published: 12 to 24"},
		{"chip", func(p *backend.Program) { p.Model.HiddenSize = 128 }, "128 hidden units, published: 768 to 1024"},
		{"chip", func(p *backend.Program) { p.Length = 64 }, "64 tokens a sequence, published: 128 to 512"},
		{"chip", func(p *backend.Program) { p.Accumulation = 1 }, "1024 tokens a step of a replica, published: 65536 to"},
		{"chip", func(p *backend.Program) { p.MicroBatch = 1 }, "128 tokens a micro-batch, published: 1024 to 4096"},
		{"chip", func(p *backend.Program) { p.Model.NumHiddenLayers = 1 }, "1 layer, published: 12 to 24"},
		{"chip", func(p *backend.Program) { p.Replicas = 16 }, "16 replicas, published: 1 to 8"},
		{"chip", func(p *backend.Program) { p.Precision = "fp32" }, "chip in fp32, published: chip in fp16"},
		{"other", func(*backend.Program) {}, "other in fp16, published: chip in fp16"},
	} {
		m := checked()
		p, err := m.Rows[0].Program()
		if err != nil {
			t.Fatal(err)
		}
		c.change(&p)
		if got := m.Confidence(&p, c.chip, 1); got.Inside || !strings.Contains(got.Why, c.want) {
			t.Errorf("confidence %+v, want %q", got, c.want)
		}
	}
}
