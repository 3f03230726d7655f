package tasks_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/dataset/tasks"
	"harness.invalid/core/internal/reference"
)

func TestReadEntities(t *testing.T) {
	for _, c := range []struct {
		file, text  string
		words, tags []string // sentences with spaces between words
		lines       []int
		labels      string
	}{
		{"ner.conll", "", []string{"Ann Lee saw New .", "In Fafafa b"}, []string{"B-PER I-PER O S-LOC O", "O B-LOC I-LOC"}, []int{3, 9},
			"B-LOC B-PER I-LOC I-PER O S-LOC"},
		{"cluener.json", "", []string{"浙 商 银 行   王 小 明", "下 雨 了"},
			[]string{"B-company I-company I-company I-company O B-name I-name I-name", "O O O"}, []int{1, 2}, "B-company B-name I-company I-name O"},
		{"", "\ufeffa\tb c\tO\r\n\t\r\n#x\tB-p\n", []string{"a", "#x"}, []string{"O", "B-p"}, []int{1, 3}, "B-p O"},
		{"", "{\tO\n\"text\"\tO\n", []string{`{ "text"`}, []string{"O O"}, []int{1}, "O"},
		{"", "a\nb\n\nc\n", []string{"a b", "c"}, []string{"", ""}, []int{1, 4}, ""},
		{"", "{\"id\": 3, \"text\": \"雨\"}\n", []string{"雨"}, []string{""}, []int{1}, ""},
	} {
		text, name := []byte(c.text), "text"
		if c.file != "" {
			var err error
			if text, err = os.ReadFile(filepath.Join("testdata", c.file)); err != nil {
				t.Fatal(err)
			}
			name = c.file
		}
		d, err := tasks.Parse(named(t, "ner"), text, name)
		if err != nil {
			t.Fatal(err)
		}
		var words, tags []string
		var lines []int
		for _, e := range d.Examples {
			words, tags, lines = append(words, strings.Join(e.Words, " ")), append(tags, strings.Join(e.Tags, " ")), append(lines, e.Place.Line)
		}
		if !slices.Equal(words, c.words) || !slices.Equal(tags, c.tags) || !slices.Equal(lines, c.lines) {
			t.Errorf("%s%q: %q with %q at %v", c.file, c.text, words, tags, lines)
		}
		if got := strings.Join(d.Labels(), " "); got != c.labels || d.Labelled() != (c.labels != "") {
			t.Errorf("%s%q: labels %q, labelled %v", c.file, c.text, got, d.Labelled())
		}
	}
	for text, want := range map[string]string{
		"a\tO\nb\n": "the sentence has 2 words and 1 tags",
		"a\t\n":     "x:1: the last column, the tag, is empty",
		"{\"text\": \"雨雪\", \"label\": {\"w\": {\"雪\": [[0, 0]]}}}\n": `x:1: w "雪" is said to be at characters 0 to 0 of 2, where it is not`,
		"{\"text\": \"雨\", \"label\": {\"w\": {\"雨\": [[0, 1]]}}}\n":  "0 to 1 of 1",
		"{\"text\": \"雨\", \"label\": 1}\n":                           "want entities by type and text",
		"{\"text\": \"\"}\n":                                          "the text is empty",
		"-DOCSTART- O\n\n":                                            "no sentence",
	} {
		if _, err := tasks.Parse(named(t, "ner"), []byte(text), "x"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
	}
}

// TestEntitySequences: first pieces have labels, other tokens none; a sentence has as many windows as its words need,
// and a word that is longer than a window is cut. Tags that a task lacks have no label.
func TestEntitySequences(t *testing.T) {
	d, err := tasks.Parse(named(t, "ner"), []byte("a\tO\nfab\tB-x\nb\tI-x\n \u200b\tO\ncc\tO\n\n"+strings.Repeat("d", 9)+"\tB-x\n"), "x")
	if err != nil {
		t.Fatal(err)
	}
	d.Task = d.Task.With([]string{"B-x", "O"})
	s, err := tasks.NewSet(d, tokenizer(t, "##a", "##b", "##c", "##d"), 8, true)
	if err != nil {
		t.Fatal(err)
	}
	const none = bert.Unlabelled
	// [CLS] is 2, [SEP] 3, a to f are 5 to 10, ##a to ##d 11 to 14.
	wantIDs := [][]int32{{2, 5, 10, 11, 12, 6, 3, 0}, {2, 7, 13, 3, 0, 0, 0, 0}, {2, 8, 14, 14, 14, 14, 14, 3}}
	wantLabels := [][]int32{{none, 1, 0, none, none, none, none, none}, {none, 1, none, none, none, none, none, none},
		{none, 0, none, none, none, none, none, none}}
	if s.Len() != 3 {
		t.Fatalf("%d sequences, want 3", s.Len())
	}
	for b := range s.Batches(1) {
		i := b.Sample
		if !slices.Equal(b.InputIDs, wantIDs[i]) || !slices.Equal(b.Labels, wantLabels[i]) {
			t.Errorf("sequence %d has ids %v and labels %v, want %v and %v", i, b.InputIDs, b.Labels, wantIDs[i], wantLabels[i])
		}
		if err := b.Validate(bert.Defaults(), d.Task.Head(), true); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Source(2, 1); err == nil || !strings.Contains(err.Error(), "the tag I-x is none of the labels B-x, O") {
		t.Errorf("training on a tag that the task lacks: %v", err)
	}
	whole := *d
	whole.Task = whole.Task.With([]string{"B-x", "I-x", "O"})
	all, err := tasks.NewSet(&whole, tokenizer(t), 8, true)
	if err != nil {
		t.Fatal(err)
	}
	source, err := all.Source(2, 1)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := source.Next(); err != nil || b.Size != 2 || len(b.Labels) != 16 {
		t.Errorf("a batch %+v, %v", b, err)
	}
	// Every token is said to be B-x; words without a token are in no entity.
	p, err := s.Predict(slices.Repeat([]float32{1, 0}, 3*8))
	if err != nil {
		t.Fatal(err)
	}
	checkTags(t, d, p)
}

// checkTags saves predictions, reads them back in two forms, and scores them.
func checkTags(t *testing.T, d *tasks.Data, p *tasks.Predictions) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p.conll")
	if err := p.Save(path); err != nil {
		t.Fatal(err)
	}
	want := "a\tB-x\nfab\tB-x\nb\tB-x\n \u200b\tO\ncc\tB-x\n\nddddddddd\tB-x\n\n"
	if text, err := os.ReadFile(path); err != nil || string(text) != want {
		t.Errorf("the file has %q, want %q", text, want)
	}
	back, err := tasks.ReadPredictions(d.Task, path)
	if err != nil {
		t.Fatal(err)
	}
	bare := filepath.Join(t.TempDir(), "bare.conll")
	if err := os.WriteFile(bare, []byte("B-x\nB-x\nB-x\nO\nB-x\n\nB-x"), 0o666); err != nil {
		t.Fatal(err)
	}
	tags, err := tasks.ReadPredictions(named(t, "ner"), bare)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []*tasks.Predictions{p, back, tags} {
		// Of fab b and ddddddddd only the latter is whole.
		got, err := d.Score(q)
		if want := map[string]float64{"precision": 0.2, "recall": 0.5, "f1": 2. / 7, "accuracy": 0.5}; err != nil || !near(got, want) {
			t.Errorf("scores %v, %v, want %v", got, err, want)
		}
	}
	for text, want := range map[string]string{
		"O\n": "predictions for 1 sentences, and x has 2", "O\n\nO\n": "has 5 words, its prediction 1 tags",
	} {
		if err := os.WriteFile(bare, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		q, err := tasks.ReadPredictions(d.Task, bare)
		if err == nil {
			_, err = d.Score(q)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
	}
}

func near(got, want map[string]float64) bool {
	for name, v := range want {
		if math.Abs(got[name]-v) > 1e-12 {
			return false
		}
	}
	return len(got) == len(want)
}

// TestEntityFloors: one tag for all words finds the entities of one word.
func TestEntityFloors(t *testing.T) {
	d, err := tasks.Parse(named(t, "ner"), []byte("a\tO\nb\tB-x\nc\tB-y\nd\tI-y\n"), "x")
	if err != nil {
		t.Fatal(err)
	}
	scores, loss, err := d.Floors()
	want := map[string]float64{"precision": 0.25, "recall": 0.5, "f1": 1. / 3, "accuracy": 0.25}
	if err != nil || !near(scores, want) || math.Abs(loss-math.Log(4)) > 1e-12 {
		t.Errorf("floors %v and %g, %v, want %v and %g", scores, loss, err, want, math.Log(4))
	}
}

// TestReadWNUT: the sentences of WNUT 2017 as its users count them (the data card of wnut_17).
func TestReadWNUT(t *testing.T) {
	dir := reference.Path(t, "data", "wnut17")
	for file, want := range map[string]int{"train.conll": 3394, "dev.conll": 1009, "test.conll": 1287} {
		d, err := tasks.Read(named(t, "ner"), filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Examples) != want || len(d.Labels()) != 13 {
			t.Errorf("%s has %d sentences and labels %v, want %d and 13", file, len(d.Examples), d.Labels(), want)
		}
	}
}
