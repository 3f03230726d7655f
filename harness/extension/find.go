package extension

import (
	"errors"
	"fmt"
	"slices"

	"harness.invalid/core/plugin"
	"harness.invalid/core/spelling"
	"harness.invalid/harness/catalog"
)

// Kinds are the kinds of plugins.
var Kinds = []plugin.Kind{plugin.Backend, plugin.Optimizer}

// ParseKind reads the name of a kind.
func ParseKind(name string) (plugin.Kind, error) {
	known := []string{string(plugin.Backend), string(plugin.Optimizer)}
	if !slices.Contains(known, name) {
		return "", fmt.Errorf("the kind of a plugin is %q, want %s or %s%s", name, plugin.Backend, plugin.Optimizer, spelling.Hint(name, known))
	}
	return plugin.Kind(name), nil
}

// Find finds the one plugin of the name, of a kind or, for "", of any.
func Find(kind, name string) (catalog.Entry, error) {
	kinds := Kinds
	if kind != "" {
		k, err := ParseKind(kind)
		if err != nil {
			return catalog.Entry{}, err
		}
		kinds = []plugin.Kind{k}
	}
	var found []catalog.Entry
	var unknown, unfit []error
	for _, k := range kinds {
		e, err := catalog.Find(k, name)
		switch {
		case err == nil:
			found = append(found, e)
		case slices.Contains(catalog.Names(k), name): // it exists, but can't be started
			unfit = append(unfit, err)
		default:
			unknown = append(unknown, err)
		}
	}
	switch len(found) {
	case 0:
		if unfit != nil {
			return catalog.Entry{}, errors.Join(unfit...)
		}
		return catalog.Entry{}, errors.Join(unknown...)
	case 1:
		return found[0], nil
	}
	return catalog.Entry{}, fmt.Errorf("a %s and an %s are named %q: say which with --kind", found[0].Kind, found[1].Kind, name)
}
