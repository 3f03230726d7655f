package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// reference is the path of a file of the reference material; the test is skipped where that is absent.
func reference(t *testing.T, elem ...string) string {
	t.Helper()
	root := referenceFolder("..")
	if root == "" {
		t.Skipf("reference material %s is not beside the checkout: skipped", filepath.Join(elem...))
	}
	return filepath.Join(root, filepath.Join(elem...))
}

// ask runs a command line in this process and returns its standard output.
func ask(t *testing.T, in string, args ...string) []byte {
	t.Helper()
	var out, errOut bytes.Buffer
	if code := execute(args, strings.NewReader(in), &out, &errOut); code != exitOK {
		t.Fatalf("harness %s: exit code %d\n%s", strings.Join(args, " "), code, &errOut)
	}
	return out.Bytes()
}

func readJSON(t *testing.T, path string, v any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// TestGoldenInstances: the instances that google-research/bert's create_pretraining_data makes, to the last one.
func TestGoldenInstances(t *testing.T) {
	text, vocab := reference(t, "data", "corpus", "sample_text.txt"), reference(t, "data", "vocab", "bert-base-uncased-vocab.txt")
	for _, c := range []struct {
		file string
		args []string
	}{
		{"sample_text_seed12345.json", []string{"--seed", "12345", "--dupe-factor", "5", "--max-seq-length", "128", "--max-predictions", "20"}},
		{"sample_text_wwm_seed7.json", []string{"--seed", "7", "--dupe-factor", "3", "--max-seq-length", "64", "--max-predictions", "10",
			"--short-seq-prob", "0.1", "--masked-lm-prob", "0.15", "--whole-word"}},
	} {
		out := ask(t, "", append([]string{"data", "pretraining", "--text", text, "--vocab", vocab, "--generator", "google"}, c.args...)...)
		var got, want struct {
			Settings  map[string]any
			Instances []map[string]any
		}
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatal(err)
		}
		readJSON(t, reference(t, "golden", "pretraining", c.file), &want)
		if !reflect.DeepEqual(got.Settings, want.Settings) {
			t.Errorf("%s: settings\n%v, want\n%v", c.file, got.Settings, want.Settings)
		}
		if len(got.Instances) != len(want.Instances) || len(want.Instances) == 0 {
			t.Errorf("%s: %d instances, want %d", c.file, len(got.Instances), len(want.Instances))
			continue
		}
		for i := range want.Instances {
			if !reflect.DeepEqual(got.Instances[i], want.Instances[i]) {
				t.Errorf("%s: instance %d is\n%v, want\n%v", c.file, i, got.Instances[i], want.Instances[i])
				break
			}
		}
	}
}

// TestGoldenTokens: BERT's own tokens, for many scripts and for all questions of SQuAD's development set.
func TestGoldenTokens(t *testing.T) {
	vocab := reference(t, "data", "vocab", "bert-base-uncased-vocab.txt")
	words, err := os.ReadFile(vocab)
	if err != nil {
		t.Fatal(err)
	}
	tokens := strings.Split(strings.TrimSuffix(string(words), "\n"), "\n")
	lines := func(in []string) []string {
		out := string(ask(t, strings.Join(in, "\n")+"\n", "tokenize", "--vocab", vocab))
		return strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	}
	text, err := os.ReadFile(reference(t, "golden", "tokenization", "regression_uncased.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var in, want []string
	for line := range strings.Lines(string(text)) {
		sentence, expected, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		in, want = append(in, sentence), append(want, expected)
	}
	got := lines(in)
	if len(got) != len(want) || len(want) < 6000 {
		t.Fatalf("%d lines of ids for %d sentences, want all of more than 6000", len(got), len(want))
	}
	for i := range want {
		var pieces []string
		for id := range strings.FieldsSeq(got[i]) {
			pieces = append(pieces, tokens[number(t, id)])
		}
		if g := strings.Join(pieces, "\t"); g != want[i] {
			t.Fatalf("line %d, %q: %q, want %q", i+1, in[i], g, want[i])
		}
	}

	var ids [][]int
	readJSON(t, reference(t, "golden", "tokenization", "squad-dev-questions_ids.json"), &ids)
	got = lines(questions(t, reference(t, "data", "squad", "dev-v1.1.json")))
	if len(got) != len(ids) {
		t.Fatalf("%d lines of ids, want %d", len(got), len(ids))
	}
	for i := range ids {
		var g []int
		for id := range strings.FieldsSeq(got[i]) {
			g = append(g, number(t, id))
		}
		if !reflect.DeepEqual(g, ids[i]) {
			t.Fatalf("question %d: %v, want %v", i, g, ids[i])
		}
	}
}

func number(t *testing.T, text string) int {
	t.Helper()
	var n int
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// questions are those of a SQuAD file in its order, a line each.
func questions(t *testing.T, path string) []string {
	t.Helper()
	var file struct {
		Data []struct {
			Paragraphs []struct{ QAs []struct{ Question string } }
		}
	}
	readJSON(t, path, &file)
	var out []string
	for _, a := range file.Data {
		for _, p := range a.Paragraphs {
			for _, q := range p.QAs {
				out = append(out, strings.ReplaceAll(q.Question, "\n", " ")) // white space is all the same to the tokenizer
			}
		}
	}
	return out
}

// TestGoldenScores: the scores that the official program gives to published predictions.
func TestGoldenScores(t *testing.T) {
	type scores struct {
		ExactMatch float64 `json:"exact_match"`
		F1         float64 `json:"f1"`
	}
	var want map[string]scores
	readJSON(t, reference(t, "golden", "squad", "expected.json"), &want)
	if len(want) != 2 {
		t.Fatalf("%d expected scores, want 2", len(want))
	}
	for file, w := range want {
		var got scores
		text := ask(t, "", "score", "squad", reference(t, "data", "squad", "dev-v1.1.json"), reference(t, "golden", "squad", file))
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if math.Abs(got.ExactMatch-w.ExactMatch) > 1e-9 || math.Abs(got.F1-w.F1) > 1e-9 {
			t.Errorf("%s: %v, want %v", file, got, w)
		}
	}
}
