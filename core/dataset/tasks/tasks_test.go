package tasks_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/dataset/tasks"
	"harness.invalid/core/internal/reference"
	"harness.invalid/core/wordpiece"
)

func named(t testing.TB, name string) *tasks.Task {
	t.Helper()
	task, err := tasks.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return task
}

func read(t testing.TB, name string, paths ...string) *tasks.Data {
	t.Helper()
	d, err := tasks.Read(named(t, name), paths...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestTable: every row says what its kind needs, and its head is one that core/bert has.
func TestTable(t *testing.T) {
	for _, task := range tasks.All() {
		if err := task.Head().Validate(); err != nil {
			t.Errorf("%s: %v", task.Name, err)
		}
		if task.Doc == "" || task.Scored < 1 || task.Scored > len(task.Metrics) {
			t.Errorf("%s: %+v has no doc or no metric", task.Name, task)
		}
		if task.Kind == bert.Classification && len(task.Labels) == 1 {
			t.Errorf("%s has one label", task.Name)
		}
	}
	for name, want := range map[string]string{"SST-2": "sst-2", "sst2": "sst-2", "STS_B": "sts-b", "mnli_mismatched": "mnli-mm",
		"squad_v2": "squad2", "SQuAD-v1.1": "squad", "CLUEWSC2020": "wsc", "c3": "c3"} {
		if task, err := tasks.Named(name); err != nil || task.Name != want {
			t.Errorf("%s is %v, %v, want %s", name, task, err, want)
		}
	}
	if _, err := tasks.Named("mrcp"); err == nil || !strings.Contains(err.Error(), "did you mean mrpc?") {
		t.Errorf("a misspelt name gives %v", err)
	}
	count := func(b tasks.Benchmark) int { return len(tasks.Of(b)) }
	if count(tasks.GLUE) != 10 || count(tasks.CLUE) != 10 {
		t.Errorf("%d tasks of GLUE and %d of CLUE", count(tasks.GLUE), count(tasks.CLUE))
	}
}

func TestRead(t *testing.T) {
	type example struct {
		id     string
		texts  []string // of the first choice
		label  int
		target float32
	}
	for _, c := range []struct {
		task, file string
		skipped    []int // lines
		want       []example
	}{
		{"cola", "cola.tsv", nil, []example{{"0", []string{"The sailor sang."}, 1, 0}, {"1", []string{"Sang sailor the."}, 0, 0}}},
		{"cola", "cola-test.tsv", nil, []example{{"0", []string{"The cat slept."}, -1, 0}, {"1", []string{`Cat the "slept.`}, -1, 0}}},
		{"sst-2", "sst-2.tsv", nil, []example{{"0", []string{"a warm , funny film "}, 1, 0}, {"1", []string{`a "dull hour `}, 0, 0}}},
		{"mrpc", "mrpc.tsv", nil, []example{{"0", []string{`The bank "said so.`, "So said the bank."}, 1, 0},
			{"1", []string{"Rain fell.", "It was dry."}, 0, 0}, {"2", []string{"He left.", "He went."}, 1, 0}}},
		{"mrpc", "mrpc-test.tsv", nil, []example{{"0", []string{"A.", "B."}, -1, 0}}},
		{"qqp", "qqp.tsv", []int{3}, []example{{"0", []string{"What is Go?", "What is Go about?"}, 1, 0},
			{"2", []string{"Who?", "When?"}, 0, 0}}},
		{"sts-b", "sts-b.tsv", nil, []example{{"0", []string{"A man runs.", "A man is running."}, 0, 5},
			{"1", []string{"A cat.", "A car."}, 0, 0.6}, {"2", []string{"A dog barks.", "A dog."}, 0, 2.4}}},
		{"sts-b", "sts-b.csv", nil, []example{{"0", []string{"A plane takes off.", "An air plane takes off."}, 0, 5},
			{"1", []string{"Yes.", "No."}, 0, 1.2}}},
		{"mnli", "mnli.tsv", nil, []example{{"0", []string{"It rained.", "It was wet."}, 1, 0},
			{"1", []string{"It rained.", "It was dry."}, 0, 0}}},
		{"mnli-mm", "mnli.tsv", nil, []example{{"0", []string{"It rained.", "It was wet."}, 1, 0},
			{"1", []string{"It rained.", "It was dry."}, 0, 0}}},
		{"qnli", "qnli.tsv", nil, []example{{"0", []string{"When?", "In 1990."}, 0, 0}, {"1", []string{"Who?", "In 1990."}, 1, 0}}},
		{"rte", "rte.tsv", nil, []example{{"0", []string{"A b c.", "C."}, 1, 0}}},
		{"wnli", "wnli.tsv", nil, []example{{"0", []string{"The cup fell off the box. It broke.", "The cup broke."}, 1, 0}}},
		{"afqmc", "afqmc.json", nil, []example{{"0", []string{"花呗怎么还", "怎么还花呗"}, 1, 0}, {"1", []string{"借呗在哪", "花呗利息"}, 0, 0}}},
		{"tnews", "tnews.json", nil, []example{{"0", []string{"新片上映"}, 2, 0}, {"1", []string{"游戏更新"}, 14, 0}}},
		{"iflytek", "iflytek.json", nil, []example{{"0", []string{"一个应用"}, 11, 0}, {"7", []string{"另一个"}, 118, 0}}},
		{"ocnli", "ocnli.json", []int{2}, []example{{"0", []string{"下雨了", "天气不好"}, 1, 0}, {"2", []string{"下雨了", "没下雨"}, 0, 0}}},
		{"wsc", "wsc.json", nil, []example{{"0", []string{"_小猫_睡了，[它]醒了。"}, 0, 0}, {"3", []string{"[它]_小狗_"}, 1, 0}}},
		{"csl", "csl.json", nil, []example{{"5", []string{"花 生长", "本文研究了花的生长。"}, 1, 0}}},
		{"c3", "c3.json", nil, []example{{"0", []string{"男：今天冷吗？\n女：很冷。", "天气怎么样？", "冷"}, 0, 0},
			{"1", []string{"男：今天冷吗？\n女：很冷。", "谁在说话？", "一男一女"}, 0, 0}}},
		{"chid", "chid.json", nil, []example{{"#idiom000378#", []string{"百尺竿头", "今年他们希望能\ue000再进一步。"}, 0, 0},
			{"#idiom000379#", []string{"百尺竿头", "时光\ue000，又如\ue001。"}, 3, 0}, {"#idiom000380#", []string{"百尺竿头", "时光\ue001，又如\ue000。"}, 1, 0}}},
		{"chid", "chid-few.json", nil, []example{{"1421", []string{"巧言令色", "打了他们一个\ue000。"}, 1, 0}}},
	} {
		d := read(t, c.task, filepath.Join("testdata", c.file))
		var got []example
		for _, e := range d.Examples {
			got = append(got, example{e.ID, e.Choices[0], e.Label, e.Target})
			if n := max(1, d.Task.Choices); len(e.Choices) != n {
				t.Errorf("%s: %d choices, want %d", c.file, len(e.Choices), n)
			}
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s is\n%+v, want\n%+v", c.file, got, c.want)
		}
		var skipped []int
		for _, p := range d.Skipped {
			skipped = append(skipped, p.Line)
		}
		if !slices.Equal(skipped, c.skipped) {
			t.Errorf("%s: lines %v were left out, want %v", c.file, skipped, c.skipped)
		}
	}
	two := read(t, "afqmc", "testdata/afqmc.json", "testdata/afqmc.json")
	if len(two.Examples) != 4 || two.Examples[3].ID != "3" || two.Examples[3].Place.Line != 2 {
		t.Errorf("two files give %+v", two.Examples)
	}
	if c := read(t, "c3", "testdata/c3.json").Examples[0].Choices; c[2][2] != "无效答案" {
		t.Errorf("a third choice of two is %q", c[2])
	}
}

func TestReadErrors(t *testing.T) {
	for _, c := range []struct{ task, text, want string }{
		{"mrpc", "", "task mrpc: x: the file is empty: invalid data"},
		{"mrpc", "a\tb\n", `x:1: the first line has 2 columns, "a|b": want a header with #1 String or sentence1 and #2 String or sentence2 (and Quality or label)`},
		{"rte", "index\tsentence\tsentence2\tlabel\n", "did you mean sentence1?"},
		{"rte", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\n", "x:2: the line has 3 columns, want 4"},
		{"rte", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tmaybe\n", `x:2: the label is "maybe", want one of entailment, not_entailment`},
		{"iflytek", "{\"sentence\": \"a\", \"label\": 119}", `the label is "119", want one of 0, 1, 2, ..., 118`},
		{"sts-b", "sentence1\tsentence2\tscore\na\tb\tnan\n", `x:2: the label is "nan", want a number`},
		{"sst-2", "sentence\tlabel\nok\t1\n\xff\t1\n", "x:3: the line is not UTF-8"},
		{"afqmc", "{\"sentence1\": \"a\", \"label\": \"0\"}\n", `x:1: the object has no key "sentence2"`},
		{"afqmc", "{\"sentence1\": \"a\",\n", "x:1: want a JSON object: unexpected end of JSON input"},
		{"afqmc", "[]", "the file is a JSON list"},
		{"afqmc", "{\"sentence1\": {}, \"sentence2\": \"b\"}\n", "sentence1 is {}, want text, a number or a list of texts"},
		{"wsc", `{"text": "ab", "label": "true", "target": {"span1_text": "b", "span1_index": 1, "span2_text": "abc", "span2_index": 0}}`,
			`"abc" is said to be at character 0, but the text has 2`},
		{"wsc", `{"text": "ab", "label": "true"}`, "target: want an object"},
		{"c3", `{}`, "want a list of [texts, questions, id]"},
		{"c3", `[[["a"], [{"question": "q", "choice": ["x", "y"], "answer": "z"}], "1"]]`,
			`document 0: the answer "z" of question "q" is not among its choices`},
		{"c3", `[[["a"], [{"question": "q", "choice": ["x"], "answer": "x"}], "1"]]`, `1 choices, want 2 to 4`},
		{"chid", `{"candidates": ["a", "b"], "content": "#idiom#", "answer": 2}`, "x:1: the answer to #idiom# is 2, want 0 to 1"},
		{"chid", `{"content": "#idiom#"}`, "candidates: want a list of idioms"},
		{"squad", `{}`, "its files are SQuAD's"},
	} {
		_, err := tasks.Parse(named(t, c.task), []byte(c.text), "x")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %.40q: %v, want an error with %q", c.task, c.text, err, c.want)
		}
	}
}

func tokenizer(t testing.TB, extra ...string) *wordpiece.Tokenizer {
	t.Helper()
	v, err := wordpiece.NewVocab("test", append([]string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d", "e", "f"},
		extra...))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := wordpiece.New(v, wordpiece.Google(true))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func set(t testing.TB, name, text string, length int, labelled bool) *tasks.Set {
	t.Helper()
	d, err := tasks.Parse(named(t, name), []byte(text), "x")
	if err != nil {
		t.Fatal(err)
	}
	s, err := tasks.NewSet(d, tokenizer(t), length, labelled)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestFeatures: what convert_single_example of google-research/bert, run_classifier.py, makes of the same texts,
// worked out by hand.
func TestFeatures(t *testing.T) {
	const cls, sep, mask, a, b, c, d = 2, 3, 4, 5, 6, 7, 8
	for _, test := range []struct {
		task, text string
		ids, types []int32
	}{
		{"sst-2", "sentence\tlabel\na b c\t1\n", []int32{cls, a, b, c, sep, 0, 0, 0}, []int32{0, 0, 0, 0, 0, 0, 0, 0}},
		{"sst-2", "sentence\tlabel\na b c a b c a b c\t1\n", []int32{cls, a, b, c, a, b, c, sep}, []int32{0, 0, 0, 0, 0, 0, 0, 0}},
		{"rte", "sentence1\tsentence2\tlabel\na b\tc\tentailment\n", []int32{cls, a, b, sep, c, sep, 0, 0}, []int32{0, 0, 0, 0, 1, 1, 0, 0}},
		{"rte", "sentence1\tsentence2\tlabel\na b\t\tentailment\n", []int32{cls, a, b, sep, 0, 0, 0, 0}, []int32{0, 0, 0, 0, 0, 0, 0, 0}},
		// Of a b c d and a b c three must go: one of the longer, then of equal ones the second, then the first again.
		{"rte", "sentence1\tsentence2\tlabel\na b c d\ta b c\tentailment\n", []int32{cls, a, b, c, sep, a, b, sep},
			[]int32{0, 0, 0, 0, 0, 1, 1, 1}},
		{"c3", `[[["a b c d"], [{"question": "b", "choice": ["c", "d"], "answer": "c"}], "1"]]`, []int32{cls, a, b, sep, b, sep, c, sep},
			[]int32{0, 0, 0, 0, 1, 1, 1, 1}},
		// Of equal segments the text goes first, then the answer.
		{"c3", `[[["a b"], [{"question": "c d", "choice": ["a b", "d"], "answer": "d"}], "1"]]`, []int32{cls, a, sep, c, d, sep, a, sep},
			[]int32{0, 0, 0, 1, 1, 1, 1, 1}},
	} {
		s := set(t, test.task, test.text, 8, true)
		for batch := range s.Batches(16) {
			if !slices.Equal(batch.InputIDs[:8], test.ids) || !slices.Equal(batch.TokenTypeIDs[:8], test.types) {
				t.Errorf("%s %q is\n%v\n%v, want\n%v\n%v", test.task, test.text, batch.InputIDs[:8], batch.TokenTypeIDs[:8], test.ids, test.types)
			}
			for i, id := range batch.InputIDs {
				if on := batch.AttentionMask[i] == 1; on != (id != 0) {
					t.Errorf("%s: padding begins before or after %d", test.task, i)
					break
				}
			}
		}
	}
}

// TestCloze: what convert_examples_to_features of CLUE's CHID_preprocess.py makes of the same texts, worked out by
// hand.
func TestCloze(t *testing.T) {
	const cls, sep, mask, a, b, c, d, e, f, mark = 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
	for _, test := range []struct {
		choice, content string
		ids             []int32
	}{
		{"a b c d", "a b c#idiom000001#d e f", []int32{cls, a, b, c, d, sep, a, b, c, mark, d, e, f, sep}},
		// Half of the eight tokens that there is room for on either side, or what is there and more of the other side.
		{"d c b a", "a b c d e f#idiom000001#a b c d e", []int32{cls, d, c, b, a, sep, c, d, e, f, mark, a, b, c, d, sep}},
		{"d c b a", "f#idiom000001#a b c d e f a b", []int32{cls, d, c, b, a, sep, f, mark, a, b, c, d, e, f, a, sep}},
		{"d c b a", "a b c d e f a b#idiom000001#f", []int32{cls, d, c, b, a, sep, b, c, d, e, f, a, b, mark, f, sep}},
		// Other blanks are four masks, and the sides as long as before.
		{"d c b a", "a b e#idiom000002#f#idiom000001#a#idiom000003#c d", []int32{cls, d, c, b, a, sep, mask, mask, mask, f, mark, a, mask,
			mask, mask, sep}},
		{"a", "b“#idiom000001#", []int32{cls, a, sep, b, 1, mark, sep}},
		{"a b c d e f", "a b c d#idiom000001#a b c d", []int32{cls, a, b, c, d, e, f, sep, b, c, d, mark, a, b, c, sep}},
	} {
		data, err := tasks.Parse(named(t, "chid"), fmt.Appendf(nil, `{"candidates": [%q, "f"], "content": [%q], "answer": 0}`,
			test.choice, test.content), "x")
		if err != nil {
			t.Fatal(err)
		}
		data.Examples = slices.DeleteFunc(data.Examples, func(e tasks.Example) bool { return e.ID != "#idiom000001#" })
		s, err := tasks.NewSet(data, tokenizer(t, "[unused1]"), 16, true)
		if err != nil {
			t.Fatal(err)
		}
		for batch := range s.Batches(10) {
			want := append(slices.Clone(test.ids), make([]int32, 16-len(test.ids))...)
			if !slices.Equal(batch.InputIDs[:16], want) || slices.Max(batch.TokenTypeIDs) != 0 {
				t.Errorf("%s in %s is\n%v of types %v, want\n%v of type 0", test.choice, test.content, batch.InputIDs[:16],
					batch.TokenTypeIDs[:16], want)
			}
			break
		}
	}
	// A vocabulary that was learned from text has no [unused1].
	s := set(t, "chid", `{"candidates": ["a b c d", "b"], "content": "c#idiom#d", "answer": 0}`, 8, true)
	for batch := range s.Batches(10) {
		if want := []int32{cls, a, b, c, d, sep, mask, sep}; !slices.Equal(batch.InputIDs[:8], want) {
			t.Errorf("without [unused1] and room: %v, want %v", batch.InputIDs[:8], want)
		}
		break
	}
}

// TestAnswers: the answers of ChID lie beside its file and belong to the data.
func TestAnswers(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile("testdata/chid.json")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	path := write("dev.json", string(text))
	if d := read(t, "chid", path); d.Labelled() {
		t.Error("there are labels without answers")
	}
	digests := map[string]bool{read(t, "chid", path).Digest: true}
	for i, answers := range []string{`{"#idiom000378#": 0, "#idiom000379#": 3, "#idiom000380#": 1}`,
		`{"#idiom000378#": 1, "#idiom000379#": 3, "#idiom000380#": 1}`} {
		write("dev_answer.json", answers)
		d := read(t, "chid", path)
		if digests[d.Digest] = true; d.Examples[0].Label != i || len(digests) != i+2 {
			t.Errorf("answers %s: label %d, %d digests", answers, d.Examples[0].Label, len(digests))
		}
	}
	write("dev_answer.json", `{"#idiom000378#": 0}`)
	if _, err := tasks.Read(named(t, "chid"), path); err == nil || !strings.Contains(err.Error(),
		"dev.json:1: #idiom000379# has no answer in "+filepath.Join(dir, "dev_answer.json")) {
		t.Errorf("a missing answer gives %v", err)
	}
}

// TestBatches: labels of all kinds, whole questions, and batches that a model of the task takes.
func TestBatches(t *testing.T) {
	config := bert.Defaults()
	for _, c := range []struct {
		task, text string
		labels     []int32
		targets    []float32
	}{
		{"rte", "sentence1\tsentence2\tlabel\na\tb\tnot_entailment\na\tb\tentailment\nb\tc\tnot_entailment\n", []int32{1, 0, 1}, nil},
		{"sts-b", "sentence1\tsentence2\tscore\na\tb\t2.5\na\tb\t5\n", nil, []float32{2.5, 5}},
		{"c3", `[[["a"], [{"question": "b", "choice": ["c", "d"], "answer": "d"}, {"question": "b", "choice": ["c", "d", "e"], "answer": "e"}], "1"]]`, []int32{0, 1, 0, 0, 0, 0, 1, 0}, nil},
	} {
		s := set(t, c.task, c.text, 8, true)
		for _, size := range []int{1, 4, 100} {
			var labels []int32
			var targets []float32
			at := 0
			for b := range s.Batches(size) {
				if err := b.Validate(config, s.Data.Task.Head(), true); err != nil {
					t.Fatalf("%s: %v", c.task, err)
				}
				if b.Sample != at {
					t.Errorf("%s: a batch begins at %d, want %d", c.task, b.Sample, at)
				}
				at += b.Size
				labels, targets = append(labels, b.Labels...), append(targets, b.Targets...)
			}
			if !slices.Equal(labels, c.labels) || !slices.Equal(targets, c.targets) || at != s.Len() {
				t.Errorf("%s: labels %v, targets %v, want %v, %v", c.task, labels, targets, c.labels, c.targets)
			}
		}
		source, err := s.Source(s.Len()*2, 1)
		if err != nil {
			t.Fatal(err)
		}
		b, err := source.Next()
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Validate(config, s.Data.Task.Head(), true); err != nil || b.Size != s.Len()*2 || b.Sample != 0 {
			t.Errorf("%s: batch of %d from %d: %v", c.task, b.Size, b.Sample, err)
		}
	}
	choices := set(t, "c3", `[[["a"], [{"question": "b", "choice": ["c", "d"], "answer": "d"}], "1"]]`, 8, true)
	if _, err := choices.Source(6, 1); err == nil || !strings.Contains(err.Error(), "multiple of the 4 choices") {
		t.Errorf("a batch that cuts questions gives %v", err)
	}
	d := read(t, "mrpc", "testdata/mrpc-test.tsv")
	if _, err := tasks.NewSet(d, tokenizer(t), 16, true); err == nil || !strings.Contains(err.Error(),
		"mrpc-test.tsv:2: the example has no label") {
		t.Errorf("a set without labels gives %v", err)
	}
	if _, err := tasks.NewSet(d, tokenizer(t), 4, false); err == nil || !strings.Contains(err.Error(), "max_seq_length is 4") {
		t.Errorf("sequences of 4 tokens give %v", err)
	}
}

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
		"index\tprediction\n0\t1\n1\t0\n":  "example 2 (testdata/mrpc.tsv:4) has no prediction, of 2 that there are",
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

// TestReference: the published files that there are read to the last line.
func TestReference(t *testing.T) {
	for _, c := range []struct {
		task     string
		files    []string
		examples int
		skipped  int
	}{
		{"cola", []string{"glue/CoLA/in_domain_train.tsv"}, 8551, 0},
		{"cola", []string{"glue/CoLA/in_domain_dev.tsv", "glue/CoLA/out_of_domain_dev.tsv"}, 1043, 0},
		{"sst-2", []string{"glue/SST-2/train.tsv"}, 67349, 0},
		{"sst-2", []string{"glue/SST-2/dev.tsv"}, 872, 0},
		{"mrpc", []string{"glue/MRPC/msr_paraphrase_train.txt"}, 4076, 0},
		{"mrpc", []string{"glue/MRPC/msr_paraphrase_test.txt"}, 1725, 0},
		{"sts-b", []string{"glue/STS-B/sts-train.csv"}, 5749, 0},
		{"sts-b", []string{"glue/STS-B/sts-dev.csv"}, 1500, 0},
		{"afqmc", []string{"clue/afqmc_public/dev.json"}, 4316, 0},
		{"tnews", []string{"clue/tnews/train.json"}, 53360, 0},
		{"tnews", []string{"clue/tnews/dev.json"}, 10000, 0},
		{"ocnli", []string{"clue/ocnli/dev.json"}, 2950, 50},
		{"iflytek", []string{"clue/fewclue/iflytek/test_public.json"}, 1749, 0},
		{"csl", []string{"clue/fewclue/csl/test_public.json"}, 2838, 0},
		{"wsc", []string{"clue/fewclue/cluewsc/test_public.json"}, 976, 0},
		{"c3", []string{"clue/c3/c3-m-train.json", "clue/c3/c3-d-train.json"}, 11869, 0},
	} {
		var paths []string
		for _, f := range c.files {
			paths = append(paths, reference.Path(t, "data", f))
		}
		d := read(t, c.task, paths...)
		if len(d.Examples) != c.examples || len(d.Skipped) != c.skipped || !d.Labelled() {
			t.Errorf("%s %v: %d examples and %d left out, want %d and %d", c.task, c.files, len(d.Examples), len(d.Skipped), c.examples, c.skipped)
		}
		// MRPC's training set is less here: GLUE keeps 408 of these examples for development.
		if got, want := len(d.Examples)*max(1, d.Task.Choices), d.Task.TrainingSequences(); c.task != "mrpc" &&
			strings.Contains(c.files[0], "train") && got != want {
			t.Errorf("%s: %d sequences to train on, want %d", c.task, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.*")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for i := range tasks.All() {
			f.Add(uint(i), text)
		}
	}
	tok := tokenizer(f)
	f.Fuzz(func(t *testing.T, which uint, text []byte) {
		task := tasks.All()[which%uint(len(tasks.All()))]
		d, err := tasks.Parse(&task, text, "fuzz")
		if err != nil || len(d.Examples) == 0 {
			return
		}
		s, err := tasks.NewSet(d, tok, 16, d.Labelled())
		if err != nil {
			t.Fatal(err)
		}
		for b := range s.Batches(8) {
			if err := b.Validate(bert.Defaults(), task.Head(), d.Labelled()); err != nil {
				t.Fatal(err)
			}
		}
	})
}
