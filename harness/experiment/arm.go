package experiment

import (
	"fmt"
	"slices"
	"strings"

	"harness.invalid/core/recipe"
	"harness.invalid/results"
)

// Arm is one side of a comparison: a backend in a precision, with an optimizer, each with options of its own.
type Arm struct {
	Backend   string
	Precision string         // empty: the recipe's, or else the backend's default
	Options   recipe.Options // of the backend; they override the recipe's
	Optimizer string         // a recipe.Spec; empty: the recipe's, which may differ from phase to phase
}

// ParseArm returns the arm of a backend and an optimizer, each written as a recipe.Spec. The optimizer may be empty.
func ParseArm(backend, optimizer string) (Arm, error) {
	b, err := recipe.ParseBackend(backend)
	if err != nil {
		return Arm{}, fmt.Errorf("backend %w", err)
	}
	if optimizer != "" {
		o, err := recipe.ParseOptimizer(optimizer)
		if err != nil {
			return Arm{}, fmt.Errorf("optimizer %w", err)
		}
		optimizer = o.String()
	}
	return Arm{b.Name, b.Precision, b.Options, optimizer}, nil
}

// Arms combines each backend with each optimizer, or with the recipe's if there are none.
func Arms(backends, optimizers []string) ([]Arm, error) {
	if len(optimizers) == 0 {
		optimizers = []string{""}
	}
	var arms []Arm
	for _, b := range backends {
		for _, o := range optimizers {
			a, err := ParseArm(b, o)
			if err != nil {
				return nil, err
			}
			arms = append(arms, a)
		}
	}
	return arms, nil
}

// ArmOf returns the arm of recipe r whose runs are recorded under a name.
func ArmOf(r *recipe.Recipe, recorded results.Arm) (Arm, error) {
	a, err := ParseArm(recorded.Backend, recorded.Optimizer)
	if a.Optimizer == optimizerName(r, "") {
		a.Optimizer = ""
	}
	return a, err
}

// Spec is the backend with its precision and options.
func (a Arm) Spec() recipe.Spec {
	return recipe.Spec{Name: a.Backend, Precision: a.Precision, Options: a.Options}
}

// recipe is what the arm trains: recipe r with the options of the arm's backend.
func (a Arm) recipe(r *recipe.Recipe) *recipe.Recipe { return r.WithBackend(a.Spec()) }

// recorded is the arm as it is named in records.
func (a Arm) recorded(r *recipe.Recipe) results.Arm {
	return results.Arm{Backend: a.Spec().String(), Optimizer: optimizerName(r, a.Optimizer)}
}

// optimizerName is the name of an optimizer in records. An empty name means the recipe's optimizers, joined by +.
func optimizerName(r *recipe.Recipe, name string) string {
	if name != "" {
		return name
	}
	var names []string
	for i := range r.Phases {
		if n := r.Phases[i].Optimizer.Name; !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return strings.Join(names, "+")
}

// Planned is one run of an experiment: an arm with a seed.
type Planned struct {
	Arm
	Seed uint64
	Name string // of the run and of its folder in Experiment.Dir
}

func (e *Experiment) planned(a Arm, seed uint64) Planned {
	return Planned{a, seed, fmt.Sprintf("%s-seed%d", a.recorded(e.Recipe).FileName(), seed)}
}

// plan lists the runs of k seeds from the n-th on, seed by seed, so that a comparison that is cut short has whole
// pairs. Every other seed goes through the arms in reverse: if the machine slows down or speeds up over time, it does so
// for all of them. The other seeds of an A/A comparison follow the last seed that there can be.
func (s *Session) plan(arms []Arm, n, k int) []Planned {
	var list []Planned
	for i := n; i < n+k; i++ {
		arms := slices.Clone(arms)
		if i%2 == 1 {
			slices.Reverse(arms)
		}
		for _, a := range arms {
			list = append(list, s.planned(a, s.FirstSeed+uint64(i)))
		}
		if s.Noise {
			list = append(list, s.planned(s.Arms[0], s.FirstSeed+uint64(s.seeds()+i)))
		}
	}
	return list
}
