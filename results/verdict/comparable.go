package verdict

import (
	"errors"
	"fmt"
	"strings"

	"harness.invalid/core/recipe"
	"harness.invalid/results"
)

// ErrIncomparable is returned for runs that differ in more than backend, optimizer and seed.
var ErrIncomparable = errors.New("the runs can't be compared")

// comparable returns an error if two runs are of different experiments.
func comparable(a, b *results.Run) error {
	if a.Fingerprint != b.Fingerprint {
		var fields []string
		for _, d := range recipe.Diff(a.Recipe, b.Recipe) {
			if d.Identity {
				fields = append(fields, d.String())
			}
		}
		const most = 10
		if n := len(fields); n > most {
			fields = append(fields[:most], fmt.Sprintf("and %d more", n-most))
		}
		return fmt.Errorf("%w: %s and %s are of different recipes: %s", ErrIncomparable, a.Title(), b.Title(), strings.Join(fields, "; "))
	}
	if a.DataDigest != b.DataDigest {
		return fmt.Errorf("%w: %s and %s saw different data, with digests %.12s and %.12s: give both the same files",
			ErrIncomparable, a.Title(), b.Title(), a.DataDigest, b.DataDigest)
	}
	return nil
}

// ArmRuns are the runs of an arm.
type ArmRuns struct {
	Runs  []*results.Run
	seeds map[uint64]*results.Run
}

// Add adds a run. It returns ErrIncomparable if the run does not belong with those that are there: its backend had
// other settings than the first, or its seed is there already.
func (a *ArmRuns) Add(r *results.Run) error {
	if a.seeds == nil {
		a.seeds = map[uint64]*results.Run{}
	}
	for _, q := range a.Runs[:min(1, len(a.Runs))] {
		if settings := otherSettings(q, r); len(settings) > 0 {
			return fmt.Errorf("%w: %s and %s are both of %s, with different settings: %s",
				ErrIncomparable, q.Title(), r.Title(), r.Arm(), strings.Join(settings, "; "))
		}
	}
	if q, ok := a.seeds[r.Seed]; ok {
		return fmt.Errorf("%w: %s and %s are both of %s with seed %d: leave one out",
			ErrIncomparable, q.Title(), r.Title(), r.Arm(), r.Seed)
	}
	a.Runs = append(a.Runs, r)
	a.seeds[r.Seed] = r
	return nil
}

// otherSettings lists the settings of the backend in which two runs of an arm differ.
func otherSettings(q, r *results.Run) (settings []string) {
	name := recipe.PluginName(r.Backend)
	if q.Recipe != r.Recipe {
		for _, d := range recipe.Diff(q.Recipe, r.Recipe) {
			if strings.HasPrefix(d.Path, "backends."+name+".") || strings.HasPrefix(d.Path, "backends."+name+":") {
				settings = append(settings, d.String())
			}
		}
	}
	if q.Precision != r.Precision {
		settings = append(settings, fmt.Sprintf("precision: %s, %s", q.Precision, r.Precision))
	}
	return settings
}

// noteStarts tells when runs start from different models.
func (c *Comparison) noteStarts(runs []*results.Run) {
	for _, r := range runs {
		if r.Start != c.Start {
			c.Notes = append(c.Notes, fmt.Sprintf("runs start from different models (%.12s and %.12s), trained on other kernels or by "+
				"another version: what the start models differ in is part of every difference", c.Start, r.Start))
			return
		}
	}
}
