package train_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/checkpoint"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/train"
	"harness.invalid/results"
)

// TestRun looks at the record of a whole run.
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
	if want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 11, 12, 13, 14, 15, 16, 0, 17, 18, 19, 20, 21, 22, 23, 24}; !slices.Equal(h.commits, want) {
		t.Errorf("commits %v, want 0 at the start of a phase and then one for each step of the run", h.commits)
	}
	if h.sessions != 0 {
		t.Errorf("%d sessions are still open", h.sessions)
	}
	// The linear schedule of phase1: one step of warm-up to 5e-3, the first at 0 as in google-research/bert, then down to 0 after the last.
	for step, want := range map[int]float64{1: 0, 2: 5e-3 * 9 / 9, 10: 5e-3 / 9} {
		if got := float64(o.steps[step-1].LearningRate); math.Abs(got-want) > 1e-12 {
			t.Errorf("learning rate of step %d is %v, want %v", step, got, want)
		}
	}
	if r := o.result; r.Steps != 24 || r.Skipped != 0 || len(r.Phases) != 3 || len(r.BatchDigest) != 64 {
		t.Errorf("result %+v", r)
	}
	for _, metric := range []string{"phase1.masked_lm_loss", "phase2.next_sentence_accuracy", "phase2.unigram_loss", "squad.f1", "masked_lm_loss", "exact_match"} {
		if v, ok := o.result.Metrics[metric]; !ok || math.IsNaN(v) {
			t.Errorf("metric %s is %v, %v", metric, v, ok)
		}
	}
}

// TestResume stops a run at every step and every evaluation, and goes on in a new process's place: with the bits of a run that was not stopped.
func TestResume(t *testing.T) {
	// FP16 with a loss scale that overflows at first and grows later, evaluations on the way, and few steps.
	e := load(t, "phases.phase1.steps=4", "phases.phase2.steps=3", "phases.squad.steps=3", "phases.phase2.checkpoint_every=2",
		"phases.phase1.evaluation.every=2", "phases.squad.evaluation.every=2", "phases.squad.target.value=0",
		"backends.gpu-ref.options.init_scale=1048576", "backends.gpu-ref.options.growth_interval=2")
	for _, spec := range []string{"gpu-ref:fp16", "ipu"} {
		events := 0
		j := e.job(spec, t.TempDir())
		j.Observe = func(train.Event) { events++ }
		whole := e.run(j)
		if want := 10 + 2 + 1 + 2; events != want {
			t.Fatalf("%s: %d events, want %d", spec, events, want)
		}
		if spec == "gpu-ref:fp16" && (whole.result.Skipped == 0 || whole.result.Skipped == whole.result.Steps) {
			t.Errorf("%s: %d of %d steps were skipped, want some: the loss scale is to have a history", spec, whole.result.Skipped, whole.result.Steps)
		}
		for stop := 1; stop < events; stop++ {
			if stop%3 != 0 && (spec == "ipu" || testing.Short()) {
				continue
			}
			ctx, cancel := context.WithCancel(t.Context())
			j := e.job(spec, t.TempDir())
			n := 0
			j.Observe = func(train.Event) {
				if n++; n == stop {
					cancel()
				}
			}
			if _, err := train.Run(ctx, j); !errors.Is(err, context.Canceled) {
				t.Fatalf("%s stopped at event %d: %v, want %v", spec, stop, err, context.Canceled)
			}
			cancel()
			j = e.job(spec, j.Dir)
			j.Resume = true
			again := 0
			j.Observe = func(train.Event) { again++ }
			if d := whole.differs(e.run(j)); d != "" {
				t.Errorf("%s stopped at event %d and resumed differs in %s", spec, stop, d)
			}
			// What was done is not done again, but for an evaluation that was cut short.
			if again > events-stop+1 {
				t.Errorf("%s stopped at event %d of %d did %d more", spec, stop, events, again)
			}
		}
	}
}

// TestStoppedEvaluation stops a run while an evaluation goes on, which breaks off: the steps before it are not lost, and the evaluation is made up for.
func TestStoppedEvaluation(t *testing.T) {
	e := load(t, "phases.phase1.evaluation.every=4")
	whole := e.run(e.job("gpu-ref", t.TempDir()))
	for _, at := range []int{4, 8, 10} {
		ctx, cancel := context.WithCancel(t.Context())
		j := e.job("gpu-ref", t.TempDir())
		j.Plugins = plugins{backend: &hooked{Backend: builtIn("gpu-ref"), evaluate: func(step int) {
			if step == at {
				cancel()
			}
		}}}
		if _, err := train.Run(ctx, j); !errors.Is(err, context.Canceled) {
			t.Fatalf("stopped in the evaluation after step %d: %v, want %v", at, err, context.Canceled)
		}
		cancel()
		j = e.job("gpu-ref", j.Dir)
		j.Resume = true
		first := 0
		j.Observe = func(ev train.Event) {
			if first == 0 && ev.Metrics == nil {
				first = ev.Step
				if ev.Phase == "phase2" {
					first += 10
				}
			}
		}
		if d := whole.differs(e.run(j)); d != "" {
			t.Errorf("stopped in the evaluation after step %d and resumed differs in %s", at, d)
		}
		if first != at+1 {
			t.Errorf("stopped in the evaluation after step %d it goes on with step %d", at, first)
		}
	}
}

// TestCuts: how the global batch is cut changes FP32 results by rounding alone, dropout included. A sum of 8 terms in another order differs
// by a few units of the last place (6e-8); twelve steps of Adam, which divides small gradients by small second moments, make more of it.
func TestCuts(t *testing.T) {
	e := load(t, "phases.phase1.steps=8", "phases.phase2.steps=2", "phases.squad.steps=2", "defaults.micro_batch=8")
	want := e.run(e.job("gpu-ref", t.TempDir()))
	for _, cut := range [][3]int{{4, 2, 1}, {1, 8, 1}, {4, 1, 2}, {1, 2, 4}} {
		if testing.Short() && cut[2] == 1 {
			continue
		}
		f := load(t, "phases.phase1.steps=8", "phases.phase2.steps=2", "phases.squad.steps=2", "defaults.micro_batch=8",
			fmt.Sprintf("backends.gpu-ref.micro_batch=%d", cut[0]), fmt.Sprintf("backends.gpu-ref.accumulation=%d", cut[1]), fmt.Sprintf("backends.gpu-ref.replicas=%d", cut[2]))
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

// TestSaveFails: the error of a checkpoint says after which step.
func TestSaveFails(t *testing.T) {
	e := load(t, "phases.phase1.checkpoint_every=2")
	j := e.job("gpu-ref", t.TempDir())
	j.Plugins = plugins{backend: &hooked{Backend: builtIn("gpu-ref"), save: func(step int) error {
		if step == 4 {
			return errors.New("no state")
		}
		return nil
	}}}
	if _, err := train.Run(t.Context(), j); err == nil || !strings.Contains(err.Error(), "phase phase1: checkpoint after step 4: no state") {
		t.Errorf("%v, want an error that names the checkpoint after step 4 of phase1", err)
	}
}

// TestSkipped: a step whose gradient is not finite changes no parameter, counts, and does not advance the optimizer.
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
		t.Errorf("commits %v, want %v: a step that is skipped is not committed", h.commits, want)
	}
	// Counted for the bias correction anew in each phase, as the moments are.
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

// TestFailure: an error names phase and step, closes what is open, and leaves a run that can be resumed.
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

// TestContinues: a run is told from another one by anything that could change a number.
func TestContinues(t *testing.T) {
	e := load(t, "phases.phase1.steps=1", "phases.phase2.steps=1", "phases.squad.steps=1")
	j := e.job("gpu-ref", t.TempDir())
	e.run(j)
	before, err := results.Open(j.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Continues(before); err != nil {
		t.Error(err)
	}
	for _, c := range []struct{ set, want string }{
		{"phases.phase1.steps=2", "phases.phase1.steps 1, now 2"},
		{"backends.gpu-ref.options.loss_scale=8", `backends.gpu-ref.options.loss_scale not set, now "8"`},
		{"backends.gpu-ref.phases.squad.precision=fp16", `backends.gpu-ref.phases.squad.precision not set, now "fp16"`},
		{"backends.ipu.options.stochastic_rounding=false", ""},
		{"phases.phase1.checkpoint_every=1", ""},
		{"verdict.margins.f1=7", ""},
	} {
		other := load(t, "phases.phase1.steps=1", "phases.phase2.steps=1", "phases.squad.steps=1", c.set)
		j := other.job("gpu-ref", j.Dir)
		j.Resume = true
		err := j.Continues(before)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.set, err, c.want)
		}
		if c.want != "" {
			if _, err := train.Run(t.Context(), j); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: resumed with error %v, want %q", c.set, err, c.want)
			}
		}
	}
	j.Seed, j.Identity.Seed = 2, 2
	if err := j.Continues(before); err == nil || !strings.Contains(err.Error(), "seed 1, now 2") {
		t.Errorf("another seed: %v", err)
	}
}

// TestDamagedCheckpoint: the one before is used, and the record says so.
func TestDamagedCheckpoint(t *testing.T) {
	e := load(t, "phases.phase1.checkpoint_every=3")
	whole := e.run(e.job("gpu-ref", t.TempDir()))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	j := e.job("gpu-ref", t.TempDir())
	j.Observe = func(ev train.Event) {
		if ev.Step == 8 {
			cancel()
		}
	}
	if _, err := train.Run(ctx, j); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	newest, _, err := checkpoint.Latest(filepath.Join(j.Dir, "checkpoints"))
	if err != nil {
		t.Fatal(err)
	}
	if newest.Step != 8 {
		t.Fatalf("newest checkpoint is of step %d, want 8", newest.Step)
	}
	if err := newest.Close(); err != nil {
		t.Fatal(err)
	}
	damage(t, filepath.Join(newest.Path, "model.safetensors"))
	j = e.job("gpu-ref", j.Dir)
	j.Resume = true
	got := e.run(j)
	if len(got.result.Notes) != 1 || !strings.Contains(got.result.Notes[0], "a checkpoint was not used: ") {
		t.Errorf("notes %q, want one about the checkpoint", got.result.Notes)
	}
	got.result.Notes = whole.result.Notes
	if d := whole.differs(got); d != "" {
		t.Errorf("resumed from the checkpoint before differs in %s", d)
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

func damage(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 1
	if err := os.WriteFile(path, text, 0o666); err != nil {
		t.Fatal(err)
	}
}
