package dispatch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"harness.invalid/core/kernels"
	"harness.invalid/harness/experiment"
	"harness.invalid/results"
)

// TestOtherCPU: a run that was begun on a processor whose bits this one cannot have waits for such a processor, or starts
// again, and any other run goes on.
func TestOtherCPU(t *testing.T) {
	r, err := experiment.Load(experiment.Source{Recipe: "../testdata/mini.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	const other = "riscv64/vector"
	t.Setenv(levelVariable, "vector") // it was asked for, and is not to be had here
	for _, c := range []struct {
		name, begun        string
		complete, anything bool
		other              OtherCPU
		waits, gone        bool
	}{
		{name: "begun here", begun: kernels.Path(), other: Wait},
		{name: "waits", begun: other, other: Wait, waits: true},
		{name: "starts again", begun: other, other: Restart, gone: true},
		{name: "complete", begun: other, other: Restart, complete: true},
		{name: "change allowed", begun: other, other: Wait, anything: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			w, err := results.Create(dir, results.Identity{Recipe: r.Name, Fingerprint: r.Fingerprint(), Backend: "gpu-ref",
				Precision: "fp32", Optimizer: "adamw", Seed: 1}, r, results.Environment{Kernels: c.begun})
			if err != nil {
				t.Fatal(err)
			}
			if c.complete {
				err = w.Finish(results.Result{Status: results.Complete})
			} else {
				err = w.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			l := list{Experiment: saved{AllowChange: c.anything, Settings: Settings{OtherCPU: c.other}}}
			if err := l.sameKind(dir); errors.Is(err, ErrElsewhere) != c.waits || err != nil && !c.waits {
				t.Errorf("error %v, want it to wait: %v", err, c.waits)
			}
			if _, err := os.Stat(filepath.Join(dir, "run.json")); errors.Is(err, fs.ErrNotExist) != c.gone {
				t.Errorf("the run's record: %v, want it gone: %v", err, c.gone)
			}
		})
	}
}
