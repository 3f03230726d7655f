package squad_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/dataset/squad"
	"harness.invalid/core/wordpiece"
	"pgregory.net/rapid"
)

// file is a file of one question; the arguments replace parts of it.
func file(replace ...string) string {
	text := `{"version": "1.1", "data": [
 {"title": "T", "paragraphs": [
  {"context": "Zürich is a city.",
   "qas": [
    {"id": "a1", "question": "What is it?",
     "answers": [{"answer_start": 12, "text": "city"}]}
   ]}
 ]}
]}`
	return strings.NewReplacer(replace...).Replace(text)
}

func letters(t testing.TB, without string) *wordpiece.Tokenizer {
	t.Helper()
	tokens := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]"}
	for c := 'a'; c <= 'z'; c++ {
		tokens = append(tokens, string(c), "##"+string(c))
	}
	var kept []string
	for _, token := range tokens {
		if token != without {
			kept = append(kept, token)
		}
	}
	v, err := wordpiece.NewVocab("letters.txt", kept)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := wordpiece.New(v, wordpiece.Google(true))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

var settings = squad.Settings{MaxLength: 40, DocStride: 8, MaxQueryLength: 12}

func TestRead(t *testing.T) {
	d, err := squad.Parse([]byte(file(`"title"`, `"extra": {"list": [1, {"x": null}, true]}, "title"`)), "f.json")
	if err != nil {
		t.Fatal(err)
	}
	q := squad.Question{ID: "a1", Text: "What is it?", Answers: []squad.Answer{{Start: 12, Text: "city"}},
		Place: squad.Place{Line: 5, Column: 6}}
	want := []squad.Article{{Title: "T", Paragraphs: []squad.Paragraph{{Context: "Zürich is a city.", Questions: []squad.Question{q}}}}}
	if !reflect.DeepEqual(d.Articles, want) || d.Version != "1.1" {
		t.Errorf("data is %+v, want %+v", d, want)
	}
	if len(d.Digest) != 64 || d.Questions() != 1 {
		t.Errorf("digest %q, %d questions", d.Digest, d.Questions())
	}
}

// TestReadErrors: every error says where, and in which question.
func TestReadErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "f.json:1:1: the file ends within the JSON"},
		{"cut", file()[:150], "f.json:5:42: question a1: the file ends within the JSON"},
		{"syntax", file(`"qas": [`, `"qas": {`), "f.json:4:11: qas is an object, want a list"},
		{"comma", file(`"a1",`, `"a1"`), "f.json:5:17: question a1: invalid character '\"' after object key:value pair"},
		{"quote", file(`"text": "city"`, `"text": "ci`+"\n"+`ty"`), "f.json:6:50: question a1: invalid character '\\n' in string literal"},
		{"type", file(`12`, `"12"`), `f.json:6:35: question a1: answer_start is a string, want an integer of 32 bits`},
		{"fraction", file(`12`, `1.5`), `f.json:6:35: question a1: answer_start is the number 1.5, want an integer`},
		{"huge", file(`12`, `1e300`), `f.json:6:35: question a1: answer_start is the number 1e+300, want an integer`},
		{"null", file(`"What is it?"`, `null`), `f.json:5:30: question a1: question is null, want a string`},
		{"no id", file(`"id": "a1", `, ``), `f.json:5:5: a question has no key "id"`},
		{"no context", file(`"context"`, `"contexts"`), `f.json:3:3: a paragraph has no key "context"`},
		{"no text", file(`"text"`, `"txt"`), `f.json:6:18: question a1: an answer has no key "text"`},
		{"no data", `{"version": "1.1"}`, `f.json:1:1: the file has no key "data"`},
		{"no question", `{"data": []}`, `f.json:1:1: no question`},
		{"twice", file(`"version": "1.1"`, `"data": []`), `f.json:1:14: key "data" comes twice in the file`},
		{"same id", file(`{"id"`, `{"question": "?", "id": "a1"}, {"id"`), `f.json:5:43: question a1: the question at 5:6 has this id already`},
		{"not UTF-8", file(`Zürich`, "Z\xfcrich"), `f.json:3:17: context: byte 0xfc is not UTF-8`},
		{"trailing", file() + "{}", `f.json:9:3: something follows the JSON`},
		{"list", `[]`, `f.json:1:1: the file is a list, want an object`},
	} {
		_, err := squad.Parse([]byte(c.text), "f.json")
		if err == nil || !strings.Contains(err.Error(), "squad "+c.want) {
			t.Errorf("%s: error is\n%v, want\n%s", c.name, err, c.want)
		}
		if !errors.Is(err, squad.ErrInvalid) {
			t.Errorf("%s: error is not ErrInvalid", c.name)
		}
	}
}

func TestSetErrors(t *testing.T) {
	for _, c := range []struct{ name, text, without, want string }{
		{"outside", file("12", "14"), "",
			`squad f.json:5:6: question a1: answer "city" starts at character 14 and has 4, but the context has 17: invalid SQuAD file`},
		{"negative", file("12", "-1"), "", `question a1: answer "city" starts at character -1`},
		{"two answers", file(`"city"}`, `"city"}, {"text": "city", "answer_start": 12}`), "", "question a1: 2 answers, want one for training"},
		{"all skipped", file("12", "3"), "",
			`squad f.json: all of 1 questions were skipped, the first one because the answer "city" is not among the words at character 3`},
		{"empty answer", file(`"text": "city"`, `"text": ""`), "", "the first one because the answer is empty"},
		{"nothing left", file(`"text": "city"`, `"text": "is"`, "12", "7"), "", ""},
		{"no separator", file(), "[SEP]", "squad: letters.txt: none of its 55 tokens is [SEP]"},
		{"no class", file(), "[CLS]", "squad: letters.txt: none of its 55 tokens is [CLS]"},
	} {
		d, err := squad.Parse([]byte(c.text), "f.json")
		if err != nil {
			t.Fatal(err)
		}
		_, err = squad.NewSet(d, letters(t, c.without), settings, true)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error is\n%v, want\n%s", c.name, err, c.want)
		}
		if _, err := squad.NewSet(d, letters(t, ""), settings, false); err != nil {
			t.Errorf("%s: for evaluation the answers do not matter, but: %v", c.name, err)
		}
	}
	d, err := squad.Parse([]byte(file()), "f.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []squad.Settings{{MaxLength: 40, MaxQueryLength: 12}, {MaxLength: 40, DocStride: 8},
		{MaxLength: 15, DocStride: 8, MaxQueryLength: 12}, {MaxLength: 1 << 30, DocStride: 8, MaxQueryLength: 12}} {
		if _, err := squad.NewSet(d, letters(t, ""), s, true); err == nil {
			t.Errorf("settings %+v are no error", s)
		}
	}
	evaluation, err := squad.NewSet(d, letters(t, ""), settings, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := squad.NewSource(evaluation, 4, 1); err == nil || !strings.Contains(err.Error(), "has no labels") {
		t.Errorf("training on a set for evaluation: error is %v", err)
	}
	if _, err := squad.NewDecoder(evaluation, squad.Decoding{}); err == nil {
		t.Error("no candidates are no error")
	}
}

// TestSkipped: questions are counted, with place and reason, and the rest is used.
func TestSkipped(t *testing.T) {
	text := file(`{"id": "a1"`, `{"id": "a0", "question": "?", "answers": [{"answer_start": 0, "text": "city"}]}, {"id": "a1"`)
	d, err := squad.Parse([]byte(text), "f.json")
	if err != nil {
		t.Fatal(err)
	}
	s, err := squad.NewSet(d, letters(t, ""), settings, true)
	if err != nil {
		t.Fatal(err)
	}
	want := []squad.Skipped{{ID: "a0", Place: squad.Place{Line: 5, Column: 6},
		Reason: `the answer "city" is not among the words at character 0`}}
	if !reflect.DeepEqual(s.Skipped, want) || s.Questions() != 1 {
		t.Errorf("skipped %+v of %d questions, want %+v", s.Skipped, s.Questions(), want)
	}
}

// TestWriteRead: a written file reads back the same.
func TestWriteRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &squad.Data{Version: rapid.String().Draw(t, "version")}
		text := rapid.StringN(0, 20, -1)
		n := 0
		for range rapid.IntRange(1, 3).Draw(t, "articles") {
			a := squad.Article{Title: text.Draw(t, "title")}
			for range rapid.IntRange(1, 3).Draw(t, "paragraphs") {
				p := squad.Paragraph{Context: text.Draw(t, "context")}
				for range rapid.IntRange(1, 3).Draw(t, "questions") {
					n++
					q := squad.Question{ID: fmt.Sprint(n), Text: text.Draw(t, "question")}
					for range rapid.IntRange(1, 3).Draw(t, "answers") {
						q.Answers = append(q.Answers, squad.Answer{Start: rapid.IntRange(0, 100).Draw(t, "start"), Text: text.Draw(t, "text")})
					}
					p.Questions = append(p.Questions, q)
				}
				a.Paragraphs = append(a.Paragraphs, p)
			}
			d.Articles = append(d.Articles, a)
		}
		var b bytes.Buffer
		if _, err := d.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		got, err := squad.Parse(b.Bytes(), "f.json")
		if err != nil {
			t.Fatal(err)
		}
		for i := range got.Articles {
			for j := range got.Articles[i].Paragraphs {
				for k := range got.Articles[i].Paragraphs[j].Questions {
					got.Articles[i].Paragraphs[j].Questions[k].Place = squad.Place{}
				}
			}
		}
		if !reflect.DeepEqual(got.Articles, d.Articles) || got.Version != d.Version {
			t.Fatalf("read %+v, want %+v", got.Articles, d.Articles)
		}
	})
}

// FuzzParse: any file either fails with an error that has a place or goes through the whole chain.
func FuzzParse(f *testing.F) {
	f.Add([]byte(file()))
	f.Add([]byte(file("12", "3")))
	f.Add([]byte(file("city", "\\ud83d", "What is it?", "")))
	f.Add([]byte(file("Zürich is a city.", " \\u202f\\u0000 ")))
	f.Add([]byte(`{"data":[{"paragraphs":[{"context":"","qas":[{"id":"","question":""}]}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := squad.Parse(text, "f.json")
		if err != nil {
			if !errors.Is(err, squad.ErrInvalid) || !strings.HasPrefix(err.Error(), "squad f.json:") {
				t.Errorf("error without a place: %v", err)
			}
			return
		}
		tok := letters(t, "")
		config := bert.Defaults()
		config.VocabSize = tok.Vocab().Len()
		if s, err := squad.NewSet(d, tok, settings, true); err == nil {
			source, err := squad.NewSource(s, 3, 1)
			if err != nil {
				t.Fatal(err)
			}
			b, err := source.Next()
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Validate(config, bert.Head{Task: bert.QuestionAnswering}, true); err != nil {
				t.Fatal(err)
			}
		}
		s, err := squad.NewSet(d, tok, settings, false)
		if err != nil {
			t.Fatal(err)
		}
		decoder, err := squad.NewDecoder(s, squad.Decoding{NBest: 20, MaxAnswerLength: 30})
		if err != nil {
			t.Fatal(err)
		}
		for b := range s.Batches(4) {
			logits := make([]float32, b.Size*b.Length)
			if err := decoder.Add(b, logits, logits); err != nil {
				t.Fatal(err)
			}
		}
		p, err := decoder.Predictions()
		if err != nil || len(p) != d.Questions() {
			t.Fatalf("%d answers to %d questions: %v", len(p), d.Questions(), err)
		}
	})
}
