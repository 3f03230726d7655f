package score

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"harness.invalid/core/internal/reference"
)

// TestEntities: seqeval's own numbers for random tags in BIO, in BIOES, and in no scheme at all.
func TestEntities(t *testing.T) {
	var cases []struct {
		Labels, Predictions []string
		Want                map[string]json.RawMessage
	}
	readOfficial(t, "testdata/entities.json", &cases)
	for i, c := range cases {
		got, err := Entities(tagged(c.Predictions), tagged(c.Labels))
		if err != nil {
			t.Fatal(err)
		}
		types := 0
		for name, raw := range c.Want {
			s := got.ByType[name]
			switch name {
			case "accuracy":
				if want, err := strconv.ParseFloat(string(raw), 64); err != nil || math.Abs(got.Accuracy-want) > 1e-12 {
					t.Errorf("case %d: accuracy is %g, want %s", i, got.Accuracy, raw)
				}
				continue
			case "micro avg":
				s = got.EntityScore
			default:
				types++
			}
			checkEntities(t, fmt.Sprintf("case %d: %s", i, name), s, raw)
		}
		if types != len(got.ByType) {
			t.Errorf("case %d: %d types, want %d", i, len(got.ByType), types)
		}
	}
	for _, c := range []struct {
		predictions, labels []string
		want                string
	}{
		{nil, nil, "nothing to score"},
		{[]string{"O"}, []string{"O", "O"}, "1 predictions for 2 labels"},
		{[]string{"O", "O"}, []string{"O", "O O"}, "sentence 2: 1 predicted tags for 2 words"},
		{[]string{""}, []string{""}, "no word"},
	} {
		if _, err := Entities(tagged(c.predictions), tagged(c.labels)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q for %q: %v, want an error with %q", c.predictions, c.labels, err, c.want)
		}
	}
}

func tagged(sentences []string) (tags [][]string) {
	for _, s := range sentences {
		tags = append(tags, strings.Fields(s))
	}
	return tags
}

func checkEntities(t *testing.T, what string, got EntityScore, raw []byte) {
	t.Helper()
	var want map[string]float64
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]float64{"precision": got.Precision, "recall": got.Recall, "f1-score": got.F1,
		"support": float64(got.Support)} {
		if math.Abs(v-want[name]) > 1e-12 {
			t.Errorf("%s: %s is %.17g, want %.17g", what, name, v, want[name])
		}
	}
}

// TestEntitiesOfWNUT: three systems of WNUT 2017 and their scores by seqeval.
func TestEntitiesOfWNUT(t *testing.T) {
	dir := reference.Path(t, "golden", "ner")
	gold := lastColumn(t, reference.Path(t, "data", "wnut17", "test.conll"))
	var all map[string]struct {
		Precision, Recall, F1, Accuracy float64
		ByType                          map[string]json.RawMessage `json:"by_type"`
	}
	readOfficial(t, filepath.Join(dir, "expected.json"), &all)
	for name, want := range all {
		got, err := Entities(lastColumn(t, filepath.Join(dir, name+".conll")), gold)
		if err != nil {
			t.Fatal(err)
		}
		for what, pair := range map[string][2]float64{"precision": {got.Precision, want.Precision}, "recall": {got.Recall, want.Recall},
			"f1": {got.F1, want.F1}, "accuracy": {got.Accuracy, want.Accuracy}} {
			if math.Abs(pair[0]-pair[1]) > 1e-9 {
				t.Errorf("%s: %s is %.12g, want %.12g", name, what, pair[0], pair[1])
			}
		}
		if len(got.ByType) != len(want.ByType) || len(want.ByType) != 6 {
			t.Errorf("%s: %d types, want %d", name, len(got.ByType), len(want.ByType))
		}
		for kind, raw := range want.ByType {
			checkEntities(t, name+" "+kind, got.ByType[kind], raw)
		}
	}
}

// lastColumn reads the tags of sentences from a file in CoNLL's form.
func lastColumn(t *testing.T, path string) (sentences [][]string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
		var tags []string
		for _, line := range strings.Split(block, "\n") {
			tags = append(tags, line[strings.LastIndexByte(line, '\t')+1:])
		}
		sentences = append(sentences, tags)
	}
	return sentences
}
