package experiment_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"harness.invalid/core/recipe"
	"harness.invalid/harness/experiment"
	"harness.invalid/results"
	"harness.invalid/results/verdict"
)

// scripted is an executor whose runs have the F1 that a script says, by backend and seed, and took ten seconds each
// some time ago.
type scripted struct {
	f1      map[string]func(seed uint64) float64
	size    int
	trained []string
	waves   int
}

func (e *scripted) Wave() int { return e.size }

func (e *scripted) Execute(_ context.Context, s *experiment.Session, plan []experiment.Planned) ([]*results.Run, error) {
	var runs []*results.Run
	e.waves++
	for _, p := range plan {
		dir := filepath.Join(s.Dir, p.Name)
		if r, err := results.Open(dir); err == nil && s.Resume {
			runs = append(runs, r)
			continue
		}
		e.trained = append(e.trained, p.Name)
		w, err := results.Create(dir, results.Identity{Recipe: s.Recipe.Name, Fingerprint: s.Recipe.Fingerprint(), DataDigest: "d",
			Backend: p.Spec().String(), Optimizer: "adamw", Seed: p.Seed}, s.Recipe, results.Environment{})
		if err != nil {
			return nil, err
		}
		res := results.Result{Status: results.Complete, Finished: time.Unix(0, 0)}
		res.AddPhase(results.PhaseResult{Name: "squad", Steps: 1, Metrics: results.Metrics{"f1": e.f1[p.Backend](p.Seed)},
			Floors: results.Metrics{"f1": 40}, MeasuredSeconds: map[string]float64{"total": 10}})
		if err := w.Finish(res); err != nil {
			return nil, err
		}
		r, err := results.Open(dir)
		if err != nil {
			return nil, err
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// near is a score that chance moves a little, far one that it moves a lot.
func near(seed uint64) float64 { return 90 + 0.1*float64(seed%3) }
func far(seed uint64) float64  { return 90 + 30*float64(seed%2) - 10*float64(seed%3) }
func lower(seed uint64) float64 {
	return near(seed) - 10 - 0.01*float64(seed)
}

func flat(uint64) float64 { return 90 }
func low(uint64) float64  { return 30 } // less than the floor

// sequential is mini with a sequential plan.
func sequential(t *testing.T, most int) *recipe.Recipe {
	return mini(t, "verdict.plan.kind=sequential", fmt.Sprint("verdict.plan.max_seeds=", most))
}

// TestUntilDecided: seeds are added pair by pair until every arm has a verdict; an arm that has one gets no further.
func TestUntilDecided(t *testing.T) {
	for _, c := range []struct {
		name     string
		backends []string
		f1       map[string]func(uint64) float64
		size     int
		most     int
		noise    bool
		ended    experiment.End
		seeds    map[string]int
	}{
		{"equivalent", []string{"gpu-ref", "ipu"}, map[string]func(uint64) float64{"gpu-ref": flat, "ipu": near}, 1, 0, false,
			experiment.Decided, map[string]int{"gpu-ref": 6, "ipu": 6}},
		{"one arm after the other", []string{"gpu-ref", "ipu", "gpu-ref:bf16"},
			map[string]func(uint64) float64{"gpu-ref": near, "ipu": lower}, 1, 20, false,
			experiment.Decided, map[string]int{"gpu-ref": 8, "gpu-ref:bf16": 6, "ipu": 8}},
		{"never", []string{"gpu-ref", "ipu"}, map[string]func(uint64) float64{"gpu-ref": flat, "ipu": far}, 1, 9, true,
			experiment.AllSeeds, map[string]int{"gpu-ref": 18, "ipu": 9}},
		{"four at once", []string{"gpu-ref", "ipu"}, map[string]func(uint64) float64{"gpu-ref": flat, "ipu": near}, 4, 20, false,
			experiment.Decided, map[string]int{"gpu-ref": 8, "ipu": 8}},
		{"nothing learned", []string{"gpu-ref", "ipu"}, map[string]func(uint64) float64{"gpu-ref": low, "ipu": low}, 1, 20, false,
			experiment.NothingLearned, map[string]int{"gpu-ref": 6, "ipu": 6}},
		{"alone", []string{"gpu-ref"}, map[string]func(uint64) float64{"gpu-ref": flat}, 1, 20, false,
			experiment.AllSeeds, map[string]int{"gpu-ref": 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ex := &scripted{f1: c.f1, size: c.size}
			o, err := experiment.Run(t.Context(), experiment.Experiment{
				Recipe: mini(t), Plan: recipe.Plan{Kind: recipe.SequentialPlan, MaxSeeds: c.most}, Arms: arms(t, c.backends, nil),
				FirstSeed: 5, Noise: c.noise, Dir: t.TempDir(), Executor: ex,
			})
			if err != nil {
				t.Fatal(err)
			}
			seeds, last := map[string]int{}, uint64(0)
			for _, r := range o.Runs {
				seeds[r.Backend]++
				last = max(last, r.Seed)
			}
			if diff := cmp.Diff(c.seeds, seeds); diff != "" || o.Ended != c.ended {
				t.Errorf("it ended %q: %s", o.Ended, diff)
			}
			if c.noise && last != 5+9+9-1 {
				t.Errorf("the last seed is %d, want those of A/A after the 9 of the plan", last)
			}
			comparison, err := o.Compare()
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range comparison.Comparisons {
				if p.Decided() != (c.ended == experiment.Decided) {
					t.Errorf("%s: %s", p.Arm, p.Verdict)
				}
			}
		})
	}
}

// TestBudget: a comparison that is out of budget says what a verdict takes, and goes on with the plan that it was begun
// with, whatever the recipe says meanwhile.
func TestBudget(t *testing.T) {
	ex := &scripted{f1: map[string]func(uint64) float64{"gpu-ref": flat, "ipu": near}, size: 1}
	var compared []experiment.PairCompared
	e := experiment.Experiment{Recipe: sequential(t, 12), Arms: arms(t, []string{"gpu-ref", "ipu"}, nil), FirstSeed: 1,
		Budget: 90 * time.Second, Dir: t.TempDir(), Executor: ex}
	e.Observe = func(ev experiment.Event) {
		if p, ok := ev.(experiment.PairCompared); ok {
			compared = append(compared, p)
		}
	}
	run := func() *experiment.Outcome {
		t.Helper()
		o, err := experiment.Run(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	// A pair takes 20 seconds, and a moment: five more don't fit.
	o := run()
	if len(o.Runs) != 2 || o.Ended != experiment.OutOfBudget || o.Further.Pairs != 5 || o.Further.Time < 125*time.Second {
		t.Fatalf("%d runs, ended %q, further %+v", len(o.Runs), o.Ended, o.Further)
	}
	e.Resume, e.Recipe = true, sequential(t, 20)
	e.Plan.MaxSeeds = 20
	var other *experiment.PlanError
	_, err := experiment.Run(t.Context(), e)
	if !errors.As(err, &other) || !strings.Contains(err.Error(),
		`made with the plan "sequential, at most 12 seeds", and "sequential, at most 20 seeds" is asked for`) {
		t.Fatalf("error %v under another plan", err)
	}
	e.Plan = recipe.Plan{}
	e.Budget = 100*time.Second + time.Minute
	if o = run(); o.Ended != experiment.Decided || len(o.Runs) != 12 || len(ex.trained) != 12 {
		t.Fatalf("resumed: %d runs, ended %q", len(o.Runs), o.Ended)
	}
	if p := o.Runs[11].Recipe.Verdict.Plan; p.MaxSeeds != 12 {
		t.Errorf("the last run has the plan %v, want that of the first", p)
	}
	if len(compared) != 5 || compared[0].Pairs != 2 || compared[4].Difference.Verdict != verdict.Equivalent {
		t.Errorf("compared after %+v", compared)
	}
	// Complete pairs cost nothing.
	e.Budget = time.Nanosecond
	if o = run(); o.Ended != experiment.Decided || len(ex.trained) != 12 {
		t.Errorf("again: ended %q, trained %v", o.Ended, ex.trained)
	}
}

// TestFixedPlan: a fixed plan hands all its seeds to the executor at once, and looks at nothing.
func TestFixedPlan(t *testing.T) {
	ex := &scripted{f1: map[string]func(uint64) float64{"gpu-ref": flat, "ipu": near}, size: 1}
	e := experiment.Experiment{Recipe: mini(t), Plan: recipe.Plan{Kind: recipe.FixedPlan, MaxSeeds: 7},
		Arms: arms(t, []string{"gpu-ref", "ipu"}, nil), FirstSeed: 1, Dir: t.TempDir(), Executor: ex}
	o, err := experiment.Run(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	if len(o.Runs) != 14 || ex.waves != 1 || o.Ended != experiment.AllSeeds {
		t.Errorf("%d runs in %d waves, ended %q", len(o.Runs), ex.waves, o.Ended)
	}
	if !slices.Equal(ex.trained[:4], []string{"gpu-ref-adamw-seed1", "ipu-adamw-seed1", "ipu-adamw-seed2", "gpu-ref-adamw-seed2"}) {
		t.Errorf("trained %v", ex.trained[:4])
	}
	if p := o.Runs[0].Recipe.Verdict.Plan; p != e.Plan {
		t.Errorf("the runs have the plan %v", p)
	}
	// It goes on as it was begun, and a fixed plan of another number is another plan.
	e.Resume, e.Plan.MaxSeeds = true, 9
	var other *experiment.PlanError
	if _, err := experiment.Run(t.Context(), e); !errors.As(err, &other) {
		t.Errorf("error %v under another plan", err)
	}
	e.Plan = recipe.Plan{}
	if o, err = experiment.Run(t.Context(), e); err != nil || len(o.Runs) != 14 || len(ex.trained) != 14 {
		t.Errorf("resumed: %v, trained %d", err, len(ex.trained))
	}
}
