package recipe

import (
	"fmt"
	"maps"
	"slices"
)

// Counterpart is the full-size training that a small recipe stands for. It is never trained here: a comparison models
// how long it takes on the machine of each backend, where machine models were checked.
type Counterpart struct {
	// Doc says in a few words what it is.
	Doc string `yaml:"doc" json:"doc"`
	// Backends are its published forms for the machines of backends, by name.
	Backends map[string]FullSize `yaml:"backends" json:"backends"`
}

// FullSize is a training as published for one kind of machine.
type FullSize struct {
	// Recipes are trained one after the other.
	Recipes []string `yaml:"recipes" json:"recipes"`
	// Precision of the backend; empty: the recipes', or else the backend's default.
	Precision string `yaml:"precision,omitempty" json:"precision,omitempty"`
	// System that is modelled; empty: the recipes'.
	System string `yaml:"system,omitempty" json:"system,omitempty"`
}

func (r *Recipe) validateCounterpart() error {
	c := r.Counterpart
	if c == nil {
		return nil
	}
	if c.Doc == "" {
		return wrong(fmt.Errorf("is not given, want a few words such as BERT-Large"), "counterpart", "doc")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Backends)) {
		if len(c.Backends[name].Recipes) == 0 {
			return wrong(fmt.Errorf("is empty, want the names of recipes"), "counterpart", "backends", name, "recipes")
		}
	}
	return nil
}
