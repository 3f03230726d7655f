package index_test

import (
	"path/filepath"
	"testing"
	"time"

	"harness.invalid/core/recipe"
	"harness.invalid/results"
	"harness.invalid/results/index"
)

// TestStates: what an index says of a run without a result is what its folder says now, whatever it was when it was
// entered: a process that is killed enters nothing.
func TestStates(t *testing.T) {
	r, err := recipe.Load("quick")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	id := results.Identity{Recipe: r.Name, Fingerprint: r.Fingerprint(), Backend: "ipu", Optimizer: "adamw"}
	w, err := results.Create(dir, id, r, results.CaptureEnvironment())
	if err != nil {
		t.Fatal(err)
	}
	x, err := index.Open(t.Context(), filepath.Join(t.TempDir(), "index.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	run, err := results.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Put(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	is := func(state results.Status, why, filter string) {
		t.Helper()
		list, err := x.List(t.Context(), filter)
		if err != nil || len(list) != 1 || list[0].Status != state || why != "" && list[0].Error != why {
			t.Errorf("%+v, error %v, want one run that is %s: %s", list, err, state, why)
		}
	}
	is(results.Running, "", "status=running")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	is(results.BrokenOff, "", "status='broken off'")
	if err := w.Stop(results.Stop{Status: results.Stopped, Reason: "signal: interrupt", Time: time.Now()}); err != nil {
		t.Fatal(err)
	}
	is(results.Stopped, "signal: interrupt", "status=stopped")
}
