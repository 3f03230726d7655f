// Package plantedfaults_test keeps the patches applicable that plant.sh builds into copies of the program.
package plantedfaults_test

import (
	"os/exec"
	"path/filepath"
	"testing"
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
