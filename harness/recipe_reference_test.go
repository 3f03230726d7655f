package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"harness.invalid/core/recipe"
)

// TestRecipeReference holds the tables of docs/recipes.md against the schema, which is made from the types: each
// object has a table, each key a row with its default, and there are no others.
func TestRecipeReference(t *testing.T) {
	type object struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	var schema struct {
		object
		Defs map[string]object `json:"$defs"`
	}
	if err := json.Unmarshal(recipe.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	// Two phases say no more than they must, so that all else is a default.
	r, err := recipe.Parse("least.yaml", []byte(`
phases:
- {name: a, length: 64, max_predictions: 8, global_batch: 8, steps: 1, schedule: {learning_rate: 1}, optimizer: {name: adamw}}
- {name: b, task: question_answering, length: 128, global_batch: 8, steps: 1, schedule: {learning_rate: 1}, optimizer: {name: adamw}}`))
	if err != nil {
		t.Fatal(err)
	}
	a, b := &r.Phases[0], &r.Phases[1]
	tables := fieldTables(t)
	for _, o := range []struct {
		heading, def string
		defaults     any // nil: the object is not there unless it is given
	}{
		{"The file", "", r}, {"model", "Model", r.Model}, {"vocab", "Vocab", r.Vocab}, {"data", "Data", r.Data},
		{"data.generated", "Generated", nil},
		{"data.files", "Files", r.Data.Files}, {"data.files.squad", "TaskFiles", r.Data.Files.SQuAD}, {"start", "Start", nil},
		{"phases", "Phase", a},
		{"phases.*.schedule", "Schedule", a.Schedule}, {"phases.*.optimizer", "Optimizer", a.Optimizer},
		{"phases.*.masking", "Masking", a.Masking},
		{"phases.*.question_answering", "QuestionAnswering", b.QuestionAnswering}, {"phases.*.evaluation", "Evaluation", a.Evaluation},
		{"phases.*.target", "Target", nil}, {"backends.NAME", "Backend", nil}, {"counterpart", "Counterpart", nil},
		{"counterpart.backends.NAME", "FullSize", nil}, {"verdict", "Verdict", r.Verdict},
		{"verdict.plan", "Plan", r.Verdict.Plan},
	} {
		rows, ok := tables[o.heading]
		if !ok {
			t.Errorf("docs/recipes.md has no table under the heading %q", o.heading)
			continue
		}
		delete(tables, o.heading)
		properties := schema.Properties
		if o.def != "" {
			properties = schema.Defs[o.def].Properties
			delete(schema.Defs, o.def)
		}
		for key := range properties {
			if _, ok := rows[key]; !ok {
				t.Errorf("docs/recipes.md: %s: %s is missing", o.heading, key)
			}
		}
		for key, said := range rows {
			if _, ok := properties[key]; !ok {
				t.Errorf("docs/recipes.md: %s: a recipe has no %s", o.heading, key)
			}
			if o.defaults == nil || said == "" || said == "required" {
				continue
			}
			if value, ok := valueOf(reflect.ValueOf(o.defaults), key); !ok || fmt.Sprint(value) != strings.Trim(said, "`") {
				t.Errorf("docs/recipes.md: %s: the default of %s is %v, not %s", o.heading, key, value, said)
			}
		}
	}
	for heading := range tables {
		t.Errorf("docs/recipes.md: the table under %q belongs to no object", heading)
	}
	for def := range schema.Defs {
		t.Errorf("docs/recipes.md has no table for %s", def)
	}
}

// fieldTables reads the tables of docs/recipes.md whose first column is a key: by heading and key, what the second
// column says is the default.
func fieldTables(t *testing.T) map[string]map[string]string {
	t.Helper()
	tables := map[string]map[string]string{}
	heading, fields := "", false
	for line := range strings.SplitSeq(document(t, "docs/recipes.md"), "\n") {
		if strings.HasPrefix(line, "#") {
			heading = strings.Trim(line, "# `")
		}
		cells := strings.Split(line, "|")
		switch {
		case len(cells) < 5:
			fields = false
		case strings.TrimSpace(cells[1]) == "Key":
			fields = true
			tables[heading] = map[string]string{}
		case fields && !strings.Contains(cells[1], "---"):
			tables[heading][strings.Trim(cells[1], " `")] = strings.TrimSpace(cells[2])
		}
	}
	return tables
}

// valueOf finds the value of a key of a recipe's object.
func valueOf(v reflect.Value, key string) (any, bool) {
	v = reflect.Indirect(v)
	for i := range v.NumField() {
		name, rest, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		if rest == "inline" {
			if value, ok := valueOf(v.Field(i), key); ok {
				return value, true
			}
		} else if name == key {
			return v.Field(i).Interface(), true
		}
	}
	return nil, false
}
