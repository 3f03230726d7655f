package recipe

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

type jsonSchema struct {
	AnyOf                []*jsonSchema          `json:"anyOf"` // a word or a list of words
	Ref                  string                 `json:"$ref"`
	Defs                 map[string]*jsonSchema `json:"$defs"`
	Description          string                 `json:"description"`
	Properties           map[string]*jsonSchema `json:"properties"`
	AdditionalProperties json.RawMessage        `json:"additionalProperties"`
	Enum                 []string               `json:"enum"`
	Items                *jsonSchema            `json:"items"`
}

func readSchema(t *testing.T) *jsonSchema {
	t.Helper()
	var s jsonSchema
	if err := json.Unmarshal(Schema(), &s); err != nil {
		t.Fatal(err)
	}
	return &s
}

// TestSchemaIsComplete: every key of every object is described, and no object takes others.
func TestSchemaIsComplete(t *testing.T) {
	s := readSchema(t)
	objects := maps.Clone(s.Defs)
	objects["document"] = s
	keys := 0
	for name, o := range objects {
		if string(o.AdditionalProperties) != "false" {
			t.Errorf("%s takes any key", name)
		}
		for _, key := range slices.Sorted(maps.Keys(o.Properties)) {
			keys++
			if d := o.Properties[key].Description; len(d) < 10 {
				t.Errorf("%s.%s is described by %q", name, key, d)
			}
		}
	}
	if keys < 70 {
		t.Errorf("%d keys, want all of them", keys)
	}
}

// TestSchemaTakesBuiltin walks the built-in recipes along the schema: every key they use is there, and every word
// is among the choices.
func TestSchemaTakesBuiltin(t *testing.T) {
	s := readSchema(t)
	var walk func(n *node, at *jsonSchema, path string) error
	walk = func(n *node, at *jsonSchema, path string) error {
		if ref, ok := strings.CutPrefix(at.Ref, "#/$defs/"); ok {
			at = s.Defs[ref]
		}
		for _, f := range n.fields {
			next, ok := at.Properties[f.key]
			if !ok {
				var other jsonSchema
				if json.Unmarshal(at.AdditionalProperties, &other) != nil {
					return fmt.Errorf("%s.%s is not in the schema", path, f.key)
				}
				next = &other
			}
			if err := walk(f.value, next, path+"."+f.key); err != nil {
				return err
			}
		}
		if len(n.items) > 0 && len(at.AnyOf) > 0 {
			at = at.AnyOf[len(at.AnyOf)-1]
		}
		for _, item := range n.items {
			if at.Items == nil {
				return fmt.Errorf("%s is a list, which the schema does not know", path)
			}
			if err := walk(item, at.Items, path); err != nil {
				return err
			}
		}
		if n.kind == scalar && at.Enum != nil && !slices.Contains(at.Enum, n.text) {
			return fmt.Errorf("%s is %q, want one of %v", path, n.text, at.Enum)
		}
		return nil
	}
	for _, name := range Names() {
		root, err := newReader(name).resolve(name, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := walk(root, s, name); err != nil {
			t.Error(err)
		}
	}
}
