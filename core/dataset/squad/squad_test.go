package squad_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/dataset"
	"harness.invalid/core/dataset/squad"
	"harness.invalid/core/internal/reference"
	"harness.invalid/core/score"
	"harness.invalid/core/wordpiece"
	"pgregory.net/rapid"
)

func uncased(t testing.TB) *wordpiece.Tokenizer {
	t.Helper()
	v, err := wordpiece.Load(reference.Path(t, "data", "vocab", "bert-base-uncased-vocab.txt"))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := wordpiece.New(v, wordpiece.Google(true))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func data(t testing.TB, name string) *squad.Data {
	t.Helper()
	d, err := squad.Read(reference.Path(t, "data", "squad", name))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

var published = squad.Settings{MaxLength: 384, DocStride: 128, MaxQueryLength: 64}

// TestDevSet: run_squad.py logs 10,833 split examples for the 10,570 questions of the dev set at 384 tokens and
// stride 128.
func TestDevSet(t *testing.T) {
	d := data(t, "dev-v1.1.json")
	s, err := squad.NewSet(d, uncased(t), published, false)
	if err != nil {
		t.Fatal(err)
	}
	if s.Questions() != 10570 || s.Len() != 10833 {
		t.Errorf("%d questions and %d features, want 10570 and 10833", s.Questions(), s.Len())
	}
}

// TestGoldLogits: a model that is sure of every label gets the answers right. What is lost is what the published
// chain loses: answers that are part of a word ("gold" of "golden"), and those of more than 30 tokens, 36 of the
// 10,570 questions together.
func TestGoldLogits(t *testing.T) {
	d := data(t, "dev-v1.1.json")
	if testing.Short() {
		d.Articles = d.Articles[:12]
	}
	var golds []score.Question
	for _, a := range d.Articles {
		for _, p := range a.Paragraphs {
			for k := range p.Questions {
				q := &p.Questions[k]
				gold := score.Question{ID: q.ID}
				for _, answer := range q.Answers {
					gold.Answers = append(gold.Answers, answer.Text)
				}
				golds = append(golds, gold)
				q.Answers = q.Answers[:1]
			}
		}
	}
	s, err := squad.NewSet(d, uncased(t), published, true)
	if err != nil {
		t.Fatal(err)
	}
	decoder, err := squad.NewDecoder(s, squad.Decoding{NBest: 20, MaxAnswerLength: 30})
	if err != nil {
		t.Fatal(err)
	}
	for b := range s.Batches(64) {
		starts, ends := make([]float32, b.Size*b.Length), make([]float32, b.Size*b.Length)
		for i := range b.Size {
			starts[i*b.Length+int(b.StartPositions[i])] = 10
			ends[i*b.Length+int(b.EndPositions[i])] = 10
		}
		if err := decoder.Add(b, starts, ends); err != nil {
			t.Fatal(err)
		}
	}
	predictions, err := decoder.Predictions()
	if err != nil {
		t.Fatal(err)
	}
	got, err := score.SQuAD(slices.Values(golds), predictions.Answers())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("exact match %.2f, F1 %.2f of %d questions, %d skipped", got.ExactMatch, got.F1, got.Total, len(s.Skipped))
	if got.ExactMatch < 99.5 || got.F1 < 99.5 {
		t.Errorf("exact match is %.2f and F1 %.2f of %d questions, %d skipped, want at least 99.5", got.ExactMatch, got.F1, got.Total,
			len(s.Skipped))
	}
}

func next(t testing.TB, s dataset.Source) *bert.Batch {
	t.Helper()
	b, err := s.Next()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// questions is a set of n features, each with a passage of its own.
func questions(t testing.TB, n int) *squad.Set {
	d := &squad.Data{Name: "made", Articles: []squad.Article{{}}}
	for i := range n {
		context := strings.Repeat("a ", i+1) + "b"
		d.Articles[0].Paragraphs = append(d.Articles[0].Paragraphs, squad.Paragraph{Context: context, Questions: []squad.Question{
			{ID: context, Text: "c", Answers: []squad.Answer{{Start: 2*i + 2, Text: "b"}}},
		}})
	}
	s, err := squad.NewSet(d, letters(t, ""), settings, true)
	if err != nil {
		t.Fatal(err)
	}
	if s.Len() != n {
		t.Fatalf("%d features, want %d", s.Len(), n)
	}
	return s
}

// TestSource: each epoch deals every feature once, and from any position a new source deals the same.
func TestSource(t *testing.T) {
	const n = 30
	set := questions(t, n)
	rapid.Check(t, func(r *rapid.T) {
		seed, batch := rapid.Uint64().Draw(r, "seed"), rapid.IntRange(1, 50).Draw(r, "batch")
		first, err := squad.NewSource(set, batch, seed)
		if err != nil {
			t.Fatal(err)
		}
		var dealt []int32
		for range rapid.IntRange(0, 20).Draw(r, "skipped") {
			b := next(t, first)
			if b.Size != batch || b.Sample != 0 {
				t.Fatalf("batch of %d sequences from sample %d, want %d from 0", b.Size, b.Sample, batch)
			}
			dealt = append(dealt, b.StartPositions...) // which differ from feature to feature
		}
		for start := 0; start+n <= len(dealt); start += n {
			epoch := slices.Clone(dealt[start : start+n])
			slices.Sort(epoch)
			if len(slices.Compact(epoch)) != n {
				t.Fatalf("an epoch does not have all features: %v", epoch)
			}
			if start > 0 && slices.Equal(dealt[start-n:start], dealt[start:start+n]) {
				t.Fatal("two epochs have the same order")
			}
		}
		second, err := squad.NewSource(set, batch, seed)
		if err != nil {
			t.Fatal(err)
		}
		if err := second.Seek(first.Position()); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if a, b := next(t, first), next(t, second); !reflect.DeepEqual(a, b) || first.Position() != second.Position() {
				t.Fatalf("after Seek the batches are %v and %v", a, b)
			}
		}
	})
	s, err := squad.NewSource(set, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []dataset.Position{{Epoch: -1}, {Block: 1}, {Index: -1}, {Index: n + 1}} {
		if err := s.Seek(p); err == nil {
			t.Errorf("seek to %+v is no error", p)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	path := reference.Path(b, "data", "squad", "dev-v1.1.json")
	for b.Loop() {
		if _, err := squad.Read(path); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNewSet(b *testing.B) {
	d, tok := data(b, "dev-v1.1.json"), uncased(b)
	for b.Loop() {
		if _, err := squad.NewSet(d, tok, published, false); err != nil {
			b.Fatal(err)
		}
	}
}
