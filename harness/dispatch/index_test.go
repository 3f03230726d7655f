package dispatch

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"harness.invalid/harness/executor"
	"harness.invalid/harness/experiment"
	"harness.invalid/results"
	"harness.invalid/results/index"
)

// TestIndexed: the index has the runs of a cluster from their first steps on, and says of each how it ended.
func TestIndexed(t *testing.T) {
	cl := newCluster(3)
	e, _ := comparison(t, cl, 2)
	e.Index = filepath.Join(t.TempDir(), "index.db")
	listed := func() map[results.Status]int {
		states := map[results.Status]int{}
		if err := index.Use(context.Background(), e.Index, func(x *index.Index) error {
			entries, err := x.List(context.Background(), "")
			for _, entry := range entries {
				states[entry.Status]++
			}
			return err
		}); err != nil {
			t.Error(err)
		}
		return states
	}
	writers := map[int]*results.Writer{}
	cl.begin = func(a executor.Array, task int) {
		var l list
		if err := readJSON(filepath.Join(a.Folder, a.Name+listSuffix), &l); err != nil {
			t.Error(err)
			return
		}
		saved, err := l.Experiment.experiment("recipe")
		if err != nil {
			t.Error(err)
			return
		}
		w, err := results.Create(filepath.Join(saved.Dir, l.Runs[task].Name), l.Runs[task].Identity, saved.Recipe, results.Environment{})
		if err == nil {
			err = w.Step(results.Step{Phase: "squad", Step: 1})
		}
		if writers[task] = w; err != nil {
			t.Error(err)
		}
	}
	seen := 0
	cl.train = func(_ executor.Array, task int) error {
		seen = max(seen, listed()[results.Running])
		if task == 3 {
			return errors.Join(writers[task].Stop(results.Stop{Status: results.Failed, Reason: "out of memory", Time: time.Now()}),
				writers[task].Close())
		}
		return writers[task].Finish(results.Result{Status: results.Complete})
	}
	if _, err := experiment.Run(t.Context(), e); err == nil {
		t.Fatal("no error of the run that failed")
	}
	states := listed()
	if seen != 3 || states[results.Complete] != 3 || states[results.Failed] != 1 {
		t.Errorf("%d runs were listed as they trained, want 3; at the end %v, want 3 complete and 1 failed", seen, states)
	}
}
