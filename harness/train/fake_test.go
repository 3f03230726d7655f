package train_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/checkpoint"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/recipe"
	"harness.invalid/core/tensor"
	"harness.invalid/harness/train"
	gpuref "harness.invalid/plugins/gpu-ref"
	"harness.invalid/plugins/ipu"
	"harness.invalid/plugins/optimizers/adamw"
	"harness.invalid/results"
)

// TestMain uses one thread: small models do not keep two busy, and other packages are tested at the same time. TestBits
// in harness tests that the number of threads changes no bit. The garbage collector runs less often than by default,
// since hundreds of runs leave little garbage each.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// plugins run in the process of the test; the wire has tests of its own.
type plugins struct {
	backend backend.Backend
	updates *[]int // the optimizer's steps; nil: they are not counted
}

func (p plugins) Backend() backend.Backend { return p.backend }

func (p plugins) Optimizer(_ context.Context, name string) (optimizer.Optimizer, error) {
	if name != "adamw" {
		return nil, errors.New("no such optimizer")
	}
	return countedOptimizer{adamw.New(), p.updates}, nil
}

// countedOptimizer notes its steps.
type countedOptimizer struct {
	optimizer.Optimizer
	updates *[]int
}

type countedSession struct {
	optimizer.Session
	updates *[]int
}

func (o countedOptimizer) Open(ctx context.Context, options map[string]string, m optimizer.Memory) (optimizer.Session, error) {
	s, err := o.Optimizer.Open(ctx, options, m)
	return countedSession{s, o.updates}, err
}

func (s countedSession) Step(ctx context.Context, step optimizer.Step) (optimizer.StepResult, error) {
	if s.updates != nil {
		*s.updates = append(*s.updates, step.Step)
	}
	return s.Session.Step(ctx, step)
}

func (p plugins) Allocate(l *tensor.Layout, slots int) (train.Memory, error) {
	m := train.Memory{Layout: l, Params: make([]float32, l.Len()), Grads: make([]float32, l.Len())}
	for range slots {
		m.Slots = append(m.Slots, make([]float32, l.Len()))
	}
	return m, nil
}

// builtIn is a backend by name.
func builtIn(name string) backend.Backend {
	if name == "ipu" {
		return ipu.New()
	}
	return gpuref.New()
}

// hooked is a backend that calls functions at its steps, unless they are nil, and counts commits and sessions.
type hooked struct {
	backend.Backend
	step      func(s backend.Step, m backend.Memory, r *backend.StepResult) error // after the step; nil: nothing
	evaluate  func(step int)                                                      // before an evaluation after so many steps
	save      func(step int) error                                                // before the state is kept after so many steps
	committed func(step int) error                                                // after a commit
	commits   []int
	sessions  int // that are open
}

// Estimate is that of the backend, if it has a model.
func (h *hooked) Estimate(ctx context.Context, p backend.Program, on backend.Machine) (backend.Estimate, error) {
	if e, ok := h.Backend.(backend.Estimator); ok {
		return e.Estimate(ctx, p, on)
	}
	return backend.Estimate{}, backend.ErrUnsupported
}

func (h *hooked) Systems(context.Context) ([]backend.System, error) { return nil, nil }

func (h *hooked) Variations(context.Context, backend.Program, backend.Machine) ([]backend.Variation, error) {
	return nil, nil
}

type hookedSession struct {
	backend.Session
	of     *hooked
	memory backend.Memory
}

func (h *hooked) Open(ctx context.Context, p backend.Program, m backend.Memory) (backend.Session, error) {
	s, err := h.Backend.Open(ctx, p, m)
	if err != nil {
		return nil, err
	}
	h.sessions++
	return &hookedSession{s, h, m}, nil
}

func (s *hookedSession) Step(
	ctx context.Context, step backend.Step, batches iter.Seq2[*bert.Batch, error],
) (backend.StepResult, error) {
	r, err := s.Session.Step(ctx, step, batches)
	if err == nil && s.of.step != nil {
		err = s.of.step(step, s.memory, &r)
	}
	return r, err
}

func (s *hookedSession) Evaluate(
	ctx context.Context, ev backend.Evaluation, batches iter.Seq2[*bert.Batch, error], yield func(backend.Outputs) error,
) (bert.Losses, error) {
	if s.of.evaluate != nil {
		s.of.evaluate(slices.Max(s.of.commits))
	}
	if err := ctx.Err(); err != nil {
		return bert.Losses{}, err
	}
	return s.Session.Evaluate(ctx, ev, batches, yield)
}

func (s *hookedSession) Commit(ctx context.Context, step int) error {
	s.of.commits = append(s.of.commits, step)
	err := s.Session.Commit(ctx, step)
	if err == nil && s.of.committed != nil {
		err = s.of.committed(step)
	}
	return err
}

// Save fails when ctx has ended, as it does over the wire.
func (s *hookedSession) Save(ctx context.Context) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.of.save != nil {
		if err := s.of.save(slices.Max(s.of.commits)); err != nil {
			return nil, err
		}
	}
	return s.Session.Save(ctx)
}

func (s *hookedSession) Close() error {
	s.of.sessions--
	return s.Session.Close()
}

// experiment is a recipe with its data.
type experiment struct {
	t      *testing.T
	recipe *recipe.Recipe
	data   *train.Data
}

func load(t *testing.T, sets ...string) *experiment {
	t.Helper()
	// The tests evaluate often, so evaluations are small.
	small := []string{"data.generated.dev_questions=6", "defaults.evaluation={batch: 4, sequences: 8}"}
	r, err := recipe.Load("../testdata/mini.yaml", append(small, sets...)...)
	if err != nil {
		t.Fatal(err)
	}
	d, err := train.OpenData(r, t.TempDir(), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return &experiment{t, r, d}
}

// job is a run of the recipe on a backend, NAME or NAME:PRECISION.
func (e *experiment) job(spec, dir string) train.Job {
	name, precision, _ := strings.Cut(spec, ":")
	return train.Job{
		Recipe: e.recipe, Data: e.data, Backend: name, Precision: precision, Seed: 1,
		Plugins: plugins{backend: &hooked{Backend: builtIn(name)}}, Dir: dir,
		Identity: results.Identity{
			Recipe: e.recipe.Name, Fingerprint: e.recipe.Fingerprint(), DataDigest: e.data.Digest,
			Backend: spec, Precision: precision, Optimizer: "adamw", Seed: 1,
		},
	}
}

// run runs a job to its end.
func (e *experiment) run(j train.Job) outcome {
	e.t.Helper()
	if _, err := train.Run(e.t.Context(), j); err != nil {
		e.t.Fatal(err)
	}
	return e.read(j.Dir)
}

// outcome is what a run leaves, without measured times.
type outcome struct {
	steps       []results.Step
	evaluations []results.Evaluation
	result      results.Result
	files       map[string]string
}

func (e *experiment) read(dir string) outcome {
	e.t.Helper()
	r, err := results.Open(dir)
	if err != nil {
		e.t.Fatal(err)
	}
	if r.Result == nil || r.Result.Status != results.Complete {
		e.t.Fatalf("%s: the run is not complete: %+v", dir, r.Result)
	}
	o := outcome{result: *r.Result, files: map[string]string{}}
	for s, err := range r.Steps() {
		if err != nil {
			e.t.Fatal(err)
		}
		s.MeasuredSeconds = nil
		o.steps = append(o.steps, s)
	}
	for v, err := range r.Evaluations() {
		if err != nil {
			e.t.Fatal(err)
		}
		v.MeasuredSeconds, v.TrainingSeconds = 0, 0
		o.evaluations = append(o.evaluations, v)
	}
	o.result.Record = nil // its lines have measured times
	o.result.MeasuredSeconds, o.result.Started, o.result.Finished, o.result.LoadAverage = nil, time.Time{}, time.Time{}, nil
	for i := range o.result.Phases {
		p := &o.result.Phases[i]
		p.MeasuredSeconds, p.PeakMemoryBytes = nil, nil
		if p.Target != nil {
			p.Target.MeasuredSeconds = 0
		}
	}
	c, damaged, err := checkpoint.Latest(r.Checkpoints())
	if err != nil || len(damaged) > 0 {
		e.t.Fatal(err, damaged)
	}
	defer c.Close()
	for _, path := range []string{
		filepath.Join(c.Path, "model.safetensors"), c.ModelFile(), filepath.Join(c.Path, "optimizer.safetensors"),
		filepath.Join(dir, "squad.predictions.json"),
	} {
		text, err := os.ReadFile(path)
		if err != nil {
			e.t.Fatal(err)
		}
		o.files[filepath.Base(path)] = string(text)
	}
	return o
}

// differs says where two outcomes differ; empty: in no bit.
func (o outcome) differs(other outcome) string {
	for name := range o.files {
		if o.files[name] != other.files[name] {
			return name
		}
	}
	for _, part := range []struct {
		name string
		a, b any
	}{{"steps", o.steps, other.steps}, {"evaluations", o.evaluations, other.evaluations}, {"result", o.result, other.result}} {
		// JSON prints numbers so that they read back exactly: equal text means equal bits.
		a, errA := json.Marshal(part.a)
		b, errB := json.Marshal(part.b)
		if errA != nil || errB != nil || string(a) != string(b) {
			return part.name + ":\n" + string(a) + "\n" + string(b)
		}
	}
	return ""
}
