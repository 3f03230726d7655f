package train_test

import (
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/checkpoint/safetensors"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/option"
	"harness.invalid/harness/train"
	"harness.invalid/plugins/optimizers/adamw"
	"harness.invalid/plugins/optimizers/sam"
	"harness.invalid/plugins/optimizers/schedulefree"
	"harness.invalid/plugins/optimizers/shampoo"
)

// ruled are plugins with an optimizer other than AdamW.
type ruled struct {
	plugins
	rule optimizer.Optimizer
}

func (r ruled) Optimizer(context.Context, string) (optimizer.Optimizer, error) { return r.rule, nil }

// withDefault is a built-in rule with another default of an option.
func withDefault(o optimizer.Optimizer, name, value string) optimizer.Optimizer {
	r := o.(optimizer.Rule)
	r.Info.Options = slices.Clone(r.Info.Options)
	i := slices.IndexFunc(r.Info.Options, func(o option.Option) bool { return o.Name == name })
	r.Info.Options[i].Default = value
	return r
}

// call is a call to a backend's session, with the parameters that it saw.
type call struct {
	what   string // step, commit, evaluate
	step   int
	params []float32
}

// noting is a backend that notes calls. after may change the result of a step; n counts the calls of Step.
type noting struct {
	backend.Backend
	calls []call
	after func(n int, r *backend.StepResult)
}

type notingSession struct {
	backend.Session
	of     *noting
	params []float32
}

func (b *noting) Open(ctx context.Context, p backend.Program, m backend.Memory) (backend.Session, error) {
	s, err := b.Backend.Open(ctx, p, m)
	return &notingSession{s, b, m.Params}, err
}

func (s *notingSession) note(what string, step int) {
	s.of.calls = append(s.of.calls, call{what, step, slices.Clone(s.params)})
}

func (s *notingSession) Step(
	ctx context.Context, step backend.Step, batches iter.Seq2[*bert.Batch, error],
) (backend.StepResult, error) {
	s.note("step", step.Step)
	r, err := s.Session.Step(ctx, step, batches)
	if s.of.after != nil {
		s.of.after(len(s.of.of("step")), &r)
	}
	return r, err
}

func (s *notingSession) Commit(ctx context.Context, step int) error {
	err := s.Session.Commit(ctx, step)
	s.note("commit", step)
	return err
}

func (s *notingSession) Evaluate(
	ctx context.Context, e backend.Evaluation, batches iter.Seq2[*bert.Batch, error], yield func(backend.Outputs) error,
) (bert.Losses, error) {
	s.note("evaluate", 0)
	return s.Session.Evaluate(ctx, e, batches, yield)
}

// of returns the calls of a kind.
func (b *noting) of(what string) (calls []call) {
	for _, c := range b.calls {
		if c.what == what {
			calls = append(calls, c)
		}
	}
	return calls
}

// short loads the recipe with few steps. A batch has two micro-batches.
func short(t *testing.T, sets ...string) *experiment {
	few := []string{"phases.phase1.steps=3", "phases.phase2.steps=2", "phases.squad.steps=4", "phases.squad.evaluation.every=2"}
	return load(t, append(few, sets...)...)
}

// with runs the experiment with an optimizer on a backend.
func (e *experiment) with(rule optimizer.Optimizer, spec string, b backend.Backend) outcome {
	e.t.Helper()
	j := e.job(spec, e.t.TempDir())
	j.Plugins = ruled{plugins{backend: b}, rule}
	return e.run(j)
}

// TestSecondGradient: a step of SAM takes two gradients of one batch and commits other parameters between them. With a
// radius of 0 it equals AdamW to the bit, so the second gradient is of the same batch with the same dropout, and the
// parameters are restored.
func TestSecondGradient(t *testing.T) {
	for _, spec := range []string{"gpu-ref", "ipu"} {
		e := short(t, "backends={gpu-ref: {micro_batch: 2, accumulation: 2, replicas: 2}}")
		b := &noting{Backend: builtIn(spec)}
		up := e.with(sam.New(), spec, b)
		steps := b.of("step")
		if len(steps) != 18 {
			t.Fatalf("%s: %d gradients, want two for each of 9 steps", spec, len(steps))
		}
		for i := 0; i < len(steps); i += 2 {
			if steps[i].step != i/2+1 || steps[i+1].step != i/2+1 || slices.Equal(steps[i].params, steps[i+1].params) {
				t.Errorf("%s: gradients of steps %d and %d, want those of step %d at different parameters",
					spec, steps[i].step, steps[i+1].step, i/2+1)
			}
		}
		flat, plain := e.with(withDefault(sam.New(), "rho", "0"), spec, builtIn(spec)), e.with(adamw.New(), spec, builtIn(spec))
		if flat.files["model.safetensors"] != plain.files["model.safetensors"] {
			t.Errorf("%s: SAM with a radius of 0 is not AdamW", spec)
		}
		if up.files["model.safetensors"] == plain.files["model.safetensors"] {
			t.Errorf("%s: the second gradient has no effect", spec)
		}
	}
}

// TestGradientNorm: the optimizer uses the norm of the step's gradients, or of the second ones if there are two.
func TestGradientNorm(t *testing.T) {
	for name, test := range map[string]struct {
		rule  optimizer.Optimizer
		norms []float64
	}{
		"adamw": {adamw.New(), []float64{1, 2, 3}},
		"sam":   {sam.New(), []float64{2, 4, 6}},
	} {
		b := &noting{Backend: builtIn("gpu-ref"), after: func(n int, r *backend.StepResult) { r.GradientNorm = float64(n) }}
		o := short(t).with(test.rule, "gpu-ref", b)
		for i, want := range test.norms {
			if got := float64(o.steps[i].GradientNorm); got != want {
				t.Errorf("%s: norm of step %d is %g, want %g", name, i+1, got, want)
			}
		}
	}
}

// TestSecondGradientSkipped: if the second gradient is not finite there is no update, and the device gets back the
// parameters from before the step.
func TestSecondGradientSkipped(t *testing.T) {
	e := short(t)
	b := &noting{Backend: builtIn("gpu-ref"), after: func(n int, r *backend.StepResult) { r.Finite = r.Finite && n != 4 }}
	o := e.with(sam.New(), "gpu-ref", b)
	if s := o.steps[1]; s.Finite || s.GradientNorm != 0 || !o.steps[2].Finite {
		t.Errorf("step 2 is %+v, want it skipped", s)
	}
	if o.result.Phases[0].Skipped != 1 {
		t.Errorf("%d steps were skipped, want 1", o.result.Phases[0].Skipped)
	}
	steps := b.of("step")
	if !slices.Equal(steps[4].params, steps[2].params) {
		t.Error("step 3 does not begin where step 2 began")
	}
	i := slices.IndexFunc(b.calls, func(c call) bool { return c.what == "step" && c.step == 3 })
	if c := b.calls[i-1]; c.what != "commit" || !slices.Equal(c.params, steps[2].params) {
		t.Errorf("before step 3 comes %s of step %d, want a commit of the parameters of before", c.what, c.step)
	}
}

// TestAverages: evaluations, checkpoints and the next phase get the averaged model of schedule-free AdamW. Training goes
// on at its own parameters, which are restored to the bit.
func TestAverages(t *testing.T) {
	for _, spec := range []string{"gpu-ref", "ipu"} {
		e := short(t)
		b := &noting{Backend: builtIn(spec)}
		o := e.with(schedulefree.New(), spec, b)
		var shown []float32 // what was evaluated last
		evaluations := 0
		for i, c := range b.calls {
			switch c.what {
			case "evaluate":
				trained := b.calls[i-2] // then came the commit of the average
				if c.params = b.calls[i-1].params; slices.Equal(c.params, trained.params) {
					t.Errorf("%s: evaluation at call %d is of the trained parameters", spec, i)
				}
				next := b.calls[min(i+1, len(b.calls)-1)]
				if next.what == "commit" && next.step == 7 && !slices.Equal(next.params, trained.params) {
					t.Errorf("%s: after the evaluation of step 7 training goes on at other parameters", spec)
				}
				shown, evaluations = c.params, evaluations+1
			case "step":
				if c.step == 4 && !slices.Equal(c.params, shown) {
					t.Errorf("%s: phase 2 does not begin with the model of phase 1", spec)
				}
			}
		}
		if evaluations != 4 {
			t.Errorf("%s: %d evaluations, want 4: one after each phase, and one within the last", spec, evaluations)
		}
		// They are the first tensor of the layout.
		if words := savedWords(t, o.files["average.safetensors"]); !slices.Equal(words, shown[:len(words)]) {
			t.Errorf("%s: the last checkpoint's average is not what was evaluated", spec)
		}
		if words := savedWords(t, o.files["model.safetensors"]); slices.Equal(words, shown[:len(words)]) {
			t.Errorf("%s: the last checkpoint has the average in place of the trained parameters", spec)
		}
	}
}

// savedWords are the word embeddings in a safetensors file.
func savedWords(t *testing.T, text string) []float32 {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f.safetensors")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const name = "bert.embeddings.word_embeddings.weight"
	info, _ := f.Tensor(name)
	words := make([]float32, info.Shape.Len())
	if err := f.ReadFloat32s(name, words); err != nil || len(words) == 0 {
		t.Fatalf("%d word embeddings: %v", len(words), err)
	}
	return words
}

// TestExtensionsResumed stops runs in each phase, after steps and around evaluations. They go on with the same bits.
func TestExtensionsResumed(t *testing.T) {
	for name, rule := range map[string]optimizer.Optimizer{
		"sam": sam.New(), "schedule-free-adamw": schedulefree.New(), "shampoo": shampoo.New(),
	} {
		e := short(t)
		whole := e.with(rule, "ipu", builtIn("ipu"))
		for _, stop := range []int{2, 6, 8} {
			ctx, cancel := context.WithCancel(t.Context())
			j := e.job("ipu", t.TempDir())
			j.Plugins = ruled{plugins{backend: builtIn("ipu")}, rule}
			n := 0
			j.Observe = func(train.Event) {
				if n++; n == stop {
					cancel()
				}
			}
			if _, err := train.Run(ctx, j); !errors.Is(err, context.Canceled) {
				t.Fatalf("%s: stopped at event %d: %v", name, stop, err)
			}
			j = e.job("ipu", j.Dir)
			j.Plugins, j.Resume = ruled{plugins{backend: builtIn("ipu")}, rule}, true
			if d := whole.differs(e.run(j)); d != "" {
				t.Errorf("%s: stopped at event %d and resumed: differs in %s", name, stop, d)
			}
			cancel()
		}
	}
}

// once is a backend that does not repeat steps.
type once struct{ backend.Backend }

func (b once) Describe(ctx context.Context) (backend.Info, error) {
	info, err := b.Backend.Describe(ctx)
	info.RepeatsSteps = false
	return info, err
}

func TestBackendThatComputesOnce(t *testing.T) {
	e := short(t)
	j := e.job("gpu-ref", t.TempDir())
	j.Plugins = ruled{plugins{backend: once{builtIn("gpu-ref")}}, sam.New()}
	_, err := train.Run(t.Context(), j)
	if err == nil || !strings.Contains(err.Error(), "needs a second gradient of each batch, and backend gpu-ref does not repeat steps") {
		t.Errorf("error %v, want one that says what the backend lacks", err)
	}
	e.with(schedulefree.New(), "gpu-ref", once{builtIn("gpu-ref")})
}
