package series

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"harness.invalid/core/spelling"
	"harness.invalid/harness/hint"
	"harness.invalid/results"
)

// Open reads the records of the runs in and below folders, in the order in which they began. Those of the arm
// baseline, BACKEND or BACKEND/OPTIMIZER, come first.
func Open(folders []string, baseline string) ([]*Record, error) {
	return OpenMeans(folders, baseline, math.MaxInt)
}

// OpenMeans is Open with so many points of steps at most, over all runs: beyond, a point is the mean of neighbours.
func OpenMeans(folders []string, baseline string, most int) ([]*Record, error) {
	runs, err := OpenRuns(folders, baseline)
	if err != nil {
		return nil, err
	}
	every, err := Every(runs, most)
	if err != nil {
		return nil, err
	}
	records := make([]*Record, len(runs))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, run := range runs {
		g.Go(func() (err error) {
			records[i], err = ReadMeans(run, every)
			return err
		})
	}
	return records, g.Wait()
}

// Every is how many steps a point must cover so that the points of all runs are about so many at most.
func Every(runs []*results.Run, most int) (int, error) {
	all := 0
	for _, r := range runs {
		n, err := r.CountSteps()
		if err != nil {
			return 0, err
		}
		all += n
	}
	return 1 + all/most, nil
}

// OpenRuns opens the runs in and below folders, in the order of Open.
func OpenRuns(folders []string, baseline string) ([]*results.Run, error) {
	var dirs []string
	seen := map[string]bool{}
	for _, folder := range folders {
		found, err := results.Find(folder)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: there is no such folder", folder)
		}
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, hint.With(fmt.Errorf("%s: there is no run in the folder or below", folder),
				"a run is a folder with a run.json, as compare and run leave in --out")
		}
		for _, dir := range found {
			if !seen[dir] {
				seen[dir] = true
				dirs = append(dirs, dir)
			}
		}
	}
	runs, err := results.OpenAll(dirs)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(runs, func(a, b *results.Run) int { return a.Environment.Time.Compare(b.Environment.Time) })
	if baseline == "" {
		return runs, nil
	}
	return first(runs, baseline)
}

// first moves the runs of an arm to the front.
func first(runs []*results.Run, arm string) ([]*results.Run, error) {
	is := func(r *results.Run) bool { return r.Arm().String() == arm || r.Backend == arm }
	if !slices.ContainsFunc(runs, is) {
		var arms, words []string
		for _, r := range runs {
			if a := r.Arm().String(); !slices.Contains(arms, a) {
				arms = append(arms, a)
				words = append(words, r.Backend, a)
			}
		}
		return nil, fmt.Errorf("--baseline %s: no run is of that arm%s (there are: %s)", arm, spelling.Hint(arm, words), strings.Join(arms, ", "))
	}
	var front, rest []*results.Run
	for _, r := range runs {
		if is(r) {
			front = append(front, r)
		} else {
			rest = append(rest, r)
		}
	}
	return append(front, rest...), nil
}

// Runs returns the runs of records.
func Runs(records []*Record) []*results.Run {
	runs := make([]*results.Run, len(records))
	for i, r := range records {
		runs[i] = r.Run
	}
	return runs
}
