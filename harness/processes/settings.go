package processes

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"harness.invalid/core/backend"
	"harness.invalid/core/option"
	"harness.invalid/core/recipe"
	"harness.invalid/core/spelling"
)

// Takes reports a precision or an option that a backend does not have.
func Takes(info backend.Info, b recipe.Backend) error {
	if len(info.Precisions) == 0 {
		return fmt.Errorf("backend %s: it says that it has no precision at all", info.Name)
	}
	var known []string
	for _, p := range info.Precisions {
		known = append(known, p.Name)
	}
	if b.Precision != "" && !slices.Contains(known, b.Precision) {
		return fmt.Errorf("backend %s: no precision is named %q%s (known: %s)",
			info.Name, b.Precision, spelling.Hint(b.Precision, known), strings.Join(known, ", "))
	}
	for _, options := range append([]recipe.Options{b.Options}, slices.Collect(maps.Values(b.OptionsByStep))...) {
		if _, err := option.Read(info.Options, options); err != nil {
			return fmt.Errorf("backend %s: %w", info.Name, err)
		}
	}
	return nil
}
