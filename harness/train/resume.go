package train

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"harness.invalid/core/checkpoint"
	"harness.invalid/core/recipe"
	"harness.invalid/results"
)

// maxDifferences is how many differences between two recipes an error lists.
const maxDifferences = 3

// Continues returns an error that says how a recorded run differs from the job, so that neither can pass for the
// other. Settings of the backend count too: they are not in the recipe's fingerprint, but any of them may change
// every number.
func (j *Job) Continues(before *results.Run) error {
	was, is := before.Identity, j.Identity
	var differ []string
	say := func(what, a, b string) {
		if a != b {
			differ = append(differ, fmt.Sprintf("%s %s, now %s", what, a, b))
		}
	}
	sayAll := func(matters func(recipe.Difference) bool) {
		all := slices.DeleteFunc(recipe.Diff(before.Recipe, j.Recipe), func(d recipe.Difference) bool { return !matters(d) })
		for i, d := range all {
			if i == maxDifferences {
				differ = append(differ, fmt.Sprintf("and %d more", len(all)-i))
				return
			}
			say(d.Path, cmp.Or(d.A, "not set"), cmp.Or(d.B, "not set"))
		}
	}
	say("recipe", was.Recipe, is.Recipe)
	if was.Fingerprint != is.Fingerprint {
		say("fingerprint", fmt.Sprintf("%.12s", was.Fingerprint), fmt.Sprintf("%.12s", is.Fingerprint))
		sayAll(func(d recipe.Difference) bool { return d.Identity })
	}
	say("data", fmt.Sprintf("%.12s", was.DataDigest), fmt.Sprintf("%.12s", is.DataDigest))
	if was.Start != is.Start {
		say("start model", fmt.Sprintf("%.12s", cmp.Or(was.Start, "none")), fmt.Sprintf("%.12s", cmp.Or(is.Start, "none")))
	}
	say("backend", was.Backend, is.Backend)
	say("precision", was.Precision, is.Precision)
	say("optimizer", was.Optimizer, is.Optimizer)
	say("seed", fmt.Sprint(was.Seed), fmt.Sprint(is.Seed))
	if !sameSettings(before.Recipe, j) {
		sayAll(func(d recipe.Difference) bool { return strings.HasPrefix(d.Path, "backends."+j.Backend) })
	}
	if len(differ) == 0 {
		return nil
	}
	return fmt.Errorf("run %s is another one (%s): finish it as it was begun, or start in another folder",
		before.Dir, strings.Join(differ, "; "))
}

// sameSettings reports whether the job's backend would run every phase of another recipe with the same settings.
func sameSettings(other *recipe.Recipe, j *Job) bool {
	for i := range j.Recipe.Phases {
		phase := j.Recipe.Phases[i].Name
		// As text, an empty map of options equals a nil one.
		a := fmt.Sprintf("%+v", other.ForBackend(j.Backend, j.Precision, phase))
		b := fmt.Sprintf("%+v", j.Recipe.ForBackend(j.Backend, j.Precision, phase))
		if a != b {
			return false
		}
	}
	return true
}

// begin opens the record, and for a run that is resumed the checkpoint to go on from, if there is one.
func (r *run) begin() (*checkpoint.Checkpoint, error) {
	r.outcome.Started = time.Now().UTC()
	var err error
	if !r.Resume {
		r.record, err = results.Create(r.Dir, r.Identity, r.Recipe, r.Environment)
		return nil, err
	}
	before, err := results.Open(r.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		r.record, err = results.Create(r.Dir, r.Identity, r.Recipe, r.Environment)
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	if err := r.Continues(before); err != nil {
		return nil, err
	}
	c, damaged, err := checkpoint.Latest(before.Checkpoints())
	if errors.Is(err, fs.ErrNotExist) {
		r.record, err = results.Resume(r.Dir, results.Mark{})
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	if err := r.restoreRun(c); err != nil {
		return nil, errors.Join(fmt.Errorf("checkpoint %s: %w", c.Path, err), c.Close())
	}
	for _, d := range damaged {
		r.note("a checkpoint was not used: %v", d)
	}
	return c, nil
}
