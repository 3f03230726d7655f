package experiment_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"harness.invalid/core/recipe"
	"harness.invalid/harness/experiment"
)

// TestRehearse: a rehearsal leaves nothing, names what a run does, and its disk is that of the run. Its times can't be held
// against those of a run here; that they are of all steps is held by their sums.
func TestRehearse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs")
	t.Setenv("TMPDIR", t.TempDir())
	e := experiment.Experiment{
		Recipe: mini(t, "phases.phase1.steps=40", "phases.phase1.evaluation.every=15"), FirstSeed: 1, Dir: dir,
		Plan: recipe.Plan{Kind: recipe.SequentialPlan, MaxSeeds: 9}, Arms: arms(t, []string{"gpu-ref", "ipu"}, nil),
	}
	r, err := experiment.Rehearse(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("it made the folder of the runs")
	}
	if len(r.Arms) != 2 || r.Start != nil || r.Arms[0].Arm != "gpu-ref" || r.Arms[1].Arm != "ipu" {
		t.Fatalf("arms %+v", r.Arms)
	}
	for _, a := range r.Arms {
		var seconds float64
		for i, p := range a.Phases {
			if p.Phase != e.Recipe.Phases[i].Name || p.Steps != e.Recipe.Phases[i].Steps || p.StepSeconds <= 0 || p.EvaluationSeconds <= 0 {
				t.Errorf("%s: phase %+v", a.Arm, p)
			}
			seconds += float64(p.Steps)*p.StepSeconds + float64(p.Evaluations)*p.EvaluationSeconds
		}
		if a.Phases[0].Evaluations != 3 || a.Seconds < seconds {
			t.Errorf("%s: %d evaluations in phase 1, want 3; %g seconds, want %g or more", a.Arm, a.Phases[0].Evaluations, a.Seconds, seconds)
		}
	}
	first, most := r.Seeds["first look"], r.Seeds["at most"]
	if first.Runs != 12 || most.Runs != 18 || first.Seconds >= most.Seconds {
		t.Errorf("seeds %+v", r.Seeds)
	}
	e.Arms, e.Plan = e.Arms[:1], recipe.Plan{}
	o, err := experiment.Run(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	var size int64
	err = filepath.WalkDir(o.Runs[0].Dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			info, infoErr := d.Info()
			size, err = size+info.Size(), infoErr
		}
		return err
	})
	if got := float64(r.Arms[0].DiskBytes) / float64(size); err != nil || got < 0.9 || got > 1.1 {
		t.Errorf("%d bytes, of %d that the run has (%v)", r.Arms[0].DiskBytes, size, err)
	}
	e.Recipe.Data.Kind, e.Recipe.Data.Files.Text = recipe.FilesData, []string{"nowhere.txt"}
	if _, err := experiment.Rehearse(t.Context(), e); err == nil || !strings.Contains(err.Error(), "needs files that were not given") {
		t.Errorf("error %v", err)
	}
}
