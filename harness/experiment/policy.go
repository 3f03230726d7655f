package experiment

import (
	"fmt"
	"maps"
	"path/filepath"

	"harness.invalid/core/backend"
	"harness.invalid/core/bounded"
	"harness.invalid/core/recipe"
)

// mostPolicy is the size of a policy's file that is read.
const mostPolicy = 64 * bounded.KiB

// ReadPolicies reads the files that arms name in place of a precision, gpu-ref:FILE.yaml, and puts each into the recipe
// as the option backend.PolicyOption of that arm's backend: so it goes to the backend, and with the recipe into the
// record. The arm's precision becomes the name of the file without its folder.
func (e *Experiment) ReadPolicies() error {
	for i := range e.Arms {
		a := &e.Arms[i]
		if ext := filepath.Ext(a.Precision); ext != ".yaml" && ext != ".yml" {
			continue
		}
		text, err := bounded.ReadFile(a.Precision, mostPolicy)
		if err != nil {
			return fmt.Errorf("backend %s: number formats: %w", a.Spec(), err)
		}
		a.Precision = filepath.Base(a.Precision)
		key := a.Spec().Base()
		settings := e.Recipe.Backends[key]
		if before, ok := settings.Options[backend.PolicyOption]; ok && before != string(text) {
			return fmt.Errorf("backend %s: two files of this name, or the recipe, have different number formats: want other names", key)
		}
		settings.Options = maps.Clone(settings.Options)
		if settings.Options == nil {
			settings.Options = recipe.Options{}
		}
		settings.Options[backend.PolicyOption] = string(text)
		changed := *e.Recipe
		changed.Backends = maps.Clone(e.Recipe.Backends)
		if changed.Backends == nil {
			changed.Backends = map[string]recipe.Backend{}
		}
		changed.Backends[key] = settings
		e.Recipe = &changed
	}
	return nil
}
