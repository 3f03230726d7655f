package results

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestExamples: files of scores and answers are read as encoding/json reads them, in any order and with any characters,
// and share what they have in common with others.
func TestExamples(t *testing.T) {
	for name, text := range map[string]string{
		"written":   `{"a": "x", "b": "y", "c": "z"}`,
		"shared":    "{\n    \"a\": \"x\",\n    \"b\": \"other\"\n}\n",
		"disorder":  `{"b":"y","a":"x"}`,
		"escapes":   `{"a":"q\"uote\\","b":"\u00e4\u0026","c":"Zürich"}`,
		"twice":     `{"a":"x","a":"y"}`,
		"empty":     `{}`,
		"no key":    `{"\u0061":"x"}`,
		"mismatch":  `{"a":"x","bb":"y","c":"z","d":"w"}`,
		"not":       `{"a":"x"`,
		"no string": `{"a":1}`,
		"more":      `{"a":"x"} {}`,
	} {
		run := &Run{Dir: t.TempDir()}
		like := Examples[string]{IDs: []string{"a", "b", "c"}, Values: []string{"x", "y", "z"}}
		if err := os.WriteFile(filepath.Join(run.Dir, PredictionsFile("p")), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		var want map[string]string
		wrong := json.Unmarshal([]byte(text), &want)
		got, err := run.Answers("p", like)
		if (err == nil) != (wrong == nil) {
			t.Errorf("%s: error %v, want one as %v", name, err, wrong)
		}
		if err != nil {
			continue
		}
		if !slices.IsSorted(got.IDs) || len(got.IDs) != len(want) {
			t.Errorf("%s: %v, want those of %v in order", name, got.IDs, want)
		}
		for i, id := range got.IDs {
			for _, place := range []int{0, i, 100} {
				if v, ok := got.At(id, place); !ok || v != want[id] {
					t.Errorf("%s: %s is %q, want %q", name, id, v, want[id])
				}
			}
		}
		if _, ok := got.At("zz", 0); ok {
			t.Errorf("%s: there is a zz", name)
		}
		if !slices.Equal(like.IDs, []string{"a", "b", "c"}) {
			t.Errorf("%s: the other answers became those of %v", name, like.IDs)
		}
	}
}

// TestScoresAreShared: scores are those of the file, and the next run's have the same IDs in memory.
func TestScoresAreShared(t *testing.T) {
	run := &Run{Dir: t.TempDir()}
	text := `{"exact_match":{"a":100,"b":0},"f1":{"a":100,"b":66.5e0}}`
	if err := os.WriteFile(filepath.Join(run.Dir, ScoresFile("p")), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	first, err := run.Scores("p", nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := run.Scores("p", first)
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(second)); !slices.Equal(got, []string{"exact_match", "f1"}) {
		t.Errorf("metrics %v", got)
	}
	if v, ok := second["f1"].At("b", 1); !ok || v != 66.5 {
		t.Errorf("F1 of b is %g, want 66.5", v)
	}
	if &first["f1"].IDs[0] != &second["f1"].IDs[0] {
		t.Error("the IDs of the second run are not those of the first")
	}
	if none, err := run.Scores("q", first); none != nil || err != nil {
		t.Errorf("%v and %v of a phase without scores, want nothing", none, err)
	}
}
