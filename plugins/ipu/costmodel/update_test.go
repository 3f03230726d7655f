package costmodel

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/machine/machinetest"
	"harness.invalid/core/optimizer"
	"harness.invalid/plugins/optimizers/adafactor"
	"harness.invalid/plugins/optimizers/adamw"
	"harness.invalid/plugins/optimizers/lamb"
	"harness.invalid/plugins/optimizers/muon"
	"harness.invalid/plugins/optimizers/sam"
	"harness.invalid/plugins/optimizers/sgd"
	"harness.invalid/plugins/optimizers/shampoo"
)

// withLAMB is a machine on which LAMB updates the parameters of a program.
func withLAMB(t testing.TB, p backend.Program) backend.Machine {
	t.Helper()
	return backend.Machine{Update: machinetest.Update(t, lamb.New(), nil, p)}
}

// under is an estimate of the published program with its state on the chip, and the seconds and megabytes that it gives
// the optimizer.
func under(t *testing.T, o optimizer.Optimizer, options map[string]string) (e backend.Estimate, seconds, megabytes float64) {
	t.Helper()
	p := with(large(t), "optimizer_state", "onchip")
	on := backend.Machine{Update: machinetest.Update(t, o, options, p)}
	e, err := Estimate(p, parsed(t, p), system(t, "bow-pod16"), on)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range e.Breakdown {
		if b.Name == "optimizer" {
			seconds = b.Seconds
		}
	}
	for _, d := range e.Memory {
		for _, part := range d.Parts {
			if part.Name == "optimizer" {
				megabytes += float64(part.Bytes) / 1e6
			}
		}
	}
	return e, seconds, megabytes
}

// TestOptimizers: rules have the time and the memory of what they state. 336 million parameters in four shares have
// 672 MB for two moments in FP32.
func TestOptimizers(t *testing.T) {
	_, adam, whole := under(t, adamw.New(), nil)
	if math.Abs(whole-672) > 2 {
		t.Errorf("AdamW's moments take %.1f MB on four IPUs, want 672", whole)
	}
	for _, c := range []struct {
		name        string
		rule        optimizer.Optimizer
		options     map[string]string
		memory      float64 // against AdamW
		least, most float64 // time, against AdamW
	}{
		{"adamw with an FP16 moment", adamw.New(), map[string]string{"first_moment": "fp16"}, 0.75, 1, 1.5},
		{"lamb", lamb.New(), nil, 1, 1.2, 1.6},
		{"sgd", sgd.New(), nil, 0, 0, 0.3},
		{"adafactor", adafactor.New(), nil, 0.004, 0.5, 3},
		{"muon", muon.New(), nil, 0.55, 10, 1000},
		{"shampoo", shampoo.New(), nil, 2.81, 2, 1000}, // embeddings have almost no statistics
	} {
		e, seconds, megabytes := under(t, c.rule, c.options)
		if math.Abs(megabytes/whole-c.memory) > 0.06 || seconds < c.least*adam || seconds > c.most*adam {
			t.Errorf("%s: %.3f of AdamW's memory and %.2f of its time, want %g and %g to %g",
				c.name, megabytes/whole, seconds/adam, c.memory, c.least, c.most)
		}
		want := c.name == "muon" || c.name == "shampoo"
		if products := strings.Contains(fmt.Sprint(e.Assumptions), "matrix products of the update"); products != want {
			t.Errorf("%s: it assumes %v", c.name, e.Assumptions)
		}
	}
}

// TestSecondGradient: a rule that probes has twice the cycles and the sums over replicas, and keeps a copy of the
// weights.
func TestSecondGradient(t *testing.T) {
	for _, phased := range []string{"pipelined", "phased"} {
		p := with(large(t), "pipeline", "published", "execution", phased, "optimizer_state", "offchip")
		p.MicroBatch = 4
		of := func(o optimizer.Optimizer) backend.Estimate {
			on := backend.Machine{Update: machinetest.Update(t, o, nil, p)}
			e, err := Estimate(p, parsed(t, p), system(t, "bow-pod16"), on)
			if err != nil {
				t.Fatal(err)
			}
			sums(t, &e)
			return e
		}
		one, two := of(adamw.New()), of(sam.New())
		if r := two.StepSeconds / one.StepSeconds; r < 1.9 || r > 2.01 {
			t.Errorf("%s: a step with two gradients takes %.3f times as long", phased, r)
		}
		if more := two.Memory[0].Total() - one.Memory[0].Total(); more < one.Memory[0].Parts[0].Bytes {
			t.Errorf("%s: the second gradient takes %d bytes more, want the weights' %d",
				phased, more, one.Memory[0].Parts[0].Bytes)
		}
	}
}

// unstated is a rule that says nothing of its cost.
type unstated struct{ optimizer.Optimizer }

// TestAssumed: what nobody states is an assumption.
func TestAssumed(t *testing.T) {
	e, _, _ := under(t, unstated{muon.New()}, nil)
	if said := fmt.Sprint(e.Assumptions); !strings.Contains(said, "muon does not state its cost: priced by its slots, 2 in FP32") {
		t.Errorf("it assumes %s", said)
	}
	p := large(t)
	plan := parsed(t, p)
	e, err := Estimate(p, plan, system(t, "bow-pod16"), backend.Machine{})
	if said := fmt.Sprint(e.Assumptions); err != nil || !strings.Contains(said, "optimizer is modelled as none") {
		t.Errorf("%v, it assumes %s", err, said)
	}
	other := p
	other.Model.NumHiddenLayers = 12
	_, err = Estimate(p, plan, system(t, "bow-pod16"), withLAMB(t, other))
	if err == nil || !strings.Contains(err.Error(), "as the layout has") {
		t.Errorf("the cost of another model: %v", err)
	}
}

// TestVariations: pipelines of 1 to 16 IPUs and the program's own, which alone keeps its memory; none in phases.
func TestVariations(t *testing.T) {
	p := with(large(t), "pipeline", "2,7,7,8", "available_memory_proportion", "0.1,0.2,0.2,0.2")
	plan := parsed(t, p)
	list := Variations(&p, &plan)
	if len(list) != 6 || list[0].Value != "2,7,7,8" || list[0].Options["available_memory_proportion"] != "" ||
		list[3].Value != "3,7,7,7" {
		t.Errorf("variations %+v", list)
	}
	for _, v := range list[1:] {
		if v.Options["pipeline"] != v.Value || v.Options["available_memory_proportion"] != "auto" {
			t.Errorf("variation %+v", v)
		}
	}
	plan = parsed(t, with(large(t), "pipeline", "all", "execution", "phased"))
	if list := Variations(&p, &plan); list != nil {
		t.Errorf("variations of phases: %+v", list)
	}
}
