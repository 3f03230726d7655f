package costmodel

import (
	"maps"
	"math"
	"strings"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/plugins/ipu/execution"
)

// large is BERT-Large at 128 tokens as PopART runs it on four replicas.
func large(t testing.TB) backend.Program {
	t.Helper()
	c, err := bert.Defaults().Size("large")
	if err != nil {
		t.Fatal(err)
	}
	c.VocabSize, c.AttentionProbsDropoutProb = 30400, 0
	return backend.Program{
		Model: c, Head: bert.Head{Task: bert.Pretraining}, Precision: "fp16.16", Length: 128, MaxPredictions: 20,
		MicroBatch: 8, Accumulation: 2048, Replicas: 4, Options: map[string]string{"pipeline": "3,7,7,7"},
	}
}

// with is a program with options, given as names and values.
func with(p backend.Program, options ...string) backend.Program {
	p.Options = maps.Clone(p.Options)
	if p.Options == nil {
		p.Options = map[string]string{}
	}
	for i := 0; i < len(options); i += 2 {
		p.Options[options[i]] = options[i+1]
	}
	return p
}

func parsed(t testing.TB, p backend.Program) execution.Plan {
	t.Helper()
	plan, err := execution.Parse(&p)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// estimated prices the plan of a program with LAMB on a system.
func estimated(t testing.TB, p backend.Program, name string) (backend.Estimate, error) {
	t.Helper()
	return Estimate(p, parsed(t, p), system(t, name), withLAMB(t, p))
}

// modelled is estimated where that is no error.
func modelled(t testing.TB, p backend.Program, name string) backend.Estimate {
	t.Helper()
	e, err := estimated(t, p, name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestOrder: what must be faster is. A faster clock helps by no more than its ratio, since links and host keep
// theirs; more recomputation, FP32 sums and a sequential schedule cost.
func TestOrder(t *testing.T) {
	p := large(t)
	rate := func(p backend.Program, name string) float64 { return modelled(t, p, name).SequencesPerSecond }
	gc200, bow := rate(p, "ipu-pod16"), rate(p, "bow-pod16")
	if r := bow / gc200; r < 1.3 || r > 1.85/1.33 {
		t.Errorf("Bow is %.3f times as fast as GC200, want up to the ratio of the clocks, 1.391", r)
	}
	q := p
	q.Replicas, q.Accumulation = 16, 512
	if r := rate(q, "bow-pod64") / bow; r < 3.5 || r > 4 {
		t.Errorf("four times the IPUs are %.2f times as fast", r)
	}
	q = p
	if q.Precision = "fp16.32"; rate(q, "bow-pod16") >= bow {
		t.Error("FP32 partial sums cost nothing")
	}
	if rate(with(p, "schedule", "sequential"), "bow-pod16") > bow/3 {
		t.Error("four IPUs that take turns are more than a third as fast as a pipeline")
	}
}

// TestAssumptions: an estimate says what it decided, and what the run does another way; it says nothing of what was
// given.
func TestAssumptions(t *testing.T) {
	given := with(large(t), "recomputation", "layer", "optimizer_state", "offchip", "available_memory_proportion", "0.2")
	if e := modelled(t, given, "bow-pod16"); len(e.Assumptions) != 0 {
		t.Errorf("all is given, and it assumes %v", e.Assumptions)
	}
	three := large(t)
	three.Model.NumHiddenLayers, three.SequencesPerPack, three.Replicas = 9, 3, 2
	three.Options = map[string]string{"pipeline": "3,3,3"}
	e := modelled(t, three, "bow-pod16")
	var said []string
	for _, a := range e.Assumptions {
		said = append(said, strings.SplitN(a.String(), ":", 2)[0])
	}
	want := "recomputation is modelled as layer, the run has none; optimizer_state is modelled as offchip; " +
		"available_memory_proportion is modelled as 0.25; replicas is modelled as 4 IPUs each, the run has 3 IPUs each; " +
		"packing is modelled as 1.17"
	if got := strings.Join(said, "; "); got != want {
		t.Errorf("it assumes\n%s, want\n%s", got, want)
	}
	three.Replicas = 5
	if _, err := estimated(t, three, "bow-pod16"); err == nil || !strings.Contains(err.Error(), "want at most 4 replicas") {
		t.Errorf("five replicas of three IPUs on sixteen: %v", err)
	}
}

// sums checks that the parts of a step are its whole.
func sums(t testing.TB, e *backend.Estimate) {
	t.Helper()
	if sum := seconds(e.Breakdown); math.Abs(sum/e.StepSeconds-1) > 1e-12 {
		t.Errorf("the parts take %g s, the step %g s", sum, e.StepSeconds)
	}
	all := float64(e.Pipeline.Cycles)*e.Pipeline.CycleSeconds + seconds(e.Pipeline.Update)
	if math.Abs(all/e.StepSeconds-1) > 1e-9 {
		t.Errorf("cycles and update take %g s, the step %g s", all, e.StepSeconds)
	}
}

// TestHost: a step of BERT-Tiny waits for the host, mostly for the start of its program; the sum over a step of
// BERT-Large as published is less than 2% of it, and its start cannot be seen.
func TestHost(t *testing.T) {
	of := func(p backend.Program, name string) (seconds, share float64) {
		e := modelled(t, p, "bow-pod16")
		for _, b := range e.Breakdown {
			if b.Name == name {
				return b.Seconds, b.Seconds / e.StepSeconds
			}
		}
		t.Fatalf("no %s in %v", name, e.Breakdown)
		return 0, 0
	}
	large := large(t)
	if _, share := of(large, "engine_start"); share > 1e-4 {
		t.Errorf("the start of the program is %.2g of a step of BERT-Large", share)
	}
	seconds, share := of(large, "host_exchange")
	bytes := 4 * (3*large.Length + 3*large.MaxPredictions + 2) * large.MicroBatch * large.Accumulation
	if least := float64(bytes) * 8 / 26.4e9; seconds < least || seconds > 2*least || share > 0.02 {
		t.Errorf("%d bytes reach a replica in %.3g s, %.2g of a step", bytes, seconds, share)
	}
}
