package experiment_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/durable"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/catalog"
	"harness.invalid/harness/experiment"
	"harness.invalid/harness/hint"
	"harness.invalid/results"
)

// TestMain serves the built-in plugins: the catalog starts this executable again for them.
func TestMain(m *testing.M) {
	if kind, name, ok := catalog.Asked(os.Args); ok {
		if err := catalog.Serve(kind, name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// mini is a recipe of a few steps on a handful of people.
func mini(t *testing.T, set ...string) *recipe.Recipe {
	t.Helper()
	r, err := experiment.Load(experiment.Source{Recipe: "../testdata/mini.yaml", Set: set})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// elsewhere is an executor that notes what it is to train.
type elsewhere struct{ runs []string }

func (e *elsewhere) Execute(_ context.Context, _ *experiment.Session, plan []experiment.Planned) ([]*results.Run, error) {
	for _, p := range plan {
		e.runs = append(e.runs, p.Name)
	}
	return nil, nil
}

func (e *elsewhere) Wave() int { return 1 }

func arms(t *testing.T, backends, optimizers []string) []experiment.Arm {
	t.Helper()
	list, err := experiment.Arms(backends, optimizers)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestPlan: whole pairs, seed by seed, every other one the other way round, and for A/A the first arm again with as
// many further seeds.
func TestPlan(t *testing.T) {
	var got elsewhere
	_, err := experiment.Run(t.Context(), experiment.Experiment{
		Recipe: mini(t), Arms: arms(t, []string{"ipu:fp16.32", "gpu-ref"}, nil), FirstSeed: 7, Seeds: 2, Noise: true,
		Dir: t.TempDir(), Executor: &got,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"ipu-fp16.32-adamw-seed7", "gpu-ref-adamw-seed7", "ipu-fp16.32-adamw-seed9",
		"gpu-ref-adamw-seed8", "ipu-fp16.32-adamw-seed8", "ipu-fp16.32-adamw-seed10",
	}
	if !slices.Equal(got.runs, want) {
		t.Errorf("planned %v, want %v", got.runs, want)
	}
}

// TestStopped: an experiment whose context ends says so, goes on where it was, and has nothing left to do after that.
func TestStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	e := experiment.Experiment{
		Recipe: mini(t, "phases.*.steps=3"), Arms: arms(t, []string{"gpu-ref"}, nil), FirstSeed: 1, Seeds: 2, Dir: t.TempDir(),
	}
	advanced := 0
	e.Observe = func(ev experiment.Event) {
		if _, ok := ev.(experiment.RunAdvanced); ok {
			advanced++
			cancel()
		}
	}
	_, err := experiment.Run(ctx, e)
	var run *experiment.RunError
	if !errors.As(err, &run) || !run.Stopped || run.Run != "gpu-ref-adamw-seed1" || run.Dir != e.Dir || !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v after the context ended", err)
	}
	if advanced != 1 {
		t.Errorf("%d events after the context ended", advanced-1)
	}
	var started, notes []string
	e.Resume = true
	e.Observe = func(ev experiment.Event) {
		switch ev := ev.(type) {
		case experiment.RunStarted:
			started = append(started, ev.Run)
		case experiment.Note:
			notes = append(notes, ev.Text)
		}
	}
	o, err := experiment.Run(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"gpu-ref-adamw-seed1", "gpu-ref-adamw-seed2"}; !slices.Equal(started, want) || len(o.Runs) != len(want) {
		t.Errorf("trained %v, want %v", started, want)
	}
	started, notes = nil, nil
	if _, err := experiment.Run(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if len(started) > 0 || !slices.Contains(notes, "gpu-ref-adamw-seed2: complete") {
		t.Errorf("trained %v again, noted %q", started, notes)
	}
}

// TestRefused: what can't be trained is an error before any training begins.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		arms []experiment.Arm
		want string
	}{
		{nil, "no arm"},
		{arms(t, []string{"gpu-ref", "gpu-ref"}, nil), "gpu-ref with adamw is asked for twice"},
		{arms(t, []string{"gpu-ref", "gpu-reff"}, nil), "did you mean gpu-ref?"},
		{arms(t, []string{"gpu-ref:fp33"}, nil), "did you mean fp32?"},
		{arms(t, []string{"gpu-ref"}, []string{"adam"}), "did you mean adamw?"},
		{arms(t, []string{"gpu-ref", "gpu-ref?loss_scal=1"}, nil), "did you mean loss_scale?"},
		{arms(t, []string{"gpu-ref"}, []string{"adamw", "adamw?weight_deca=0"}), "did you mean weight_decay?"},
		{arms(t, []string{"ipu?stochastic_rounding=false&loss_scale=1", "ipu?loss_scale=1&stochastic_rounding=false"}, nil),
			"ipu?loss_scale=1&stochastic_rounding=false with adamw is asked for twice"},
	} {
		dir := t.TempDir()
		_, err := experiment.Run(t.Context(), experiment.Experiment{Recipe: mini(t), Arms: c.arms, Dir: dir})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want %q in it", c.arms, err, c.want)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%v: left %v, %v", c.arms, left, err)
		}
	}
}

// TestOtherData: all runs in a folder share its data, and no later experiment replaces it.
func TestOtherData(t *testing.T) {
	dir := t.TempDir()
	e := experiment.Experiment{Recipe: mini(t), Arms: arms(t, []string{"gpu-ref"}, nil), Dir: dir, Executor: &elsewhere{}}
	if _, err := experiment.Run(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	read := func() (all []string) {
		for _, name := range []string{"text.txt", "train.json", "dev.json", "vocab.txt"} {
			text, err := os.ReadFile(filepath.Join(dir, "data", name))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, string(text))
		}
		return all
	}
	before := read()
	for _, set := range []string{"data.generated.seed=9", "vocab.size=290", "data.generated.dev_questions=5"} {
		e.Recipe = mini(t, set)
		_, err := experiment.Run(t.Context(), e)
		if !errors.Is(err, durable.ErrDiffers) || !strings.Contains(hint.Of(err), "--out") {
			t.Errorf("%s: error %v, hint %q, want %v", set, err, hint.Of(err), durable.ErrDiffers)
		}
		if !slices.Equal(before, read()) {
			t.Fatalf("%s: the data was changed", set)
		}
	}
	e.Recipe = mini(t)
	if _, err := experiment.Run(t.Context(), e); err != nil {
		t.Errorf("with the same data: %v", err)
	}
}

// TestNothingLeft: an experiment that fails before a step is done leaves no folder, and one that was killed leaves no
// temporary file.
func TestNothingLeft(t *testing.T) {
	bad := mini(t)
	bad.Data.Generated.People = -1
	odd := mini(t)
	odd.Phases[0].Length = 1 << 20 // more than the model has positions for
	good := mini(t)
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		recipe *recipe.Recipe
		dir    string
	}{{bad, ""}, {bad, filepath.Join("a", "b")}, {odd, ""}, {odd, "c"}} {
		_, err := experiment.Run(t.Context(), experiment.Experiment{Recipe: c.recipe, Arms: arms(t, []string{"gpu-ref"}, nil), Dir: c.dir})
		if err == nil {
			t.Fatal("no error")
		}
		if left, _ := os.ReadDir("."); len(left) > 0 {
			t.Errorf("%q: %v left %v", c.dir, err, left)
		}
	}
	killed := filepath.Join("d", "data", ".text.txt.0badcafe.tmp")
	if err := errors.Join(os.MkdirAll(filepath.Dir(killed), 0o777), os.WriteFile(killed, nil, 0o666)); err != nil {
		t.Fatal(err)
	}
	e := experiment.Experiment{Recipe: good, Arms: arms(t, []string{"gpu-ref"}, nil), Dir: "d", Executor: &elsewhere{}}
	if _, err := experiment.Run(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(killed); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there (%v)", killed, err)
	}
}
