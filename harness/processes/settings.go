package processes

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"harness.invalid/core/backend"
	"harness.invalid/core/option"
	"harness.invalid/core/recipe"
)

// Precision is what a backend computes in. A policy of one's own goes by the name of its file, and has the widest
// tolerances that the backend's precisions have.
func Precision(info backend.Info, b recipe.Backend) (backend.Precision, error) {
	if b.Options[backend.PolicyOption] == "" {
		p, err := info.Precision(b.Precision)
		if err != nil {
			err = fmt.Errorf("backend %s: %w", info.Name, err)
		}
		return p, err
	}
	own := backend.Precision{Name: cmp.Or(b.Precision, backend.PolicyOption), Doc: "number formats of one's own"}
	for _, p := range info.Precisions {
		own.OutputTolerance = max(own.OutputTolerance, p.OutputTolerance)
		own.GradientTolerance = max(own.GradientTolerance, p.GradientTolerance)
	}
	return own, nil
}

// Takes reports a precision or an option that a backend does not have.
func Takes(info backend.Info, b recipe.Backend) error {
	if len(info.Precisions) == 0 {
		return fmt.Errorf("backend %s: it says that it has no precision at all", info.Name)
	}
	if _, err := Precision(info, b); err != nil {
		return err
	}
	for _, options := range append([]recipe.Options{b.Options}, slices.Collect(maps.Values(b.OptionsByStep))...) {
		if _, err := option.Read(info.Options, options); err != nil {
			return fmt.Errorf("backend %s: %w", info.Name, err)
		}
	}
	return nil
}
