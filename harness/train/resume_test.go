package train_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"harness.invalid/core/checkpoint"
	"harness.invalid/harness/train"
	"harness.invalid/results"
)

// TestResume stops a run at every step and every evaluation and resumes it. It ends with the bits of a run that was not
// stopped.
func TestResume(t *testing.T) {
	// A loss scale that overflows at first and grows later, evaluations within phases, and few steps.
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
			t.Errorf("%s: %d of %d steps were skipped, want some: the loss scale needs a history",
				spec, whole.result.Skipped, whole.result.Steps)
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
			// Nothing is repeated but an evaluation that was cut short.
			if again > events-stop+1 {
				t.Errorf("%s stopped at event %d of %d did %d more", spec, stop, events, again)
			}
		}
	}
}

// TestStoppedEvaluation stops a run during an evaluation, which breaks off. The steps before it are not lost, and the
// resumed run repeats the evaluation.
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
		if state, why := stateOf(t, j.Dir); state != results.Stopped || why != "context canceled" {
			t.Errorf("the run is recorded as %s: %s, want stopped: context canceled", state, why)
		}
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

// stateOf is where a recorded run stands.
func stateOf(t *testing.T, dir string) (results.Status, string) {
	t.Helper()
	r, err := results.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r.State()
}

// TestSaveFails: an error of the backend's state names the step.
func TestSaveFails(t *testing.T) {
	e := load(t, "phases.phase1.checkpoint_every=2")
	j := e.job("gpu-ref", t.TempDir())
	j.Plugins = plugins{backend: &hooked{Backend: builtIn("gpu-ref"), save: func(step int) error {
		if step == 4 {
			return errors.New("no state")
		}
		return nil
	}}}
	_, err := train.Run(t.Context(), j)
	if err == nil || !strings.Contains(err.Error(), "phase phase1: step 4: state of the backend: no state") {
		t.Errorf("%v, want an error that names step 4 of phase1", err)
	}
	if state, why := stateOf(t, j.Dir); state != results.Failed || why != err.Error() {
		t.Errorf("the run is recorded as %s: %s, want failed: %v", state, why, err)
	}
}

// TestContinues: a run is not continued if anything that could change a number differs.
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

// TestDamagedCheckpoint: the checkpoint before is used, and the record says so.
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
