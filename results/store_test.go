package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"harness.invalid/core/durable"
	"harness.invalid/core/recipe"
)

func quick(t testing.TB) *recipe.Recipe {
	t.Helper()
	r, err := recipe.Load("scratch")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func identity(r *recipe.Recipe) Identity {
	return Identity{Recipe: r.Name, Fingerprint: r.Fingerprint(), DataDigest: "d1", Backend: "ipu:fp16.16", Precision: "fp16.16",
		Optimizer: "adamw", Seed: 1<<64 - 1}
}

func step(n int, loss float64) Step {
	return Step{Phase: "phase1", Step: n, TotalStep: n, Metrics: Metrics{"loss": loss}, LearningRate: 1e-3, LossScale: 4096,
		Finite: !math.IsNaN(loss), GradientNorm: Number(loss), Sequences: 32,
		MeasuredSeconds: map[string]float64{"total": 0.25, "backend.forward": 0.1}}
}

var numbers = cmp.Transformer("float64", func(n Number) float64 { return float64(n) })

func collect[T any](t *testing.T, seq iter.Seq2[T, error]) []T {
	t.Helper()
	var all []T
	for v, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

// TestWriteAndOpen: a run reads back as it was written, including losses that are not numbers.
func TestWriteAndOpen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs", "one")
	r := quick(t)
	id := identity(r)
	env := CaptureEnvironment(Plugin{
		Kind: "backend", Name: "ipu", Version: "1.0.0", Path: "/bin/harness", SHA256: "ab", Threads: 2, Folder: "/home/me",
		Environment: map[string]string{"GOMAXPROCS": "2"},
	})
	env.Transport = "arena"
	w, err := Create(dir, id, r, env)
	if err != nil {
		t.Fatal(err)
	}
	steps := []Step{step(1, 7.25), step(2, math.NaN()), step(3, math.Inf(1)), step(4, math.Inf(-1)), step(5, 1e-300)}
	for _, s := range steps {
		if err := w.Step(s); err != nil {
			t.Fatal(err)
		}
	}
	evaluation := Evaluation{Phase: "phase1", Step: 5, TotalStep: 5,
		Metrics: Metrics{"masked_lm_loss": math.NaN(), "masked_lm_accuracy": 12.5}, Sequences: 256, MeasuredSeconds: 1, TrainingSeconds: 2}
	if err := w.Evaluation(evaluation); err != nil {
		t.Fatal(err)
	}

	if under, err := Open(dir); err != nil || under.Result != nil || len(collect(t, under.Steps())) != 5 {
		t.Errorf("a run under way: %+v, %v, want 5 steps and no result", under, err)
	}
	result := Result{Status: Complete, BatchDigest: "b", Notes: []string{"a doubt"}}
	result.AddPhase(PhaseResult{Name: "phase1", Steps: 5, Skipped: 3, Sequences: 160, Metrics: evaluation.Metrics,
		MeasuredSeconds: map[string]float64{"training": 2, "total": 3}})
	result.AddPhase(PhaseResult{Name: "phase2", Steps: 2, Sequences: 64, Metrics: Metrics{"masked_lm_accuracy": 50},
		MeasuredSeconds: map[string]float64{"training": 0.5, "total": 1},
		Target:          &Reached{Metric: "masked_lm_accuracy", Value: 40, Step: 2, MeasuredSeconds: 0.5}})
	if err := w.Finish(result); err != nil {
		t.Fatal(err)
	}

	run, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if r := run.Result.Record; r == nil || r.Steps != 5 || r.Evaluations != 1 || len(r.StepsSHA256) != 64 {
		t.Errorf("the end has the mark %+v, want 5 steps and an evaluation", r)
	}
	result.Record = run.Result.Record
	for _, c := range []struct {
		name      string
		got, want any
	}{
		{"identity", run.Identity, id},
		{"environment", run.Environment, env},
		{"recipe", run.Recipe, r},
		{"result", *run.Result, result},
		{"steps", collect(t, run.Steps()), steps},
		{"evaluations", collect(t, run.Evaluations()), []Evaluation{evaluation}},
		{"totals", []any{result.Steps, result.Skipped, result.MeasuredSeconds, result.Phases[1].SequencesPerSecond()},
			[]any{7, 3, map[string]float64{"phase1": 3, "phase2": 1, "total": 4}, 128.0}},
		{"names", result.Metrics, Metrics{"phase1.masked_lm_loss": math.NaN(), "masked_lm_loss": math.NaN(),
			"phase1.masked_lm_accuracy": 12.5, "phase2.masked_lm_accuracy": 50, "masked_lm_accuracy": 50}},
	} {
		if diff := cmp.Diff(c.want, c.got, cmpopts.EquateNaNs(), numbers); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
	}
	if _, err := Create(dir, id, r, env); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second run in the folder: %v, want %v", err, fs.ErrExist)
	}
	if got, err := Find(filepath.Dir(dir)); err != nil || !cmp.Equal(got, []string{dir}) {
		t.Errorf("found %v, %v, want %s", got, err, dir)
	}
}

// TestLinesAreJSON: other programs can read every line, whatever the loss was.
func TestLinesAreJSON(t *testing.T) {
	line, err := json.Marshal(step(1, math.NaN()))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"metrics":{"loss":"NaN"}`, `"gradient_norm":"NaN"`, `"finite":false`, `"loss_scale":4096`} {
		if !bytes.Contains(line, []byte(want)) {
			t.Errorf("%s has no %s", line, want)
		}
	}
	var n Number
	if err := json.Unmarshal([]byte(`"nan"`), &n); err == nil {
		t.Errorf(`"nan" was read as %v`, n)
	}
}

// TestResume cuts a record off at every byte after its last checkpoint and resumes it: the result is as if nothing
// had happened.
func TestResume(t *testing.T) {
	r := quick(t)
	whole := t.TempDir()
	w, err := Create(whole, identity(r), r, Environment{})
	if err != nil {
		t.Fatal(err)
	}
	var mark Mark
	var flushed int64
	for n := 1; n <= 4; n++ {
		if err := w.Step(step(n, float64(n))); err != nil {
			t.Fatal(err)
		}
		if n == 2 {
			if err := errors.Join(w.Evaluation(Evaluation{Step: 2}), w.Sync()); err != nil {
				t.Fatal(err)
			}
			mark = w.Mark()
			info, err := os.Stat(w.Path(stepsFile))
			if err != nil {
				t.Fatal(err)
			}
			flushed = info.Size()
		}
	}
	if err := errors.Join(w.Evaluation(Evaluation{Step: 4}), w.Close()); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(whole, stepsFile))
	if err != nil {
		t.Fatal(err)
	}
	torn := t.TempDir()
	if err := os.CopyFS(torn, os.DirFS(whole)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(torn, stepsFile)
	for end := flushed; end <= int64(len(want)); end += 7 {
		if err := os.WriteFile(path, want[:end], 0o666); err != nil {
			t.Fatal(err)
		}
		run, err := Open(torn)
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.Count(want[:end], []byte("\n"))
		if got := collect(t, run.Steps()); len(got) != lines {
			t.Fatalf("%d bytes: read %d steps, want the %d that are whole", end, len(got), lines)
		}
		w, err := Resume(torn, mark)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Mark(); got != mark {
			t.Errorf("resumed at %+v, want %+v", got, mark)
		}
		err = errors.Join(w.Step(step(3, 3)), w.Step(step(4, 4)), w.Evaluation(Evaluation{Step: 4}), w.Close())
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("%d bytes: after going on the steps are\n%s\nwant\n%s", end, got, want)
		}
		if got := collect(t, run.Evaluations()); len(got) != 2 || got[1].Step != 4 {
			t.Errorf("evaluations are %+v, want those after steps 2 and 4", got)
		}
	}
}

func TestResumeRemovesResult(t *testing.T) {
	r := quick(t)
	dir := t.TempDir()
	w, err := Create(dir, identity(r), r, Environment{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(Result{Status: Stopped}); err != nil {
		t.Fatal(err)
	}
	if w, err = Resume(dir, Mark{}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if run, err := Open(dir); err != nil || run.Result != nil {
		t.Errorf("a run that was resumed: result %+v, %v", run, err)
	}
}

// TestLocked: a run has one writer at a time, and a writer that is refused changes nothing.
func TestLocked(t *testing.T) {
	r := quick(t)
	dir := t.TempDir()
	w, err := Create(dir, identity(r), r, Environment{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Step(step(1, 1)), w.Sync()); err != nil {
		t.Fatal(err)
	}
	if _, err := Resume(dir, Mark{}); !errors.Is(err, durable.ErrLocked) || !strings.Contains(err.Error(), "another process writes into it") {
		t.Errorf("a second writer: error is %v, want %v", err, durable.ErrLocked)
	}
	if _, err := Create(dir, identity(r), r, Environment{}); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("another run in the folder: error is %v, want %v", err, durable.ErrLocked)
	}
	if run, err := Open(dir); err != nil || len(collect(t, run.Steps())) != 1 {
		t.Errorf("the run that goes on is %+v, %v", run, err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir, identity(r), r, Environment{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("another run in the folder: error is %v, want %v", err, fs.ErrExist)
	}
	if w, err = Resume(dir, w.Mark()); err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(Result{Status: Complete}); err != nil {
		t.Fatal(err)
	}
	if w, err = Resume(dir, Mark{}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestBadFolders(t *testing.T) {
	r := quick(t)
	other, err := recipe.Load("tiny-wiki-squad")
	if err != nil {
		t.Fatal(err)
	}
	var changed strings.Builder
	if err := other.Write(&changed); err != nil {
		t.Fatal(err)
	}
	change := func(name, text string) func(dir string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666) }
	}
	read := func(dir string) error {
		run, err := Open(dir)
		if err != nil {
			return err
		}
		for _, err := range run.Steps() {
			if err != nil {
				return err
			}
		}
		return nil
	}
	for name, c := range map[string]struct {
		change func(dir string) error
		use    func(dir string) error
		want   string
	}{
		"no run":       {func(dir string) error { return os.Remove(filepath.Join(dir, runFile)) }, read, "run.json: no such file"},
		"cut header":   {change(runFile, "{"), read, "run.json: the text ends in the middle of the JSON"},
		"other recipe": {change(recipeFile, changed.String()), read, "recipe.yaml has the fingerprint"},
		"no recipe":    {change(recipeFile, "extends: tiny-wiki-squad\n"), read, "a recorded recipe extends none"},
		"line":         {change(stepsFile, "{}\n{\"step\": \"x\"}\n"), read, "steps.jsonl:2: step is a string, want a whole number"},
		"missing steps": {change(stepsFile, "{}\n{}"), func(dir string) error { _, err := Resume(dir, Mark{Steps: 2}); return err },
			"has 1 whole lines, want at least the 2"},
		"resume nothing": {func(dir string) error { return os.Remove(filepath.Join(dir, runFile)) },
			func(dir string) error { _, err := Resume(dir, Mark{}); return err }, "run.json: no such file"},
	} {
		dir := t.TempDir()
		w, err := Create(dir, identity(r), r, Environment{})
		if err == nil {
			err = errors.Join(w.Close(), c.change(dir))
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := c.use(dir); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: error is %v, want one that names the folder and has %q", name, err, c.want)
		}
	}
}

func TestCaptureEnvironment(t *testing.T) {
	e := CaptureEnvironment()
	if e.OS == "" || e.Arch == "" || e.CPUs < 1 || e.Threads < 1 || !strings.HasPrefix(e.Go, "go") || e.Time.IsZero() {
		t.Errorf("environment %+v lacks something", e)
	}
	if e.OS == "linux" && (e.CPU == "" && e.Arch == "amd64" || e.Memory < 1<<20 || len(e.LoadAverage) != 3) {
		t.Errorf("environment %+v lacks what Linux tells", e)
	}
}
