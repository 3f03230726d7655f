package experiment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"harness.invalid/core/plugin"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/catalog"
	"harness.invalid/harness/processes"
)

// Validate asks the plugins that a recipe names whether they accept its settings. Plugins that are not installed
// are listed in notes, as another machine may have them. The pool's processes have ended when it returns.
func Validate(ctx context.Context, pool *processes.Pool, r *recipe.Recipe) (notes []string, err error) {
	defer func() { err = errors.Join(err, pool.Close()) }()
	here := catalog.Names(plugin.Backend)
	for _, spec := range slices.Sorted(maps.Keys(r.Backends)) {
		a, err := ParseArm(spec, "")
		if err != nil {
			return nil, err
		}
		if !slices.Contains(here, a.Backend) {
			notes = append(notes, fmt.Sprintf("backend %s is not installed here, and was not asked", a.Backend))
			continue
		}
		info, err := pool.Backend(ctx, a.Backend)
		if err != nil {
			return nil, err
		}
		for i := range r.Phases {
			phase := r.Phases[i].Name
			if err := processes.Takes(info, r.ForBackend(a.Backend, a.Precision, phase)); err != nil {
				return nil, fmt.Errorf("phase %s: %w", phase, err)
			}
		}
	}
	here = catalog.Names(plugin.Optimizer)
	asked := map[string]bool{}
	for i := range r.Phases {
		p := &r.Phases[i]
		for _, name := range append([]string{p.Optimizer.Name}, slices.Sorted(maps.Keys(p.Alternatives))...) {
			u := p.OptimizerNamed(name)
			key := fmt.Sprint(u.Name, u.Options)
			switch {
			case asked[key]:
			case !slices.Contains(here, name):
				notes = append(notes, fmt.Sprintf("optimizer %s is not installed here, and was not asked", name))
			default:
				if err := pool.Optimizer(ctx, u, ""); err != nil {
					return nil, fmt.Errorf("phase %s: %w", p.Name, err)
				}
			}
			asked[key] = true
		}
	}
	return notes, nil
}
