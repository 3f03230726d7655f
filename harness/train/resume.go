package train

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"harness.invalid/core/plugin"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/hint"
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

// Changes says how the environment differs from the one in which a recorded run was last trained. It is an error if
// bits may depend on that, unless the job allows it.
func (j *Job) Changes(before *results.Run) ([]string, error) {
	segments, err := before.Segments()
	if err != nil {
		return nil, err
	}
	changes := results.Changes(segments[len(segments)-1].Environment, j.Environment, j.uses)
	if len(changes) == 0 || j.AllowChange {
		return changes, nil
	}
	return nil, hint.With(
		fmt.Errorf("run %s was trained with other bits (%s): finish it where it was begun", before.Dir, strings.Join(changes, "; ")),
		"to accept that its bits change on the way, and that tables say so, add --allow-change")
}

// uses reports whether the job is trained with a plugin.
func (j *Job) uses(p results.Plugin) bool {
	if p.Kind == string(plugin.Backend) {
		return p.Name == j.Backend
	}
	for i := range j.Recipe.Phases {
		if j.Recipe.Phases[i].OptimizerNamed(j.Optimizer).Name == p.Name {
			return true
		}
	}
	return false
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
