package costmodel

import (
	"math"
	"strings"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/machine/machinetest"
	"harness.invalid/plugins/gpu-ref/execution"
	"harness.invalid/plugins/optimizers/adamw"
)

// tiny is BERT-Tiny with 32 sequences a step.
func tiny(t testing.TB, software string) backend.Program {
	t.Helper()
	p := large(t)
	var err error
	if p.Model, err = bert.Defaults().Size("tiny"); err != nil {
		t.Fatal(err)
	}
	p.MicroBatch, p.Accumulation = 32, 1
	p.Options = map[string]string{"software": software}
	return p
}

// parts are the seconds of a step with AdamW, by name.
func parts(t testing.TB, p backend.Program) (step float64, by map[string]float64) {
	t.Helper()
	system, err := Systems.Load("dgx-a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	on := backend.Machine{Update: machinetest.Update(t, adamw.New(), nil, p)}
	e, err := Estimate(p, execution.Plan{}, system, on)
	if err != nil {
		t.Fatal(err)
	}
	by = map[string]float64{}
	for _, b := range e.Breakdown {
		by[b.Name] = b.Seconds
	}
	return e.StepSeconds, by
}

// TestSoftware: BERT-Tiny waits for launches, most of all for those of an optimizer in operators, and hardly in graphs;
// BERT-Large hides them.
func TestSoftware(t *testing.T) {
	eager, of := parts(t, tiny(t, "eager"))
	nvidia, fused := parts(t, tiny(t, "nvidia"))
	graphs, captured := parts(t, tiny(t, "graphs"))
	if of["launch"] < 2*captured["launch"] || of["optimizer"] < 10*fused["optimizer"] {
		t.Errorf("eager: %v; in graphs %v; fused %v", of, captured, fused)
	}
	if !(graphs < 0.8*nvidia && nvidia < eager/3) {
		t.Errorf("a step of BERT-Tiny takes %.3g s in graphs, %.3g with NVIDIA's program, %.3g in operators", graphs, nvidia, eager)
	}
	p := large(t)
	whole, of := parts(t, p)
	if of["launch"] > 0.02*whole || of["data_loader"] > 0.002*whole {
		t.Errorf("BERT-Large waits %.3g of %.3g s for launches, %.3g for data", of["launch"], whole, of["data_loader"])
	}
	p.Options = map[string]string{"software": "graph"}
	if _, err := modelled(t, p, execution.Plan{}, "dgx-2"); err == nil || !strings.Contains(err.Error(), "did you mean graphs") {
		t.Errorf("%v", err)
	}
}

// TestSQuADProgram: what NVIDIA's program for SQuAD waits is its own, the same for any model, and no other program has it.
func TestSQuADProgram(t *testing.T) {
	for _, size := range []string{"tiny", "large"} {
		p := tiny(t, "nvidia-squad")
		p.Head, p.MaxPredictions = bert.Head{Task: bert.QuestionAnswering}, 0
		var err error
		if p.Model, err = bert.Defaults().Size(size); err != nil {
			t.Fatal(err)
		}
		if _, of := parts(t, p); of["program"] != fitted().SQuADSeconds {
			t.Errorf("%s waits %g s, want %g", size, of["program"], fitted().SQuADSeconds)
		}
		p.Options = nil
		if _, of := parts(t, p); of["program"] != 0 {
			t.Errorf("%s on a DGX with no software named waits %g s", size, of["program"])
		}
	}
}

// TestLoader: four workers bound a model that takes less time for a sequence than they do; the program that loads on its
// own does so beside the GPU.
func TestLoader(t *testing.T) {
	p := tiny(t, "graphs")
	p.MicroBatch = 4096
	step, of := parts(t, p)
	if least := 4096 * loadSeconds / 4; step < least || of["data_loader"] <= 0 {
		t.Errorf("4096 sequences in %.4g s, and four workers take %.4g s: %v", step, least, of)
	}
	s, err := softwareNamed("nvidia-squad")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.hostSeconds(100, 32, 256), 100*submitSeconds+64*loadSeconds; math.Abs(got/want-1) > 1e-12 {
		t.Errorf("the host takes %g s, want %g", got, want)
	}
}
