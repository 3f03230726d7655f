package experiment

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"harness.invalid/core/backend"
	"harness.invalid/core/bounded"
	"harness.invalid/core/emulator"
	"harness.invalid/core/option"
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
		if err := e.setPolicy(*a, string(text)); err != nil {
			return err
		}
	}
	return nil
}

// namePolicy puts the policy that an arm names in place of a precision, gpu-ref:fp8, into the recipe, as ReadPolicies does
// that of a file: one that comes with the program, for a backend that has no such precision and takes policies.
func (e *Experiment) namePolicy(a Arm, info backend.Info) error {
	takes := slices.ContainsFunc(info.Options, func(o option.Option) bool { return o.Name == backend.PolicyOption })
	if _, err := info.Precision(a.Precision); err == nil || !takes || !slices.Contains(emulator.PolicyNames(), a.Precision) {
		return nil
	}
	text, err := emulator.PolicyText(a.Precision)
	if err != nil {
		return err
	}
	return e.setPolicy(a, string(text))
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
