package squad

import (
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/internal/reference"
	"harness.invalid/core/wordpiece"
)

// TestChineseWords: Chinese characters and punctuation are words, and so is what lies between them.
func TestChineseWords(t *testing.T) {
	const context = " 在1964年，NBA、ω-force\u3000的 U.S. team。"
	p := newPassage(context, tokenizer(t, "testdata/vocab.txt"), true)
	want := []string{"在", "1964", "年", "，", "NBA", "、", "ω", "-", "force", "的", "U", ".", "S", ".", "team", "。"}
	if !slices.Equal(p.words, want) {
		t.Errorf("words are %q, want %q", p.words, want)
	}
	for _, c := range []struct {
		i, j int
		want string
	}{{0, 2, "在1964年"}, {6, 9, "ω-force\u3000的"}, {15, 15, "。"}, {1, 1, "1964"}, {13, 14, ". team"}} {
		if got := p.text(c.i, c.j); got != c.want {
			t.Errorf("words %d to %d are %q, want %q", c.i, c.j, got, c.want)
		}
	}
	characters := p.wordOfCharacters(context)
	if len(characters) != len([]rune(context)) || characters[0] != -1 || characters[1] != 0 || characters[2] != 1 ||
		characters[5] != 1 || characters[6] != 2 {
		t.Errorf("words of characters are %v", characters)
	}
	for _, c := range []struct {
		answer      string
		given, want int
	}{{"年", 6, 6}, {"年", 0, 6}, {".", 30, 25}, {".", 0, 23}, {"日", 3, -1}, {"NBA", -5, 8}} {
		if got := p.locate(c.answer, c.given); got != c.want {
			t.Errorf("%q near %d is at %d, want %d", c.answer, c.given, got, c.want)
		}
	}
}

// chinese is a vocabulary of the characters in some texts.
func chinese(t *testing.T, texts ...string) *wordpiece.Tokenizer {
	t.Helper()
	tokens := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
	for _, r := range strings.ToLower(strings.Join(texts, "")) {
		if c := string(r); c != " " && !slices.Contains(tokens, c) {
			tokens = append(tokens, c, "##"+c)
		}
	}
	v, err := wordpiece.NewVocab("chinese", tokens)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := wordpiece.New(v, wordpiece.Google(true))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestChineseAnswers: an answer becomes the span that stands nearest to where it is said to be, and that span is
// read back as the passage has it.
func TestChineseAnswers(t *testing.T) {
	const context = "东京是日本的首都。1964年，东京 Tokyo 举办了奥运会。"
	d, err := Parse([]byte(`{"version": "v1.0", "data": [{"title": "t", "id": "1", "paragraphs": [{
		"id": "p", "context": "`+context+`", "qas": [
		{"id": "a", "question": "首都？", "answers": [{"text": "东京", "answer_start": 0}, {"text": "日本", "answer_start": 3}]},
		{"id": "b", "question": "在哪？", "answers": [{"text": "东京 Tokyo", "answer_start": 13}]},
		{"id": "c", "question": "哪年？", "answers": [{"text": "1964年", "answer_start": 9}]},
		{"id": "d", "question": "谁？", "answers": [{"text": "北京", "answer_start": 0}]}]}]}]}`), "f.json")
	if err != nil {
		t.Fatal(err)
	}
	tok := chinese(t, context, "首都在哪年谁？")
	s := Settings{MaxLength: 64, DocStride: 16, MaxQueryLength: 8, Chinese: true}
	set, err := NewSet(d, tok, s, true)
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Skipped) != 1 || set.Skipped[0].ID != "d" || !strings.Contains(set.Skipped[0].Reason, "is not in the passage") {
		t.Errorf("skipped %+v", set.Skipped)
	}
	// A model that knows the labels answers as they say.
	dec, err := NewDecoder(set, Decoding{NBest: 4, MaxAnswerLength: 20})
	if err != nil {
		t.Fatal(err)
	}
	for b := range set.Batches(8) {
		if err := b.Validate(bert.Defaults(), bert.Head{Task: bert.QuestionAnswering}, true); err != nil {
			t.Fatal(err)
		}
		starts, ends := make([]float32, b.Size*b.Length), make([]float32, b.Size*b.Length)
		for i := range b.Size {
			starts[i*b.Length+int(b.StartPositions[i])], ends[i*b.Length+int(b.EndPositions[i])] = 5, 5
		}
		if err := dec.Add(b, starts, ends); err != nil {
			t.Fatal(err)
		}
	}
	p, err := dec.Predictions()
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{"a": "东京", "b": "东京 Tokyo", "c": "1964年"} {
		if got := p.Answers()[id]; got != want {
			t.Errorf("the answer to %s is %q, want %q", id, got, want)
		}
	}
}

// TestChineseReference: all published training answers are found, five of them not where they are said to be, and a
// model that knows the labels says them.
func TestChineseReference(t *testing.T) {
	v, err := wordpiece.Load(reference.Path(t, "data", "vocab", "bert-base-chinese-vocab.txt"))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := wordpiece.New(v, wordpiece.Google(true))
	if err != nil {
		t.Fatal(err)
	}
	d, err := Read(reference.Path(t, "data", "clue", "cmrc2018", "cmrc2018_trial.json"))
	if err != nil {
		t.Fatal(err)
	}
	set, err := NewSet(d, tok, Settings{MaxLength: 512, DocStride: 128, MaxQueryLength: 64, Chinese: true}, true)
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Skipped) > 0 {
		t.Errorf("%d of %d questions are left out, the first is %+v", len(set.Skipped), d.Questions(), set.Skipped[0])
	}
	dec, err := NewDecoder(set, Decoding{NBest: 2, MaxAnswerLength: 200})
	if err != nil {
		t.Fatal(err)
	}
	for b := range set.Batches(64) {
		starts, ends := make([]float32, b.Size*b.Length), make([]float32, b.Size*b.Length)
		for i := range b.Size {
			starts[i*b.Length+int(b.StartPositions[i])], ends[i*b.Length+int(b.EndPositions[i])] = 5, 5
		}
		if err := dec.Add(b, starts, ends); err != nil {
			t.Fatal(err)
		}
	}
	p, err := dec.Predictions()
	if err != nil {
		t.Fatal(err)
	}
	answers := p.Answers()
	right := 0
	for q := range d.all() {
		if len(q.Answers) > 0 && answers[q.ID] == q.Answers[0].Text {
			right++
		}
	}
	// The rest are longer than a window, begin or end within a word of another script, or with white space.
	if n := set.Questions(); right < n*99/100 {
		t.Errorf("%d of %d answers come back as they were", right, n)
	}
}
