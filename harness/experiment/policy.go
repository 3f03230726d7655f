package experiment

import (
	"fmt"
	"maps"

	"harness.invalid/core/backend"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/processes"
)

// ReadPolicies reads the files that arms name in place of a precision, gpu-ref:FILE.yaml, and puts each into the recipe
// as the option backend.PolicyOption of that arm's backend: so it goes to the backend, and with the recipe into the
// record. The arm's precision becomes the name of the file without its folder.
func (e *Experiment) ReadPolicies() error {
	for i := range e.Arms {
		a := &e.Arms[i]
		name, text, err := processes.ReadPolicy(a.Precision)
		if err != nil {
			return fmt.Errorf("backend %s: %w", a.Spec(), err)
		}
		a.Precision = name
		if text == "" {
			continue
		}
		if err := e.setPolicy(*a, text); err != nil {
			return err
		}
	}
	return nil
}

// namePolicy puts the policy that an arm names in place of a precision, gpu-ref:fp8, into the recipe, as ReadPolicies does
// that of a file: one that comes with the program, for a backend that has no such precision and takes policies.
func (e *Experiment) namePolicy(a Arm, info backend.Info) error {
	text, err := processes.NamedPolicy(info, a.Precision)
	if err != nil || text == "" {
		return err
	}
	return e.setPolicy(a, text)
}

// setPolicy makes text the option backend.PolicyOption of an arm's backend.
func (e *Experiment) setPolicy(a Arm, text string) error {
	key := a.Spec().Base()
	settings := e.Recipe.Backends[key]
	if before, ok := settings.Options[backend.PolicyOption]; ok && before != text {
		return fmt.Errorf("backend %s: two files of this name, or the recipe, have different number formats: want other names", key)
	}
	settings.Options = maps.Clone(settings.Options)
	if settings.Options == nil {
		settings.Options = recipe.Options{}
	}
	settings.Options[backend.PolicyOption] = text
	changed := *e.Recipe
	changed.Backends = maps.Clone(e.Recipe.Backends)
	if changed.Backends == nil {
		changed.Backends = map[string]recipe.Backend{}
	}
	changed.Backends[key] = settings
	e.Recipe = &changed
	return nil
}
