package tasks_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"harness.invalid/core/dataset/tasks"
)

// TestPredictions: logits become files in the benchmark's format, which read back score the same.
func TestPredictions(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		task, file string
		logits     []float32
		text       string
		want       map[string]float64
	}{
		{"mrpc", "mrpc.tsv", []float32{0, 1, 2, 3, nan, 0}, "index\tprediction\n0\t1\n1\t1\n2\t1\n",
			map[string]float64{"f1": 0.8, "accuracy": 2. / 3}},
		{"cola", "cola.tsv", []float32{0, 1, 1, 0}, "index\tprediction\n0\t1\n1\t0\n", map[string]float64{"matthews_correlation": 1}},
		{"sts-b", "sts-b.tsv", []float32{4, 3, 3.5}, "index\tprediction\n0\t4.000\n1\t3.000\n2\t3.500\n",
			map[string]float64{"pearson": 0.9945, "spearman": 1}},
		{"qnli", "qnli.tsv", []float32{1, 0, 1, 0}, "index\tprediction\n0\tentailment\n1\tentailment\n", map[string]float64{"accuracy": 0.5}},
		{"ocnli", "ocnli.json", []float32{0, 1, 0, 0, 1, 0},
			"{\"id\": 0, \"label\": \"entailment\"}\n{\"id\": 2, \"label\": \"entailment\"}\n", map[string]float64{"accuracy": 0.5}},
		{"c3", "c3.json", []float32{1, 0, 0, 0, 0, 0, 0, 1}, "{\"id\": 0, \"label\": 0}\n{\"id\": 1, \"label\": 3}\n",
			map[string]float64{"accuracy": 0.5}},
		{"chid", "chid-few.json", []float32{0, 1, 0, 0, 0, 0, 0, 0, 0, 0}, "{\n    \"1421\": 1\n}\n", map[string]float64{"accuracy": 1}},
	} {
		d := read(t, c.task, filepath.Join("testdata", c.file))
		s, err := tasks.NewSet(d, tokenizer(t), 32, true)
		if err != nil {
			t.Fatal(err)
		}
		p, err := s.Predict(c.logits)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "p"+d.Task.Extension())
		if err := p.Save(path); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != c.text {
			t.Errorf("%s: the file has %q, want %q", c.task, text, c.text)
		}
		back, err := tasks.ReadPredictions(d.Task, path)
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range []*tasks.Predictions{p, back} {
			got, err := d.Score(q)
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range c.want {
				if math.Abs(got[name]-want) > 1e-4 || len(got) != len(c.want) {
					t.Errorf("%s: %v, want %v", c.task, got, c.want)
				}
			}
		}
		if _, err := s.Predict(c.logits[1:]); err == nil {
			t.Errorf("%s: too few logits are no error", c.task)
		}
	}
}

func TestPredictionErrors(t *testing.T) {
	d := read(t, "mrpc", "testdata/mrpc.tsv")
	for text, want := range map[string]string{
		"index\tprediction\n0\t1\n0\t1\n":  "p:3: example 0 has two predictions",
		"index\tprediction\n0\t2\n":        `p:2: example 0: the label is "2", want one of 0, 1`,
		"index\tprediction\n0\n":           "p:2: 1 columns, want index and prediction",
		"{\"id\": 0}\n":                    `the object has no key "label"`,
		"index\tprediction\n0\t1\n1\t0\n":  "example 2 (testdata/mrpc.tsv:4) has no prediction; there are 2 for others",
		"{\"id\": 0, \"label\": []}\n{}\n": "the label is",
	} {
		path := filepath.Join(t.TempDir(), "p")
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		p, err := tasks.ReadPredictions(d.Task, path)
		if err == nil {
			_, err = d.Score(p)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
	}
}
