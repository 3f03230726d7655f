package tasks_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/dataset/tasks"
)

func read(t testing.TB, name string, paths ...string) *tasks.Data {
	t.Helper()
	d, err := tasks.Read(named(t, name), paths...)
	if err != nil {
		t.Fatal(err)
	}
	return d
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
		{"swag", "swag.csv", nil, []example{{"0", []string{"A man, bent over, digs.", "He throws the shovel."}, 2, 0},
			{"1", []string{"It rains.", "She sings."}, 0, 0}}},
		{"swag", "swag.json", nil, []example{{"q7", []string{"A dog barks.", "What does it do? sleeps"}, 1, 0},
			{"1", []string{"It rains.", "We run."}, 0, 0}, {"2", []string{"It rains.", "We run."}, -1, 0}}},
		{"ax", "ax.tsv", nil, []example{{"0", []string{"The cat sat.", "The cat did not sit."}, 0, 0}}},
		{"ax", "ax-test.tsv", nil, []example{{"0", []string{"The cat sat.", "The cat did not sit."}, -1, 0}}},
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
		{"mrpc", "a\tb\n", `x:1: the first line has 2 columns, "a|b": ` +
			`want a header with #1 String or sentence1 and #2 String or sentence2 (and Quality or label)`},
		{"rte", "index\tsentence\tsentence2\tlabel\n", "did you mean sentence1?"},
		{"rte", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\n", "x:2: the line has 3 columns, want 4"},
		{"rte", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tmaybe\n", `x:2: the label is "maybe", want one of entailment, not_entailment`},
		{"iflytek", "{\"sentence\": \"a\", \"label\": 119}", `the label is "119", want one of 0, 1, 2, ..., 118`},
		{"sts-b", "sentence1\tsentence2\tscore\na\tb\tnan\n", `x:2: the label is "nan", want a number`},
		{"sst-2", "sentence\tlabel\nok\t1\n\xff\t1\n", "x:3: the line is not UTF-8"},
		{"afqmc", "{\"sentence1\": \"a\", \"label\": \"0\"}\n", `x:1: the object has no key "sentence2"`},
		{"afqmc", "{\"sentence1\": \"a\",\n", "x:1: want a JSON object: the text ends in the middle of the JSON"},
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
