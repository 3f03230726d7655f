package recipe

import (
	"errors"
	"fmt"
	"slices"
)

// Start is the training of the model that all runs of a recipe start from: phases that are trained once, in FP32 and
// with one seed, on the model, vocabulary and data of the recipe. Each phase of a run begins with the parameters of the
// phase before, or else with those of this model, or else with initial values.
type Start struct {
	// Name is that of the recipe whose phases these are.
	Name string `yaml:"name,omitempty" json:"name,omitempty"`
	// Recipe takes the phases of another recipe: a built-in name, or a path relative to this file. A recipe that has
	// been read has them under phases, and its name under name.
	Recipe string `yaml:"recipe,omitempty" json:"-"`
	// Seed of the training, the same for the runs of all seeds.
	Seed int `yaml:"seed" json:"seed"`
	// Phases of the training. If recipe is given, they change those of that recipe.
	Phases []Phase `yaml:"phases" json:"phases"`
}

func (s *Start) setDefaults() { s.Seed = 1 }

// StartRecipe is the recipe of the model that runs start from; nil: they start from initial values.
func (r *Recipe) StartRecipe() *Recipe {
	if r.Start == nil {
		return nil
	}
	start := *r
	start.Name, start.Doc, start.Source, start.Start = r.Name+"/start", "", "", nil
	start.Phases, start.Backends, start.Verdict = r.Start.Phases, nil, Verdict{}
	return &start
}

// AllPhases are the phases of the runs, and those of the model that they start from.
func (r *Recipe) AllPhases() []Phase {
	if r.Start == nil {
		return r.Phases
	}
	return slices.Concat(r.Phases, r.Start.Phases)
}

// SetLabels names the labels of an open data set in all phases on it, those of the start model included.
func (r *Recipe) SetLabels(dataset string, labels []string) {
	set := func(phases []Phase) {
		for i := range phases {
			if p := &phases[i]; p.Dataset == dataset {
				p.Labels, p.NumLabels = labels, len(labels)
			}
		}
	}
	set(r.Phases)
	if r.Start != nil {
		set(r.Start.Phases)
	}
}

// settleStart settles the phases of the start model.
func (r *Recipe) settleStart() error {
	if r.Start == nil {
		return nil
	}
	if r.Start.Recipe != "" {
		return wrong(errors.New("a recorded recipe takes no phases of another"), "start", "recipe")
	}
	if s := r.Start.Seed; s < 0 || s > 1<<30 {
		return wrong(fmt.Errorf("is %d, want 0 to %d", s, 1<<30), "start", "seed")
	}
	err := r.StartRecipe().settlePhases() // in place
	var f *fieldError
	if errors.As(err, &f) {
		return wrong(f.err, append([]string{"start"}, f.path...)...)
	}
	return err
}

// expandStart replaces the name of a recipe to start from by that recipe's phases. dir is where a path begins.
func (r *reader) expandStart(root *node, dir string, above []string) error {
	start := root.get("start")
	if start == nil {
		return nil
	}
	ref := start.get("recipe")
	if ref == nil || ref.kind == null {
		return nil
	}
	if ref.kind != scalar {
		return ref.pos.errorf("start.recipe is %v, want the name of a recipe", ref.kind)
	}
	if len(above) > maxExtends {
		return ref.pos.errorf("more than %d recipes extend each other or start from each other", maxExtends)
	}
	other, err := r.resolve(ref.text, dir, above)
	if err != nil {
		var inside *Error
		if errors.As(err, &inside) {
			return err
		}
		return ref.pos.errorf("start.recipe: %v", err)
	}
	if s := other.get("start"); s != nil && s.kind != null {
		return ref.pos.errorf("start.recipe: recipe %s starts from a model itself", ref.text)
	}
	phases := other.get("phases")
	if phases == nil || phases.kind != list {
		return ref.pos.errorf("start.recipe: recipe %s has no phases", ref.text)
	}
	other = other.clone()
	applyDefaults(other)
	expanded := &node{kind: object, pos: start.pos, fields: []field{
		{"name", ref.pos, &node{kind: scalar, pos: ref.pos, text: nameOf(ref.text)}},
		{"phases", ref.pos, other.get("phases")},
	}}
	changes := start.without("recipe")
	if changes.name() != "" {
		changes = changes.without("name", "phases") // those of the recipe before
	}
	*start = *mergeAt(expanded, changes, false)
	return nil
}

// applyDefaults merges the defaults of phases into each of them.
func applyDefaults(root *node) {
	phases, defaults := root.get("phases"), root.get("defaults")
	if phases == nil || phases.kind != list || defaults == nil {
		return
	}
	for i, p := range phases.items {
		phases.items[i] = mergeAt(defaults, p, false)
	}
}
