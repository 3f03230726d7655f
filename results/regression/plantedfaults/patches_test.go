// Package plantedfaults_test keeps the patches applicable that plant.sh and power.sh build into copies of the program, and
// probe.yaml a part of quick.
package plantedfaults_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harness.invalid/core/recipe"
)

// TestPatches: every fault still applies to the code that it is planted in.
func TestPatches(t *testing.T) {
	if _, err := exec.LookPath("patch"); err != nil {
		t.Skip("no patch(1) here")
	}
	patches, err := filepath.Glob("*.patch")
	if err != nil || len(patches) != 4 {
		t.Fatalf("patches %v, %v, want 4", patches, err)
	}
	for _, name := range patches {
		cmd := exec.CommandContext(t.Context(), "patch", "-p1", "--dry-run", "--batch", "--forward", "-i",
			filepath.Join("results", "regression", "plantedfaults", name))
		cmd.Dir = filepath.Join("..", "..", "..")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// TestProbe: probe.yaml is the beginning of quick, from the same start model and with the same verdict, so that its runs
// have the bits of quick's.
func TestProbe(t *testing.T) {
	probe, err := recipe.Load("probe.yaml")
	if err != nil {
		t.Fatal(err)
	}
	quick, err := recipe.Load("quick")
	if err != nil {
		t.Fatal(err)
	}
	if probe.StartRecipe().Fingerprint() != quick.StartRecipe().Fingerprint() || probe.Start.Seed != quick.Start.Seed {
		t.Error("probe.yaml starts from another model than quick")
	}
	primary := quick.Verdict.Primary
	quick.Name, quick.Doc, quick.Source, quick.Counterpart = probe.Name, probe.Doc, probe.Source, probe.Counterpart
	quick.Phases = quick.Phases[:1]
	quick.Verdict.Margins = map[string]float64{primary: quick.Verdict.Margins[primary]}
	if diff := cmp.Diff(quick, probe); diff != "" {
		t.Errorf("probe.yaml is not the first phase of quick:\n%s", diff)
	}
}
