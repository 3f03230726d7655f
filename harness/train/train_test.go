package train_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/train"
	"harness.invalid/results"
)

// TestRun checks the record of a whole run.
func TestRun(t *testing.T) {
	e := load(t)
	j := e.job("gpu-ref", t.TempDir())
	h := &hooked{Backend: builtIn("gpu-ref")}
	j.Plugins = plugins{backend: h}
	var seen []string
	share := 0.0
	j.Observe = func(ev train.Event) {
		if ev.Metrics != nil {
			seen = append(seen, fmt.Sprintf("%s %d/%d", ev.Phase, ev.Step, ev.Steps))
		}
		if ev.Done < share || ev.Done > 1 {
			t.Errorf("%s %d: done %v after %v", ev.Phase, ev.Step, ev.Done, share)
		}
		share = ev.Done
	}
	o := e.run(j)
	if want := []string{"phase1 10/10", "phase2 6/6", "squad 4/8", "squad 8/8"}; !slices.Equal(seen, want) {
		t.Errorf("evaluations were seen at %q, want %q", seen, want)
	}
	if math.Abs(share-1) > 1e-9 {
		t.Errorf("at the end %v is done, want 1", share)
	}
	var total []int
	for i, s := range o.steps {
		total = append(total, s.TotalStep)
		if !s.Finite || s.LossScale != 1 || s.Sequences != 8 || s.Metrics["loss"] <= 0 {
			t.Errorf("step %d: %+v", i+1, s)
		}
	}
	if len(total) != 24 || !slices.IsSorted(total) || total[23] != 24 {
		t.Errorf("steps %v, want 1 to 24", total)
	}
	want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 11, 12, 13, 14, 15, 16, 0, 17, 18, 19, 20, 21, 22, 23, 24}
	if !slices.Equal(h.commits, want) {
		t.Errorf("commits %v, want 0 at the start of a phase and then one for each step of the run", h.commits)
	}
	if h.sessions != 0 {
		t.Errorf("%d sessions are still open", h.sessions)
	}
	// The linear schedule of phase1: a warm-up step at 0, as in google-research/bert, then from 5e-3 down to 0 after the
	// last step.
	for step, want := range map[int]float64{1: 0, 2: 5e-3 * 9 / 9, 10: 5e-3 / 9} {
		if got := float64(o.steps[step-1].LearningRate); math.Abs(got-want) > 1e-12 {
			t.Errorf("learning rate of step %d is %v, want %v", step, got, want)
		}
	}
	if r := o.result; r.Steps != 24 || r.Skipped != 0 || len(r.Phases) != 3 || len(r.BatchDigest) != 64 {
		t.Errorf("result %+v", r)
	}
	for _, metric := range []string{
		"phase1.masked_lm_loss", "phase2.next_sentence_accuracy", "phase2.unigram_loss", "squad.f1", "masked_lm_loss", "exact_match",
	} {
		if v, ok := o.result.Metrics[metric]; !ok || math.IsNaN(v) {
			t.Errorf("metric %s is %v, %v", metric, v, ok)
		}
	}
	for i, metric := range []string{"masked_lm_loss", "next_sentence_accuracy", "f1"} {
		if v := o.result.Phases[i].Floors[metric]; v <= 0 {
			t.Errorf("phase %d: a model that ignores its input gets a %s of %v", i+1, metric, v)
		}
	}
	// 48 tokens are the most that a window has, and it has more than 12.
	if v := o.result.Phases[2].Floors["answer_nll"]; v < 2*math.Log(12) || v > 2*math.Log(48) {
		t.Errorf("where all tokens are alike, answers have a negative log-likelihood of %v", v)
	}
}

// TestCuts: the division of the global batch into micro-batches and replicas changes FP32 results only by rounding, also
// with dropout. A sum of 8 terms in another order differs by a few units in the last place (6e-8), which twelve steps of
// Adam amplify: it divides small gradients by small second moments.
func TestCuts(t *testing.T) {
	e := load(t, "phases.phase1.steps=8", "phases.phase2.steps=2", "phases.squad.steps=2", "defaults.micro_batch=8")
	want := e.run(e.job("gpu-ref", t.TempDir()))
	for _, cut := range [][3]int{{4, 2, 1}, {1, 8, 1}, {4, 1, 2}, {1, 2, 4}} {
		if testing.Short() && cut[2] == 1 {
			continue
		}
		f := load(t, "phases.phase1.steps=8", "phases.phase2.steps=2", "phases.squad.steps=2", "defaults.micro_batch=8",
			fmt.Sprintf("backends.gpu-ref.micro_batch=%d", cut[0]), fmt.Sprintf("backends.gpu-ref.accumulation=%d", cut[1]),
			fmt.Sprintf("backends.gpu-ref.replicas=%d", cut[2]))
		if f.recipe.Fingerprint() != e.recipe.Fingerprint() {
			t.Errorf("%v: the cut of a backend changes the fingerprint", cut)
		}
		got := f.run(f.job("gpu-ref", t.TempDir()))
		if got.result.BatchDigest != want.result.BatchDigest {
			t.Errorf("%v: another batch digest", cut)
		}
		for i := range want.steps {
			a, b := want.steps[i].Metrics["loss"], got.steps[i].Metrics["loss"]
			if math.Abs(a-b) > 1e-4*a {
				t.Errorf("%v: loss of step %d is %v, want %v", cut, i+1, b, a)
			}
		}
	}
}

// TestSkipped: a step with a gradient that is not finite counts, but changes no parameter and does not advance the
// optimizer.
func TestSkipped(t *testing.T) {
	e := load(t, "phases.phase1.steps=4", "phases.phase2.steps=1", "phases.squad.steps=1")
	var params []float32
	h := &hooked{Backend: builtIn("gpu-ref")}
	h.step = func(s backend.Step, m backend.Memory, r *backend.StepResult) error {
		if s.Step == 3 {
			params = slices.Clone(m.Params)
		}
		if s.Step == 4 && !slices.Equal(params, m.Params) {
			t.Error("step 3 was skipped and parameters changed")
		}
		r.Finite = s.Step > 3
		return nil
	}
	j := e.job("gpu-ref", t.TempDir())
	var updates []int
	j.Plugins = plugins{h, &updates}
	o := e.run(j)
	if o.result.Skipped != 3 || o.result.Phases[0].Skipped != 3 || o.result.Steps != 6 {
		t.Errorf("%d of %d steps skipped, want 3 of 6", o.result.Skipped, o.result.Steps)
	}
	if want := []int{0, 4, 0, 5, 0, 6}; !slices.Equal(h.commits, want) {
		t.Errorf("commits %v, want %v: a skipped step is not committed", h.commits, want)
	}
	// For the bias correction they count from 1 in each phase, since the moments start at 0.
	if want := []int{1, 1, 1}; !slices.Equal(updates, want) {
		t.Errorf("the optimizer's steps were %v, want %v", updates, want)
	}
	if len(o.result.Notes) != 1 || !strings.Contains(o.result.Notes[0], "phase phase1: 3 of 4 steps were skipped") {
		t.Errorf("notes %q", o.result.Notes)
	}
	for _, s := range o.steps {
		if s.Finite != (s.TotalStep > 3) {
			t.Errorf("step %d is recorded as finite: %v", s.TotalStep, s.Finite)
		}
	}
}

// TestFailure: an error names phase and step, closes the sessions, and leaves a run that can be resumed.
func TestFailure(t *testing.T) {
	e := load(t, "phases.phase1.checkpoint_every=2")
	whole := e.run(e.job("gpu-ref", t.TempDir()))
	h := &hooked{Backend: builtIn("gpu-ref")}
	h.step = func(s backend.Step, m backend.Memory, _ *backend.StepResult) error {
		if s.Step == 7 {
			return errors.New("tile 311 is on fire")
		}
		return nil
	}
	j := e.job("gpu-ref", t.TempDir())
	j.Plugins = plugins{backend: h}
	_, err := train.Run(t.Context(), j)
	if err == nil || err.Error() != "phase phase1: step 7: tile 311 is on fire" {
		t.Fatalf("error %v", err)
	}
	if h.sessions != 0 {
		t.Errorf("%d sessions are still open", h.sessions)
	}
	r, err := results.Open(j.Dir)
	if err != nil || r.Result != nil {
		t.Fatalf("%v, %v, want a run without an end", r, err)
	}
	j = e.job("gpu-ref", j.Dir)
	j.Resume = true
	if d := whole.differs(e.run(j)); d != "" {
		t.Errorf("resumed differs in %s", d)
	}
}

// TestTarget: the first evaluation that reaches the target counts.
func TestTarget(t *testing.T) {
	for _, c := range []struct {
		metric string
		value  float64
		step   int
	}{{"masked_lm_loss", 100, 2}, {"masked_lm_loss", 1e-9, 0}, {"masked_lm_accuracy", 0, 2}, {"masked_lm_accuracy", 101, 0}} {
		e := load(t, "phases.phase1.steps=4", "phases.phase1.evaluation.every=2", "phases.phase2.steps=1", "phases.squad.steps=1")
		e.recipe.Phases[0].Target = &recipe.Target{Metric: c.metric, Value: c.value}
		o := e.run(e.job("gpu-ref", t.TempDir()))
		got := o.result.Phases[0].Target
		if got == nil || got.Step != c.step || got.Metric != c.metric || got.Value != c.value {
			t.Errorf("%s %v: reached %+v, want step %d", c.metric, c.value, got, c.step)
		}
	}
}

// TestSeeds: another seed is another run on the same data.
func TestSeeds(t *testing.T) {
	e := load(t, "phases.phase1.steps=2", "phases.phase2.steps=1", "phases.squad.steps=1")
	one := e.run(e.job("gpu-ref", t.TempDir()))
	j := e.job("gpu-ref", t.TempDir())
	j.Seed, j.Identity.Seed = 2, 2
	two := e.run(j)
	if one.result.BatchDigest == two.result.BatchDigest || one.steps[0].Metrics["loss"] == two.steps[0].Metrics["loss"] {
		t.Error("two seeds, the same run")
	}
}
