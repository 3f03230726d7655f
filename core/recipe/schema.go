package recipe

import (
	"embed"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"

	"harness.invalid/core/bert"
	"harness.invalid/core/dataset/tasks"
)

// Schema is the JSON Schema of recipe files, for editors that complete and check YAML. Its descriptions are the
// comments of this package's types.
func Schema() []byte {
	s := schema{docs: fieldDocs(), defs: make(map[string]any)}
	root := s.object(reflect.TypeFor[document]())
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "harness recipe"
	root["$defs"] = s.defs
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic("recipe: the schema can't be written as JSON") // it is maps of text
	}
	return append(text, '\n')
}

//go:embed counterpart.go recipe.go phase.go schedule.go load.go start.go
var sources embed.FS

// choices lists the allowed words of fields, by type and key.
func choices() map[string][]string {
	var kinds, names []string
	for _, t := range bert.Tasks() {
		kinds = append(kinds, string(t))
	}
	for _, m := range metrics {
		names = append(names, m.Name)
	}
	return map[string][]string{
		"Model.size": bert.SizeNames(), "Model.initializer": bert.Initializers(), "Config.hidden_act": {string(bert.GELU),
			string(bert.GELUNew)}, "Data.kind": dataKinds,
		"Phase.task": kinds, "Phase.dataset": tasks.Names(), "Evaluation.metric": names, "Schedule.kind": scheduleKinds,
		"Schedule.batch_scaling": batchScalings, "Masking.kind": {StaticMasking, DynamicMasking}, "Target.metric": names,
		"Plan.kind": planKinds,
	}
}

// modelDocs describes the keys of bert.Config, which are Hugging Face's.
var modelDocs = map[string]string{
	"vocab_size":                   "Rows of the word embeddings; 0: as many as the vocabulary has entries.",
	"hidden_size":                  "Width of the hidden states.",
	"num_hidden_layers":            "Layers of the encoder.",
	"num_attention_heads":          "Heads of each layer; hidden_size is a multiple of it.",
	"intermediate_size":            "Width of the feed-forward layers.",
	"hidden_act":                   "Activation of the feed-forward layers: gelu is the exact form with erf, gelu_new the tanh approximation.",
	"hidden_dropout_prob":          "Dropout of embeddings and of each layer's outputs.",
	"attention_probs_dropout_prob": "Dropout of the attention probabilities.",
	"max_position_embeddings":      "The longest sequence that the model takes.",
	"type_vocab_size":              "Number of segments.",
	"initializer_range":            "Standard deviation of initial weights.",
	"layer_norm_eps":               "Added to the variance in layer normalisations.",
	"attention_mask_value":         "Added to the attention scores of padding.",
}

type schema struct {
	docs map[string]string
	defs map[string]any
}

// of returns the schema of a type.
func (s *schema) of(t reflect.Type) map[string]any {
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Struct:
		if t.Name() == "" {
			return s.object(t)
		}
		if _, ok := s.defs[t.Name()]; !ok {
			s.defs[t.Name()] = nil // ends the recursion of a type that contains itself
			s.defs[t.Name()] = s.object(t)
		}
		return map[string]any{"$ref": "#/$defs/" + t.Name()}
	case reflect.Slice:
		items := map[string]any{"type": "array", "items": s.of(t.Elem())}
		if t.Elem().Kind() == reflect.String {
			return map[string]any{"anyOf": []any{map[string]any{"type": "string"}, items}}
		}
		return items
	case reflect.Map:
		values := s.of(t.Elem())
		if t == reflect.TypeFor[Options]() {
			values = map[string]any{"type": []string{"string", "number", "boolean"}}
		}
		return map[string]any{"type": "object", "additionalProperties": values}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int:
		return map[string]any{"type": "integer"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	}
	return map[string]any{"type": "string"}
}

func (s *schema) object(t reflect.Type) map[string]any {
	properties := make(map[string]any)
	s.properties(t, properties)
	return map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
}

func (s *schema) properties(t reflect.Type, into map[string]any) {
	words := choices()
	for i := range t.NumField() {
		f := t.Field(i)
		key, inline := keyOf(f)
		if inline {
			s.properties(f.Type, into)
			continue
		}
		if key == "" {
			continue // no part of the file
		}
		p := s.of(f.Type)
		if c := words[t.Name()+"."+key]; c != nil {
			p["enum"] = c
		}
		if doc := s.docs[t.Name()+"."+f.Name]; doc != "" {
			if rest, ok := strings.CutPrefix(doc, f.Name+" "); ok {
				doc = key + " " + rest // as recipes spell it
			}
			p["description"] = doc
		} else if t == reflect.TypeFor[bert.Config]() {
			p["description"] = modelDocs[key]
		}
		into[key] = p
	}
}

// fieldDocs reads the comments of all fields in this package's sources, by TYPE.FIELD. A field without a comment
// gets its type's.
func fieldDocs() map[string]string {
	docs, types, typeOf := make(map[string]string), make(map[string]string), make(map[string]string)
	for name, text := range embedded() {
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
		if err != nil {
			panic("recipe: the embedded sources can't be parsed") // they were compiled
		}
		ast.Inspect(file, func(n ast.Node) bool {
			d, ok := n.(*ast.GenDecl)
			if !ok || d.Tok != token.TYPE {
				return true
			}
			for _, spec := range d.Specs {
				t := spec.(*ast.TypeSpec)
				types[t.Name.Name] = flow(d.Doc.Text())
				s, ok := t.Type.(*ast.StructType)
				if !ok {
					continue
				}
				for _, f := range s.Fields.List {
					for _, n := range f.Names {
						field := t.Name.Name + "." + n.Name
						docs[field] = flow(f.Doc.Text() + f.Comment.Text())
						typeOf[field] = typeName(f.Type)
					}
				}
			}
			return false
		})
	}
	for field, t := range typeOf {
		if docs[field] == "" {
			docs[field] = types[t]
		}
	}
	return docs
}

// typeName is the name of a type or of its element type; "" for others.
func typeName(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.Ident:
		return t.Name
	case *ast.StarExpr:
		return typeName(t.X)
	case *ast.ArrayType:
		return typeName(t.Elt)
	}
	return ""
}

// flow joins a comment into one line.
func flow(text string) string { return strings.Join(strings.Fields(text), " ") }

func embedded() map[string][]byte {
	texts := make(map[string][]byte)
	entries, err := sources.ReadDir(".")
	if err != nil {
		panic("recipe: the embedded sources can't be read")
	}
	for _, e := range entries {
		text, err := sources.ReadFile(e.Name())
		if err != nil {
			panic("recipe: the embedded sources can't be read")
		}
		texts[e.Name()] = text
	}
	return texts
}
