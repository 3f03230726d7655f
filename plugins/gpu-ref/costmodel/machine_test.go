package costmodel

import (
	"errors"
	"math"
	"strings"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/emulator"
	"harness.invalid/plugins/gpu-ref/execution"
)

func large(t testing.TB) backend.Program {
	t.Helper()
	c, err := bert.Defaults().Size("large")
	if err != nil {
		t.Fatal(err)
	}
	return backend.Program{
		Model: c, Head: bert.Head{Task: bert.Pretraining}, Precision: "fp16", Length: 128, MaxPredictions: 20,
		MicroBatch: 64, Accumulation: 8, Replicas: 1,
	}
}

func modelled(t testing.TB, p backend.Program, s execution.Plan, name string) (backend.Estimate, error) {
	t.Helper()
	system, err := Systems.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return Estimate(p, s, system, withLAMB(t, p))
}

// TestSystems: every description has a doc and sources, its name is that of its file, and the tensor cores' rates are
// a whole number of operations a multiprocessor and cycle, within 2%: 1024, 2048, 4096 and 8192 in V100, A100, H100 and
// B200.
func TestSystems(t *testing.T) {
	perCycle := map[string]float64{"V100": 1024, "A100": 2048, "H100": 4096, "H200": 4096, "B200": 8192}
	names := Systems.Names()
	if len(names) != 8 {
		t.Errorf("%d systems: %v", len(names), names)
	}
	for _, name := range names {
		s, err := Systems.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if s.Name != name || s.Doc == "" || len(s.Sources) == 0 {
			t.Errorf("%s: name %q, doc %q, %d sources", name, s.Name, s.Doc, len(s.Sources))
		}
		c := &s.Chip
		if got := c.Flops["fp16"] / float64(c.Multiprocessors) / c.ClockHz; math.Abs(got/perCycle[c.Name]-1) > 0.1 {
			t.Errorf("%s: %.0f operations a multiprocessor and cycle, want %g", name, got, perCycle[c.Name])
		}
	}
}

// TestWaves: one block more than there are multiprocessors takes much more than a 108th more time, whatever blocks
// are chosen instead.
func TestWaves(t *testing.T) {
	system, err := Systems.Load("dgx-a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	m, err := newModel(large(t), execution.Plan{}, system, backend.Machine{}, fitted())
	if err != nil {
		t.Fatal(err)
	}
	one, two := m.multiply(m.stored(), 1, 256*108, 4096, 128).seconds(), m.multiply(m.stored(), 1, 256*109, 4096, 128).seconds()
	if r := two / one; r < 1.05 || r > 2 {
		t.Errorf("109 blocks take %.2f times as long as 108", r)
	}
}

// TestStaging: on V100 operands take tensor cores a sixth of the time of a large product and more of one in small
// blocks, and CUDA cores, an eighth as fast and with numbers twice as wide, a quarter of that share.
func TestStaging(t *testing.T) {
	loss := func(precision string, rows int) float64 {
		p := large(t)
		p.Precision = precision
		system, err := Systems.Load("dgx-1-v100-32gb")
		if err != nil {
			t.Fatal(err)
		}
		m, err := newModel(p, execution.Plan{}, system, backend.Machine{}, constants{MatmulEfficiency: 1})
		if err != nil {
			t.Fatal(err)
		}
		staged := m.multiply(m.stored(), 1, rows, 4096, 4096).compute
		system.Chip.AsynchronousCopies = true
		return 1 - m.multiply(m.stored(), 1, rows, 4096, 4096).compute/staged
	}
	if l := loss("fp16", 1<<15); l < 0.1 || l > 0.2 {
		t.Errorf("tensor cores lose %.3f of a large product", l)
	}
	if l := loss("fp32", 1<<15); l < 0.02 || l > 0.08 {
		t.Errorf("CUDA cores lose %.3f of a large product", l)
	}
	if small, large := loss("fp16", 64), loss("fp16", 1<<15); small <= large {
		t.Errorf("small blocks lose %.3f, large ones %.3f", small, large)
	}
}

func TestEstimate(t *testing.T) {
	p := large(t)
	e, err := modelled(t, p, execution.Plan{}, "dgx-a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.
	for _, b := range e.Breakdown {
		sum += b.Seconds
	}
	if math.Abs(sum/e.StepSeconds-1) > 1e-12 || e.Err() != nil {
		t.Errorf("the parts take %g s, the step %g s; %v", sum, e.StepSeconds, e.Err())
	}
	p.Replicas = 8
	eight, err := modelled(t, p, execution.Plan{}, "dgx-a100-80gb")
	if r := eight.SequencesPerSecond / e.SequencesPerSecond; err != nil || r < 7 || r > 8 {
		t.Errorf("eight GPUs: %g sequences/s against %g, %v", eight.SequencesPerSecond, e.SequencesPerSecond, err)
	}
	p.Replicas = 1
	checkpointed, err := modelled(t, p, execution.Plan{Plan: emulator.Plan{Recompute: bert.RecomputeLayer}}, "dgx-a100-80gb")
	if err != nil || checkpointed.SequencesPerSecond >= e.SequencesPerSecond || checkpointed.Memory[0].Total() >= e.Memory[0].Total() {
		t.Errorf("checkpointing: %v, %v", checkpointed, err)
	}
	p.MicroBatch = 512
	e, err = modelled(t, p, execution.Plan{}, "dgx-1-v100-16gb")
	if err != nil || !errors.Is(e.Err(), backend.ErrOutOfMemory) || !strings.Contains(e.Advice, "micro-batch") {
		t.Errorf("512 sequences on 16 GB: %v, %v, advice %q", err, e.Err(), e.Advice)
	}
	p.Precision = "tf32"
	if _, err := modelled(t, p, execution.Plan{}, "dgx-2"); !errors.Is(err, backend.ErrUnsupported) {
		t.Errorf("TF32 on V100: %v", err)
	}
	p.Precision, p.Replicas = "fp16", 1<<12
	if _, err := modelled(t, p, execution.Plan{}, "dgx-2"); err == nil || !strings.Contains(err.Error(), "at most 1024") {
		t.Errorf("4096 GPUs: %v", err)
	}
}

// TestLengths: at 512 tokens bins of 64 have 288 tokens on average; 128 tokens are not binned.
func TestLengths(t *testing.T) {
	system, err := Systems.Load("dgx-a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	for length, want := range map[int]int{128: 128, 512: 288} {
		p := large(t)
		p.Length = length
		m, err := newModel(p, execution.Plan{LengthBins: 64}, system, backend.Machine{}, fitted())
		if err != nil {
			t.Fatal(err)
		}
		if l := m.lengths(); sum(l)/len(l) != want {
			t.Errorf("%d tokens: %v, want %d on average", length, l, want)
		}
	}
}
