package experiment_test

import (
	"testing"

	"golang.org/x/sync/errgroup"

	"harness.invalid/harness/experiment"
)

// TestSideBySide: experiments that begin in one folder at the same moment make its data one after the other. They used to
// remove each other's temporary files.
func TestSideBySide(t *testing.T) {
	dir := t.TempDir()
	var g errgroup.Group
	for i := range 6 {
		g.Go(func() error {
			ex := &scripted{f1: map[string]func(uint64) float64{"gpu-ref": flat}, size: 1}
			_, err := experiment.Run(t.Context(), experiment.Experiment{
				Recipe: mini(t), Arms: arms(t, []string{"gpu-ref"}, nil), FirstSeed: uint64(i), Seeds: 1, Dir: dir, Executor: ex,
			})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}
