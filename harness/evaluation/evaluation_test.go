package evaluation

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/dataset/squad"
	"harness.invalid/core/dataset/tasks"
)

func named(t testing.TB, name string) *tasks.Task {
	t.Helper()
	task, err := tasks.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return task
}

func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFirst(t *testing.T) {
	q := func(ids ...string) (p squad.Paragraph) {
		for _, id := range ids {
			p.Questions = append(p.Questions, squad.Question{ID: id})
		}
		return p
	}
	articles := []squad.Article{
		{Paragraphs: []squad.Paragraph{q("a", "b"), q("c")}},
		{Paragraphs: []squad.Paragraph{q("d", "e")}},
	}
	d := &Data{Task: named(t, "squad"), passages: &squad.Data{Articles: articles}}
	for n, want := range map[int]string{0: "abcde", 1: "a", 2: "ab", 3: "abc", 4: "abcd", 5: "abcde", 9: "abcde"} {
		got := ""
		for g := range d.First(n).questions() {
			got += g.ID
		}
		if got != want || d.First(n).Len() != len(want) {
			t.Errorf("the first %d are %q, want %q", n, got, want)
		}
	}
	rte := write(t, "rte.tsv", "sentence1\tsentence2\tlabel\na\tb\tentailment\nc\td\tentailment\n")
	e, err := Read(named(t, "rte"), rte)
	if err != nil {
		t.Fatal(err)
	}
	if e.First(1).Len() != 1 || e.First(0).Len() != 2 || e.Len() != 2 || e.First(1).Digest() != e.Digest() {
		t.Errorf("the first of %d examples are %d", e.Len(), e.First(1).Len())
	}
}

const passages = `{"version": "v2.0", "data": [{"title": "t", "paragraphs": [{"context": "An apple fell.", "qas": [
	{"id": "1", "question": "What fell?", "answers": [{"text": "An apple", "answer_start": 0}], "is_impossible": false},
	{"id": "2", "question": "Who?", "answers": [], "is_impossible": true},
	{"id": "3", "question": "What did it?", "answers": [{"text": "fell", "answer_start": 9}], "is_impossible": false},
	{"id": "4", "question": "Why?", "answers": [], "is_impossible": true}]}]}]}`

const testdata = "../../core/dataset/tasks/testdata/"

// TestScoreFile: files of predictions give what the official programs print for them, under their names and in
// their order.
func TestScoreFile(t *testing.T) {
	v2 := write(t, "v2.json", passages)
	zh := write(t, "zh.json", `{"version": "v1.0", "data": [{"title": "t", "id": "d", "paragraphs": [
		{"id": "p", "context": "东京在日本。", "qas": [
			{"id": "a", "question": "哪？", "answers": [{"text": "东京在", "answer_start": 0}]},
			{"id": "b", "question": "哪？", "answers": [{"text": "日本", "answer_start": 3}]}]}]}]}`)
	for _, c := range []struct {
		task, data, predictions, odds string
		threshold                     float64
		want                          string
	}{
		{"squad2", v2, `{"1": "apple", "2": "", "3": "apple fell", "4": "fell"}`, "", 1,
			`{"exact":50,"f1":66.66666666666666,"total":4,"HasAns_exact":50,"HasAns_f1":83.33333333333333,"HasAns_total":2,` +
				`"NoAns_exact":50,"NoAns_f1":50,"NoAns_total":2}`},
		// Above the threshold are question 2, which is unanswered anyway, and 4, which this makes right.
		// The best exact match is reached without question 3.
		{"squad2", v2, `{"1": "apple", "2": "", "3": "apple fell", "4": "fell"}`, `{"1": -3, "2": 2, "3": -1, "4": 1.5}`, 1,
			`{"exact":75,"f1":91.66666666666666,"total":4,"HasAns_exact":50,"HasAns_f1":83.33333333333333,"HasAns_total":2,` +
				`"NoAns_exact":100,"NoAns_f1":100,"NoAns_total":2,` +
				`"best_exact":75,"best_exact_thresh":-3,"best_f1":91.66666666666666,"best_f1_thresh":-1}`},
		{"cmrc2018", zh, `{"a": "东京"}`, "", 1, `{"AVERAGE":20,"F1":40,"EM":0,"TOTAL":2,"SKIP":1}`},
		{"drcd", zh, `{"a": "东京在", "b": "日本。"}`, "", 1, `{"AVERAGE":100,"F1":100,"EM":100,"TOTAL":2,"SKIP":0}`},
		{"mrpc", testdata + "mrpc.tsv", "index\tprediction\n0\t1\n1\t1\n2\t0\n", "", 1, `{"f1":0.5,"accuracy":0.3333333333333333}`},
		{"sts-b", testdata + "sts-b.tsv", "index\tprediction\n0\t1\n1\t1\n2\t1\n", "", 1, `{"pearson":null,"spearman":null}`},
	} {
		d, err := Read(named(t, c.task), c.data)
		if err != nil {
			t.Fatal(err)
		}
		odds := ""
		if c.odds != "" {
			odds = write(t, "odds.json", c.odds)
		}
		m, err := d.ScoreFile(write(t, "predictions", c.predictions), odds, c.threshold)
		if err != nil {
			t.Errorf("%s: %v", c.task, err)
			continue
		}
		if got, err := json.Marshal(m.Report); err != nil || string(got) != c.want {
			t.Errorf("%s: %s, want %s (%v)", c.task, got, c.want, err)
		}
	}
	d, err := Read(named(t, "squad2"), v2)
	if err != nil {
		t.Fatal(err)
	}
	for predictions, want := range map[string]string{
		"[]":             "want a JSON object of answers by question: it begins with [",
		`{"1": 2}`:       "1: want a string",
		`{"1": "x"`:      "EOF",
		`{"other": "x"}`: "no question with a prediction",
	} {
		if _, err := d.ScoreFile(write(t, "p", predictions), "", 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", predictions, err, want)
		}
	}
	_, err = d.ScoreFile(write(t, "p", `{"1": "x"}`), write(t, "o", `{"2": 1}`), 1)
	if err == nil || !strings.Contains(err.Error(), "no odds") {
		t.Errorf("odds that lack a question give %v", err)
	}
}

// TestBenchmarkScore: the score of a benchmark, from the scores of its tasks as google-research/bert publishes them
// for its miniatures.
func TestBenchmarkScore(t *testing.T) {
	for _, c := range []struct {
		model  string
		scores map[string][]float64 // by task, in the order of its metrics
		want   float64
	}{
		{"small", map[string][]float64{
			"cola": {27.8}, "sst-2": {89.7}, "mrpc": {83.4, 76.2}, "sts-b": {78.8, 77.0}, "qqp": {68.1, 87.0}, "mnli": {77.6},
			"mnli-mm": {77.0}, "qnli": {86.4}, "rte": {61.8}, "wnli": {62.3},
		}, 71.2},
		{"medium", map[string][]float64{
			"cola": {38}, "sst-2": {89.6}, "mrpc": {86.6, 81.6}, "sts-b": {80.4, 78.4}, "qqp": {69.6, 87.9}, "mnli": {80.0},
			"mnli-mm": {79.1}, "qnli": {87.7}, "rte": {62.2}, "wnli": {62.3},
		}, 73.5},
	} {
		scores := map[string]float64{}
		for name, values := range c.scores {
			task := named(t, name)
			m := Scores{Metrics: map[string]float64{}}
			for i, v := range values {
				m.Metrics[task.Metrics[i]] = v
			}
			scores[name] = m.TaskScore(task)
		}
		got, missing := BenchmarkScore(tasks.GLUE, scores)
		// Each of the published figures is rounded to a tenth.
		if math.Abs(got-c.want) > 0.1 || missing != nil {
			t.Errorf("%s: %v, want %v; missing %v", c.model, got, c.want, missing)
		}
	}
	got, missing := BenchmarkScore(tasks.CLUE, map[string]float64{"afqmc": 70, "tnews": 50})
	if got != 60 || len(missing) != 7 || missing[0] != "iflytek" {
		t.Errorf("two tasks of CLUE give %v without %v", got, missing)
	}
}

// TestMasksPadding: a backend that does not know bert.Head.MaskPadding is found by its logits of padding.
func TestMasksPadding(t *testing.T) {
	b := &bert.Batch{AttentionMask: []int32{1, 1, 0}}
	for _, c := range []struct {
		logits []float32
		want   bool
	}{
		{[]float32{3, bert.PaddingLogit, bert.PaddingLogit}, true},
		{[]float32{3, 1, -2}, false},
	} {
		if got := masksPadding(b, c.logits); got != c.want {
			t.Errorf("logits %v mask padding: %v, want %v", c.logits, got, c.want)
		}
	}
}
