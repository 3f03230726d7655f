package series

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"harness.invalid/core/spelling"
	"harness.invalid/harness/hint"
	"harness.invalid/results"
)

// Open reads the records of the runs in and below folders, in the order in which they began. Those of the arm
// baseline, BACKEND or BACKEND/OPTIMIZER, come first.
func Open(folders []string, baseline string) ([]*Record, error) {
	var records []*Record
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
			if seen[dir] {
				continue
			}
			seen[dir] = true
			run, err := results.Open(dir)
			if err != nil {
				return nil, err
			}
			r, err := Read(run)
			if err != nil {
				return nil, err
			}
			records = append(records, r)
		}
	}
	SortByStart(records)
	if baseline == "" {
		return records, nil
	}
	return first(records, baseline)
}

// first moves the records of an arm to the front.
func first(records []*Record, arm string) ([]*Record, error) {
	is := func(r *Record) bool { return r.Arm().String() == arm || r.Backend == arm }
	if !slices.ContainsFunc(records, is) {
		var arms, words []string
		for _, r := range records {
			if a := r.Arm().String(); !slices.Contains(arms, a) {
				arms = append(arms, a)
				words = append(words, r.Backend, a)
			}
		}
		return nil, fmt.Errorf("--baseline %s: no run is of that arm%s (there are: %s)", arm, spelling.Hint(arm, words), strings.Join(arms, ", "))
	}
	var front, rest []*Record
	for _, r := range records {
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
