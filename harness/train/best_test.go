package train_test

import (
	"strings"
	"testing"

	"harness.invalid/core/checkpoint/safetensors"
)

// TestBest: a phase ends early when its metric stops improving, with the parameters of the best evaluation. So does a
// run that was stopped and resumed.
func TestBest(t *testing.T) {
	// At such a learning rate no answer changes, and the first evaluation stays the best one.
	e := load(t, "phases.squad.steps=9", "phases.squad.schedule.learning_rate=1e-12", "phases.squad.target=",
		"phases.squad.evaluation={every: 2, batch: 8, patience: 2, keep_best: true}")
	j := e.job("gpu-ref", t.TempDir())
	whole := e.run(j)
	p := whole.result.Phases[2]
	if p.Best == nil || p.Best.Metric != "f1" || p.Best.Step != 2 || p.Steps != 6 || p.Metrics["f1"] != p.Best.Value {
		t.Errorf("%d steps, best %+v, metrics %v; want 6, the best after 2", p.Steps, p.Best, p.Metrics)
	}
	const stopped = "stopped after step 6 of 9, since 2 evaluations in a row were no better in f1"
	if notes := strings.Join(whole.result.Notes, "; "); !strings.Contains(notes, stopped) {
		t.Errorf("notes: %s", notes)
	}
	evaluations := 0
	for _, v := range whole.evaluations {
		if v.Phase == "squad" {
			evaluations++
		}
	}
	if evaluations != 3 {
		t.Errorf("%d evaluations, want one after 2, 4 and 6 steps", evaluations)
	}
	f, err := safetensors.Open(j.Dir + "/squad.best.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, ok := f.Tensor("qa_outputs.weight"); !ok {
		t.Errorf("the best parameters are %v", f.Names())
	}
	for _, stop := range []int{20, 22, 24} {
		resumed(t, e, "gpu-ref", stop, whole)
	}
}
