package results

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"

	"harness.invalid/core/recipe"
)

// RunDiff is how two runs differ, from cause to effect.
type RunDiff struct {
	A           string              `json:"a"` // how the runs are called
	B           string              `json:"b"`
	Identity    []FieldDiff         `json:"identity"`
	Recipe      []recipe.Difference `json:"recipe"`
	Environment []FieldDiff         `json:"environment"`
	Plugins     []FieldDiff         `json:"plugins"`
	Results     []FieldDiff         `json:"results"`
	// Parting is the first step at which the runs differ in the bits of a loss, of the gradient's norm, of the loss
	// scale or of the learning rate; nil if none of the steps that both took differs.
	Parting *Parting `json:"parting,omitempty"`
	// Steps is how many steps both took.
	Steps int `json:"steps"`
}

// FieldDiff is a field with its values in two runs, as JSON; "": the run does not have it.
type FieldDiff struct {
	Field string `json:"field"`
	A     string `json:"a"`
	B     string `json:"b"`
}

// Parting is a step at which two runs differ.
type Parting struct {
	Phase    string `json:"phase"`
	Step     int    `json:"step"`
	Quantity string `json:"quantity"`
	A        Number `json:"a"`
	B        Number `json:"b"`
}

// Diff compares two runs, of the same recipe or not. It leaves out times, which always differ, except those of
// phases, which are results.
func Diff(a, b *Run) (*RunDiff, error) {
	d := &RunDiff{A: a.Title(), B: b.Title(), Recipe: recipe.Diff(a.Recipe, b.Recipe)}
	if d.Recipe == nil {
		d.Recipe = []recipe.Difference{}
	}
	var err error
	if d.Identity, err = fieldDiffs(a.Identity, b.Identity); err != nil {
		return nil, err
	}
	env := func(e Environment) Environment {
		e.Plugins, e.Time = nil, e.Time.Truncate(0)
		return e
	}
	if d.Environment, err = fieldDiffs(env(a.Environment), env(b.Environment)); err != nil {
		return nil, err
	}
	d.Environment = slices.DeleteFunc(d.Environment, func(f FieldDiff) bool { return f.Field == "time" })
	plugins := func(r *Run) map[string]Plugin {
		m := map[string]Plugin{}
		for _, p := range r.Environment.Plugins {
			m[p.Kind+" "+p.Name] = p
		}
		return m
	}
	if d.Plugins, err = fieldDiffs(plugins(a), plugins(b)); err != nil {
		return nil, err
	}
	if d.Results, err = fieldDiffs(a.ending(), b.ending()); err != nil {
		return nil, err
	}
	d.Parting, d.Steps, err = parting(a.Steps(), b.Steps())
	return d, err
}

// ending is a run's result without the time of day.
func (r *Run) ending() map[string]any {
	if r.Result == nil {
		return map[string]any{"status": Unfinished}
	}
	m := map[string]any{
		"status": r.Result.Status, "error": r.Result.Error, "notes": strings.Join(r.Result.Notes, "; "),
		"batch_digest": r.Result.BatchDigest, "steps": r.Result.Steps, "skipped": r.Result.Skipped,
		"measured_seconds": r.Result.MeasuredSeconds[TotalSeconds],
	}
	for _, p := range r.Result.Phases {
		for name, v := range p.Metrics {
			m[p.Name+"."+name] = Number(v)
		}
		m[p.Name+".skipped"] = p.Skipped
		m[p.Name+".measured_seconds"] = p.MeasuredSeconds[TotalSeconds]
		if p.Target != nil {
			m[p.Name+".steps_to_target"] = p.Target.Step
		}
	}
	return m
}

// fieldDiffs compares two values field by field, as JSON has them.
func fieldDiffs(a, b any) ([]FieldDiff, error) {
	x, err := Leaves(a)
	if err != nil {
		return nil, err
	}
	y, err := Leaves(b)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(x)
	maps.Copy(all, y)
	diffs := []FieldDiff{}
	for _, f := range slices.Sorted(maps.Keys(all)) {
		if x[f] != y[f] {
			diffs = append(diffs, FieldDiff{f, x[f], y[f]})
		}
	}
	return diffs, nil
}

// Leaves returns the leaves of a value's JSON by their paths. A list is a leaf.
func Leaves(v any) (map[string]string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	leaves := map[string]string{}
	var walk func(path string, text json.RawMessage) error
	walk = func(path string, text json.RawMessage) error {
		if text[0] != '{' {
			leaves[path] = string(text)
			return nil
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(text, &object); err != nil {
			return err
		}
		for key, value := range object {
			if path != "" {
				key = path + "." + key
			}
			if err := walk(key, value); err != nil {
				return err
			}
		}
		return nil
	}
	return leaves, walk("", text)
}

// parting goes through the steps of two runs side by side.
func parting(a, b iter.Seq2[Step, error]) (*Parting, int, error) {
	next, stop := iter.Pull2(b)
	defer stop()
	n := 0
	for x, err := range a {
		if err != nil {
			return nil, n, err
		}
		y, err, ok := next()
		if err != nil || !ok {
			return nil, n, err
		}
		if x.Phase != y.Phase || x.Step != y.Step {
			return &Parting{Phase: x.Phase, Step: x.Step, Quantity: fmt.Sprintf("the other run is at %s step %d", y.Phase, y.Step)}, n, nil
		}
		for _, name := range slices.Sorted(maps.Keys(x.Metrics)) {
			if v, ok := y.Metrics[name]; ok && math.Float64bits(v) != math.Float64bits(x.Metrics[name]) {
				return &Parting{x.Phase, x.Step, name, Number(x.Metrics[name]), Number(v)}, n, nil
			}
		}
		for _, q := range []struct {
			name string
			a, b Number
		}{{"gradient_norm", x.GradientNorm, y.GradientNorm}, {"loss_scale", x.LossScale, y.LossScale},
			{"learning_rate", x.LearningRate, y.LearningRate}} {
			if math.Float64bits(float64(q.a)) != math.Float64bits(float64(q.b)) {
				return &Parting{x.Phase, x.Step, q.name, q.a, q.b}, n, nil
			}
		}
		n++
	}
	return nil, n, nil
}
