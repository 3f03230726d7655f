package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/dataset/pretraining"
	"harness.invalid/core/dataset/wikipedia"
	"harness.invalid/core/format"
	"harness.invalid/core/format/oracle"
	"harness.invalid/harness/bench"
	"harness.invalid/harness/benchmark"
	"harness.invalid/harness/estimate"
	"harness.invalid/harness/evaluation"
	"harness.invalid/harness/experiment"
	"harness.invalid/harness/extension"
	"harness.invalid/harness/lockstep"
	"harness.invalid/harness/tuning"
	"harness.invalid/results"
	"harness.invalid/results/index"
	"harness.invalid/results/regression"
	"harness.invalid/results/verdict"
)

var updateJSON = flag.Bool("update-json", false, "write the schemas into docs/json.md")

// rowsOf is a sheet: an array of objects with a key for each column.
type rowsOf []map[string]any

// printed is what each command prints with --format json. A function is in place of a type that a package keeps to itself.
var printed = map[string]any{
	"compare": verdict.Comparison{}, "run": verdict.Comparison{}, "finetune": verdict.Comparison{}, "report": verdict.Comparison{},
	"runs watch":        verdict.Comparison{},
	"compare --dry-run": experiment.Rehearsal{}, "run --dry-run": experiment.Rehearsal{}, "finetune --dry-run": experiment.Rehearsal{},
	"compare --lockstep": lockstep.Record{}, "verdict": verdict.Answer{}, "benchmark": benchmark.Outcome{},
	"benchmark --dry-run": []benchmark.Rehearsed{}, "tune": []tuning.Trial{},
	"predict": predicted{}, "evaluate": evaluation.Report{}, "score": evaluation.Report{}, "score glue": evaluation.RunsScore{},
	"runs list": []index.Entry{}, "runs show": shownRun{}, "runs diff": results.RunDiff{}, "runs export": []index.Entry{},
	"runs tag": []string{}, "runs rm": []removedRun{}, "runs reindex": reindexed{},
	"recipe list": []listedRecipe{}, "recipe show": shownRecipe{}, "recipe diff": rowsOf{}, "recipe validate": []validated{},
	"data fetch": []fetched{}, "data wikipedia": wikipedia.Report{},
	"data prepare": pretraining.Manifest{}, "data verify": verifiedData{}, "vocab train": learned{},
	"tokenize": []int{}, "inspect": weights.Inspection{},
	"estimate": estimate.Record{}, "estimate --recipe": estimate.Records{},
	"bench step": bench.Figure{}, "bench kernels": bench.Figure{}, "bench optimizer": bench.Figure{}, "bench tokenizer": bench.Figure{},
	"bench memory": bench.Figure{}, "bench formats": bench.Figure{}, "bench recipe": recipeFigure{},
	"bench inference": experiment.InferenceReport{}, "bench inference --table": experiment.InferenceCell{},
	"ask":         evaluation.Answer{},
	"plugin list": []extension.Listing{}, "plugin inspect": extension.Description{}, "plugin verify": extension.Verification{},
	"plugin install": extension.Description{}, "plugin uninstall": uninstalled{},
	"formats list": []*format.Format{}, "formats show": format.Format{}, "formats verify": oracle.Report{},
	"check": regression.Check{}, "baseline save": savedBaseline{}, "mlperf": rowsOf{}, "algoperf": rowsOf{}, "version": build{},
}

// withoutJSON are the commands that print no result of their own, and why.
var withoutJSON = map[string]string{
	"serve": "serves pages, or a model", "plot": "writes a picture", "export": "writes files for other programs", "convert": "writes a model",
	"profile":       "writes a trace and pictures; estimate --format json has the numbers",
	"bench machine": "writes a system, a file whose numbers estimate reads", "recipe import": "writes a recipe, in YAML",
	"recipe shrink": "writes a recipe, in YAML", "data pretraining": "prints JSON alone, as the program does that it repeats",
	"runs execute": "trains a run that was submitted",
	"plugin new":   "writes a plugin, and prints commands to run", "plugin run": "serves a plugin", "plugin serve": "serves a plugin",
	"recipe schema": "prints a JSON schema", "formats policy": "prints a policy, in YAML",
}

// TestEveryCommandHasJSON: a command that prints a result takes --format json, and docs/json.md has its schema.
func TestEveryCommandHasJSON(t *testing.T) {
	root := newRoot()
	seen := map[string]bool{}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			visit(sub)
		}
		name := strings.TrimPrefix(c.CommandPath(), "harness ")
		if !c.Runnable() || c == root || name == "help" || strings.HasPrefix(name, "completion") {
			return
		}
		seen[name] = true
		_, documented := printed[name]
		flag := c.Flags().Lookup("format")
		has := flag != nil && strings.Contains(flag.Usage, "json")
		switch {
		case withoutJSON[name] != "" && (has || documented):
			t.Errorf("%s: listed as without JSON, and has it", name)
		case withoutJSON[name] == "" && !has:
			t.Errorf("%s: no --format json", name)
		case withoutJSON[name] == "" && !documented:
			t.Errorf("%s: its JSON is not documented", name)
		}
	}
	visit(root)
	for name := range withoutJSON {
		if !seen[name] {
			t.Errorf("%s is listed, and there is no such command", name)
		}
	}
}

// TestJSONSchemas holds docs/json.md against the types that are printed: go test ./harness -run JSONSchemas -update-json
// writes it.
func TestJSONSchemas(t *testing.T) {
	path := filepath.Join("..", "docs", "json.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- schemas -->\n", "<!-- end of schemas -->"
	before, rest, ok := strings.Cut(string(text), begin)
	had, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no %q and %q", path, begin, end)
	}
	want := schemas()
	if *updateJSON {
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if had != want {
		t.Errorf("%s is not what the commands print: go test ./harness -run JSONSchemas -update-json", path)
	}
}

// schemas has a section for each type, under the commands that print it, and for each larger part of several of them.
func schemas() string {
	commands := map[reflect.Type][]string{}
	for name, v := range printed {
		commands[reflect.TypeOf(v)] = append(commands[reflect.TypeOf(v)], "`"+name+"`")
	}
	w := schemaWriter{uses: map[reflect.Type]int{}}
	for t := range commands {
		w.shape(new(strings.Builder), t, "", nil)
	}
	section := func(title string, t reflect.Type) string {
		var b strings.Builder
		fmt.Fprintf(&b, "\n### %s\n\n```\n", title)
		w.shape(&b, t, "", nil)
		b.WriteString("\n```\n")
		return b.String()
	}
	var sections, parts []string
	w.refer = true
	for t, of := range commands {
		slices.Sort(of)
		sections = append(sections, section(strings.Join(of, ", "), t))
	}
	for t := range w.uses {
		if w.part(t) {
			parts = append(parts, section(partName(t), t))
		}
	}
	slices.Sort(sections)
	slices.Sort(parts)
	return strings.Join(sections, "") + "\n## Parts\n" + strings.Join(parts, "") + "\n"
}

// schemaWriter writes what encoding/json makes of types.
type schemaWriter struct {
	uses  map[reflect.Type]int // of structs within others
	refer bool                 // name parts rather than write them
}

// part reports whether a struct has a section of its own.
func (w *schemaWriter) part(t reflect.Type) bool {
	return t.Name() != "" && w.uses[t] > 1 && t.NumField() > 3
}

func partName(t reflect.Type) string { return strings.ReplaceAll(t.String(), ".", " ") }

// shape writes a type. Keys that may be missing end in a question mark.
func (w *schemaWriter) shape(b *strings.Builder, t reflect.Type, indent string, above []reflect.Type) {
	if t.Kind() == reflect.Pointer {
		w.shape(b, t.Elem(), indent, above)
		return
	}
	marshals := t.Implements(reflect.TypeFor[json.Marshaler]()) || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]())
	switch {
	case t == reflect.TypeFor[time.Time]():
		b.WriteString("time, RFC 3339")
	case t == reflect.TypeFor[evaluation.Report]():
		b.WriteString("{the names of the task's official program: number or null, or an object of such}")
	case t == reflect.TypeFor[rowsOf]():
		b.WriteString("[{the key of each column: string or number}, ...]")
	case marshals && (t.Kind() == reflect.Float64 || t.Kind() == reflect.Float32):
		b.WriteString("number or null")
	case marshals, t.Kind() == reflect.Interface:
		b.WriteString("any")
	case t.Kind() == reflect.Struct:
		if len(above) > 0 {
			if !w.refer {
				w.uses[t]++
			} else if w.part(t) {
				b.WriteString(partName(t))
				return
			}
		}
		if slices.Contains(above, t) {
			b.WriteString("{the same again}")
			return
		}
		b.WriteString("{\n")
		w.members(b, t, indent+"  ", append(slices.Clone(above), t))
		b.WriteString(indent + "}")
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Array:
		b.WriteString("[")
		w.shape(b, t.Elem(), indent, above)
		b.WriteString(", ...]")
	case t.Kind() == reflect.Map:
		b.WriteString("{any key: ")
		w.shape(b, t.Elem(), indent, above)
		b.WriteString("}")
	case t.Kind() == reflect.String, t.Kind() == reflect.Bool:
		b.WriteString(t.Kind().String())
	default:
		b.WriteString("number")
	}
}

func (w *schemaWriter) members(b *strings.Builder, t reflect.Type, indent string, above []reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			w.members(b, inner, indent, above)
			continue
		}
		if name == "-" || !f.IsExported() {
			continue
		}
		if name == "" {
			name = f.Name
		}
		if strings.Contains(options, "omit") {
			name += "?"
		}
		fmt.Fprintf(b, "%s%s: ", indent, name)
		w.shape(b, f.Type, indent, above)
		b.WriteString("\n")
	}
}

// TestJSONOutput: what commands print has the keys of their schemas, and the numbers of their tables.
func TestJSONOutput(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	text := write("text.txt", strings.Repeat("the sea is wide.\nthe hill is high.\n\n", 20))
	vocab := write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nsea\n")
	labels := write("dev.tsv", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n1\tc\td\tnot_entailment\n")
	answers := write("predictions.tsv", "index\tprediction\n0\tentailment\n1\tentailment\n")
	for _, c := range []struct {
		name, args, in string
		both           []string // texts that table and JSON both hold
	}{
		{"version", "version", "", nil},
		{"tokenize", "tokenize --vocab " + vocab, "the sea\n", []string{"5", "6"}},
		{"score", "score rte " + labels + " " + answers, "", []string{"0.5"}},
		{"vocab train", "vocab train --size 60 --text " + text + " --out " + filepath.Join(dir, "learned.txt"), "", nil},
		{"recipe list", "recipe list quick", "", []string{"quick"}},
		{"recipe validate", "recipe validate --no-plugins quick", "", []string{"quick"}},
		{"runs list", "runs list --store " + filepath.Join(dir, "index.db"), "", nil},
		{"runs reindex", "runs reindex --store " + filepath.Join(dir, "index.db") + " " + dir, "", []string{"0"}},
		{"formats list", "formats list", "", []string{"e4m3"}},
	} {
		run := func(extra ...string) string {
			t.Helper()
			var out, errOut bytes.Buffer
			if code := execute(append(strings.Fields(c.args), extra...), strings.NewReader(c.in), &out, &errOut); code != exitOK {
				t.Fatalf("%s %v: exit code %d, %s", c.args, extra, code, errOut.String())
			}
			return out.String()
		}
		table, got := run("--format", formatOf(c.name)), run("--format", "json")
		d := json.NewDecoder(strings.NewReader(got))
		d.DisallowUnknownFields()
		v := reflect.New(reflect.TypeOf(printed[c.name]))
		if _, ok := printed[c.name].(evaluation.Report); ok {
			v = reflect.New(reflect.TypeFor[map[string]any]())
		}
		if err := d.Decode(v.Interface()); err != nil {
			t.Errorf("%s printed %s: %v", c.name, got, err)
		}
		for _, both := range c.both {
			if !strings.Contains(table, both) || !strings.Contains(got, both) {
				t.Errorf("%s: %q is not in both of\n%s\n%s", c.name, both, table, got)
			}
		}
	}
	var out, errOut bytes.Buffer
	if code := execute([]string{"tokenize", "--vocab", vocab, "--format", "xml"}, strings.NewReader(""), &out, &errOut); code != exitError ||
		!strings.Contains(errOut.String(), `--format is "xml", want table or json`) {
		t.Errorf("exit code %d, %s", code, errOut.String())
	}
}

// formatOf is the format of a command that is not JSON.
func formatOf(name string) string {
	if name == "recipe list" {
		return "text"
	}
	return "table"
}
