package experiment

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"harness.invalid/core/recipe"
	"harness.invalid/harness/pretrained"
)

// Source names a recipe, what is changed in it, and its data files.
type Source struct {
	Recipe string   // built-in recipe, or path of a YAML file
	Set    []string // overrides of fields, PATH=VALUE
	Data   []string // files, NAME=FILE: text, prepared, vocab, model, TASK.train, TASK.dev; of one name there may be several
}

// SourceError reports a value of a Source or FineTuning that can't be used.
type SourceError struct {
	Field string // set, data or task
	Value string // empty: Err has it
	Err   error
}

func (e *SourceError) Error() string {
	if e.Value == "" {
		return e.Field + ": " + e.Err.Error()
	}
	return e.Field + " " + e.Value + ": " + e.Err.Error()
}

// Unwrap returns the error without the value.
func (e *SourceError) Unwrap() error { return e.Err }

// ErrNoFiles is returned for data files when the recipe generates its data.
var ErrNoFiles = errors.New("generates its own data and reads no files")

// Load reads a recipe and adds the data files. If they include a model to start from, that model decides the shape
// of the network.
func Load(s Source) (*recipe.Recipe, error) {
	r, err := recipe.Load(s.Recipe, s.Set...)
	if err != nil {
		return nil, err
	}
	given := map[string][]string{}
	for _, d := range s.Data {
		name, path, ok := strings.Cut(d, "=")
		if !ok || path == "" {
			return nil, &SourceError{"data", d, errors.New("want NAME=FILE")}
		}
		given[name] = append(given[name], path)
		if err := nameFiles(&r.Data.Files, name, given[name]); err != nil {
			return nil, &SourceError{"data", d, err}
		}
	}
	if len(r.Data.Files.Prepared) > 0 && r.Data.Kind == recipe.FilesData {
		r.Data.Kind = recipe.PreparedData
	}
	if len(s.Data) > 0 && r.Data.Kind == recipe.GeneratedData {
		return nil, &SourceError{"data", "", fmt.Errorf("recipe %s %w", r.Name, ErrNoFiles)}
	}
	return r, useModel(r, s.Set)
}

// useModel takes the shape of the network from the model folder, and refuses overrides of it.
func useModel(r *recipe.Recipe, overrides []string) error {
	if r.Data.Files.Model == "" {
		return nil
	}
	if r.Start != nil {
		return &SourceError{"data", "model=" + r.Data.Files.Model, fmt.Errorf("recipe %s has a model of its own to start from", r.Name)}
	}
	for _, o := range overrides {
		path, _, _ := strings.Cut(o, "=")
		if key, ok := strings.CutPrefix(path, "model."); ok && slices.Contains(pretrained.ShapeKeys(), key) || path == "model" {
			return &SourceError{"set", o, fmt.Errorf("the model folder %s decides on the shape of the model", r.Data.Files.Model)}
		}
	}
	return pretrained.Configure(r)
}
