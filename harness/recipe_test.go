package main

import (
	"strings"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/processes"
	"harness.invalid/harness/train"
	gpuref "harness.invalid/plugins/gpu-ref"
	"harness.invalid/plugins/ipu"
	"harness.invalid/plugins/optimizers/adamw"
	"harness.invalid/plugins/optimizers/lamb"
	"harness.invalid/plugins/optimizers/sgd"
)

// TestBuiltinRecipes asks the built-in plugins what they say to the built-in recipes: every option is one of theirs,
// with a value that they take, and every phase can be modelled on the system that it names, and fits there.
func TestBuiltinRecipes(t *testing.T) {
	backends := map[string]backend.Backend{"ipu": ipu.New(), "gpu-ref": gpuref.New()}
	optimizers := map[string]optimizer.Optimizer{"adamw": adamw.New(), "lamb": lamb.New(), "sgd": sgd.New()}
	modelled := 0
	for _, name := range recipe.Names() {
		r, err := recipe.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range r.Phases {
			p := &r.Phases[i]
			for _, o := range append([]string{""}, keys(p.Alternatives)...) {
				u := p.OptimizerNamed(o)
				if _, err := optimizers[u.Name].Slots(t.Context(), u.Options); err != nil {
					t.Errorf("%s, phase %s: %v", name, p.Name, err)
				}
			}
			for spec := range r.Backends {
				base, precision, _ := strings.Cut(spec, ":")
				settings := r.ForBackend(base, precision, p.Name)
				info, err := backends[base].Describe(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if err := processes.Takes(info, settings); err != nil {
					t.Errorf("%s, phase %s: %v", name, p.Name, err)
					continue
				}
				if settings.Options["system"] == "" {
					continue // a recipe for no machine in particular
				}
				program, err := r.Program(p, base, precision, 1000, 1)
				if err != nil {
					t.Errorf("%s, %s: %v", name, spec, err)
					continue
				}
				cost, err := train.Cost(t.Context(), optimizers[p.Optimizer.Name], p.Optimizer, program)
				if err != nil {
					t.Errorf("%s, phase %s, %s: %v", name, p.Name, spec, err)
					continue
				}
				e, err := backends[base].(backend.Estimator).Estimate(t.Context(), program, backend.Machine{Update: cost})
				if err != nil {
					t.Errorf("%s, phase %s, %s: %v", name, p.Name, spec, err)
					continue
				}
				modelled++
				// What was published did run. The model of the memory is not exact: within 15%.
				for _, d := range e.Memory {
					if float64(d.Total()) > 1.15*float64(d.Bytes) {
						t.Errorf("%s, phase %s, %s: %v", name, p.Name, spec, e.Err())
						break
					}
				}
			}
		}
	}
	if modelled < 60 {
		t.Errorf("only %d phases were modelled", modelled)
	}
}

func keys[V any](m map[string]V) []string {
	var list []string
	for k := range m {
		list = append(list, k)
	}
	return list
}
