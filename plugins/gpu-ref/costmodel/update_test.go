package costmodel

import (
	"math"
	"strings"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/machine/machinetest"
	"harness.invalid/core/optimizer"
	"harness.invalid/plugins/gpu-ref/execution"
	"harness.invalid/plugins/optimizers/adamw"
	"harness.invalid/plugins/optimizers/lamb"
	"harness.invalid/plugins/optimizers/muon"
	"harness.invalid/plugins/optimizers/sam"
	"harness.invalid/plugins/optimizers/sgd"
)

// withLAMB is a machine on which LAMB updates the parameters of a program.
func withLAMB(t testing.TB, p backend.Program) backend.Machine {
	t.Helper()
	return backend.Machine{Update: machinetest.Update(t, lamb.New(), nil, p)}
}

// under is the estimate of a program with an optimizer, and the seconds and bytes for each parameter that it gives
// the optimizer.
func under(t *testing.T, precision string, o optimizer.Optimizer, options map[string]string) (e backend.Estimate, seconds, bytes float64) {
	t.Helper()
	p := large(t)
	p.Precision = precision
	system, err := Systems.Load("dgx-a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	on := backend.Machine{Update: machinetest.Update(t, o, options, p)}
	m, err := newModel(p, execution.Plan{}, system, on, fitted())
	if err != nil {
		t.Fatal(err)
	}
	if e, err = Estimate(p, execution.Plan{}, system, on); err != nil {
		t.Fatal(err)
	}
	return e, m.updateSeconds(), m.stateBytes() / m.parameters()
}

// TestOptimizers: state is masters and what a rule states. LAMB under mixed precision moves 48 bytes for each
// parameter, as FusedLAMB does: parameters 4 x 4, moments 4 x 4, gradients 5 x 2, the weight 2, and 2 x 2 for the
// loss scale.
func TestOptimizers(t *testing.T) {
	for _, c := range []struct {
		precision string
		rule      optimizer.Optimizer
		options   map[string]string
		bytes     float64
	}{
		{"fp16", adamw.New(), nil, 12},
		{"fp16", adamw.New(), map[string]string{"first_moment": "fp16"}, 10},
		{"fp32", adamw.New(), nil, 8},
		{"tf32", sgd.New(), nil, 0},
		{"bf16", sgd.New(), map[string]string{"momentum": "0.9"}, 8},
		{"fp32", sam.New(), nil, 12},
	} {
		if _, _, bytes := under(t, c.precision, c.rule, c.options); math.Abs(bytes-c.bytes) > 1e-9 {
			t.Errorf("%s: %g bytes of state for a parameter, want %g", c.precision, bytes, c.bytes)
		}
	}
	e, seconds, _ := under(t, "fp16", lamb.New(), nil)
	system, err := Systems.Load(e.System)
	if err != nil {
		t.Fatal(err)
	}
	n := float64(e.Memory[0].Parts[0].Bytes) / 2
	if moved := seconds * system.Chip.MemoryBytesPerSecond * system.Chip.MemoryEfficiency / n; math.Abs(moved-48) > 1e-3 {
		t.Errorf("LAMB moves %.2f bytes for each parameter, want 48", moved)
	}
	_, adam, _ := under(t, "fp16", adamw.New(), nil)
	if _, muon, _ := under(t, "fp16", muon.New(), nil); muon < 5*adam {
		t.Errorf("Muon's update takes %g s, AdamW's %g s", muon, adam)
	}
	if _, alone, _ := under(t, "tf32", adamw.New(), nil); alone < 2*adam {
		t.Errorf("AdamW in operators takes %g s, fused %g s", alone, adam)
	}
}

// TestSecondGradient: a rule that probes computes everything but the update twice.
func TestSecondGradient(t *testing.T) {
	one, _, _ := under(t, "fp16", adamw.New(), nil)
	two, _, _ := under(t, "fp16", sam.New(), nil)
	if r := two.StepSeconds / one.StepSeconds; r < 1.9 || r > 2 || math.Abs(two.PeakShare/one.PeakShare*r/2-1) > 1e-9 {
		t.Errorf("a step with two gradients takes %.3f times as long, at %.3f of the share of the peak", r, two.PeakShare/one.PeakShare)
	}
	sum, behind := 0., float64(two.Pipeline.Cycles)*two.Pipeline.CycleSeconds
	for _, b := range two.Breakdown {
		sum += b.Seconds
	}
	for _, b := range two.Pipeline.Update {
		behind += b.Seconds
	}
	if math.Abs(sum/two.StepSeconds-1) > 1e-12 || math.Abs(behind/two.StepSeconds-1) > 1e-9 {
		t.Errorf("the parts take %g s, cycles and what follows them %g s, the step %g s", sum, behind, two.StepSeconds)
	}
}

// unstated is a rule that says nothing of its cost.
type unstated struct{ optimizer.Optimizer }

// TestAssumed: what nobody states is an assumption.
func TestAssumed(t *testing.T) {
	e, _, _ := under(t, "fp16", unstated{adamw.New()}, nil)
	if len(e.Assumptions) != 2 || !strings.Contains(e.Assumptions[0].Reason, "adamw does not state its cost") {
		t.Errorf("it assumes %v", e.Assumptions)
	}
}
