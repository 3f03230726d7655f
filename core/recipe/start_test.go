package recipe

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestStart: the phases of another recipe, with that recipe's defaults and not with this one's, become part of the
// resolved recipe and of its fingerprint.
func TestStart(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("first.yaml", small+"\ndefaults: {masking: {kind: dynamic}}\n")
	write("other.yaml", strings.ReplaceAll(small, "name: p", "name: q"))
	path := write("warm.yaml", small+"\nstart: {recipe: first.yaml, seed: 3}\n")
	load := func(path string, set ...string) *Recipe {
		t.Helper()
		r, err := Load(path, set...)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := load(path)
	if s := r.Start; s == nil || s.Name != "first" || s.Recipe != "" || s.Seed != 3 || len(s.Phases) != 1 ||
		s.Phases[0].Masking.Kind != DynamicMasking || r.Phases[0].Masking.Kind != StaticMasking {
		t.Errorf("start is %+v", s)
	}
	s := r.StartRecipe()
	if s.Start != nil || s.Name != "small/start" ||
		s.Fingerprint() != load(filepath.Join(dir, "first.yaml")).Fingerprint() {
		t.Errorf("the start model's recipe is %+v", s)
	}
	again := parsed(t, string(written(t, r)))
	again.Name = r.Name
	if diff := cmp.Diff(r, again); diff != "" {
		t.Error(diff)
	}
	if _, err := ParseResolved("r.yaml", []byte(small+"\nstart: {recipe: quick}\n")); err == nil {
		t.Error("a recorded recipe may read another one")
	}
	cold := load(path, "start=")
	if cold.Start != nil || cold.StartRecipe() != nil || cold.Fingerprint() != parsed(t, small).Fingerprint() {
		t.Errorf("without its start model the recipe has %+v", cold.Start)
	}
	if got := load(path, "start.recipe="+filepath.Join(dir, "other.yaml")).Start; got.Name != "other" || len(got.Phases) != 1 {
		t.Errorf("another start is %+v", got)
	}
	for _, set := range []string{"start.seed=4", "start.phases.0.steps=7", "start="} {
		if load(path, set).Fingerprint() == r.Fingerprint() {
			t.Errorf("%s keeps the fingerprint", set)
		}
	}
	for _, set := range []string{"start.phases.0.checkpoint_every=1"} {
		if load(path, set).Fingerprint() != r.Fingerprint() {
			t.Errorf("%s changes the fingerprint", set)
		}
	}
	child := write("child.yaml", "extends: warm.yaml\nstart: {phases: [{name: "+r.Phases[0].Name+", steps: 9}]}\n")
	if got := load(child).Start; got.Phases[0].Steps != 9 || got.Seed != 3 {
		t.Errorf("a recipe that changes the start of another has %+v", got)
	}
}

// TestStartRefused: mistakes name their place.
func TestStartRefused(t *testing.T) {
	dir := t.TempDir()
	warm := filepath.Join(dir, "warm.yaml")
	if err := os.WriteFile(warm, []byte(small+"\nstart: {recipe: glue-rte}\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for start, want := range map[string]string{
		"{recipe: quikc}":                 "start.recipe: no recipe is named \"quikc\", did you mean quick?",
		"{recipe: " + warm + "}":          "starts from a model itself",
		"{recipe: [a]}":                   "start.recipe",
		"{recipe: scratch, sed: 1}":       `unknown key "sed" in start, did you mean seed?`,
		"{recipe: scratch, seed: -1}":     "start.seed: is -1",
		"{seed: 1}":                       "start.phases: is empty",
		"{phases: [{name: a, steps: 1}]}": "start.phases.a",
	} {
		_, err := Parse("r.yaml", []byte(small+"\nstart: "+start+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("start %s: error %v, want %q in it", start, err, want)
		}
	}
}
