package tasks_test

import (
	"fmt"
	"os"
	"path/filepath"
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
		{
			"rte", "sentence1\tsentence2\tlabel\na\tb\tnot_entailment\na\tb\tentailment\nb\tc\tnot_entailment\n",
			[]int32{1, 0, 1}, nil,
		},
		{
			"sts-b", "sentence1\tsentence2\tscore\na\tb\t2.5\na\tb\t5\n",
			nil, []float32{2.5, 5},
		},
		{
			"c3", `[[["a"], [
				{"question": "b", "choice": ["c", "d"], "answer": "d"},
				{"question": "b", "choice": ["c", "d", "e"], "answer": "e"}], "1"]]`,
			[]int32{0, 1, 0, 0, 0, 0, 1, 0}, nil,
		},
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

// TestReference: those published files that are at hand can be read to the last line.
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
