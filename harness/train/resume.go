package train

import (
	"cmp"
	"encoding/json"
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

// carried is what of a run goes into a checkpoint besides what every checkpoint holds.
type carried struct {
	Digest  []byte         `json:"digest"`  // state of the running batch digest
	Mark    results.Mark   `json:"mark"`    // end of the record
	Result  results.Result `json:"result"`  // of the phases that are over
	Current phaseTotals    `json:"current"` // of the phase under way
}

// maxDifferences is how many differences of two recipes an error tells.
const maxDifferences = 3

// Continues reports in what a run that was recorded is another than the job's, so that neither can be passed off as the other. A setting that
// belongs to the backend alone counts as well: it is no part of the recipe's fingerprint, but it may change every number.
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
	return fmt.Errorf("run %s is another one (%s): finish it as it was begun, or start in another folder", before.Dir, strings.Join(differ, "; "))
}

// sameSettings reports whether a job's backend would have run all phases of another recipe with the same settings.
func sameSettings(other *recipe.Recipe, j *Job) bool {
	for i := range j.Recipe.Phases {
		phase := j.Recipe.Phases[i].Name
		// As text, in which no options are equal to options that are not there.
		if fmt.Sprintf("%+v", other.ForBackend(j.Backend, j.Precision, phase)) != fmt.Sprintf("%+v", j.Recipe.ForBackend(j.Backend, j.Precision, phase)) {
			return false
		}
	}
	return true
}

// begin opens the record and, when the run is to be resumed, the checkpoint that it goes on from.
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
	if err := r.takeOver(c); err != nil {
		return nil, errors.Join(fmt.Errorf("checkpoint %s: %w", c.Path, err), c.Close())
	}
	for _, d := range damaged {
		r.note("a checkpoint was not used: %v", d)
	}
	return c, nil
}

// takeOver reads what a checkpoint says of the run as a whole.
func (r *run) takeOver(c *checkpoint.Checkpoint) error {
	var host carried
	if err := json.Unmarshal(c.Host, &host); err != nil {
		return err
	}
	if c.PhaseIndex >= len(r.Recipe.Phases) {
		return fmt.Errorf("it is of phase %d, the recipe has %d", c.PhaseIndex+1, len(r.Recipe.Phases))
	}
	if err := r.digest.load(host.Digest); err != nil {
		return fmt.Errorf("batch digest: %w", err)
	}
	r.outcome = host.Result
	r.done = c.TotalSteps
	var err error
	r.record, err = results.Resume(r.Dir, host.Mark)
	return err
}
