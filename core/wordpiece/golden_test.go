package wordpiece_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/internal/reference"
	"harness.invalid/core/wordpiece"
)

func load(t testing.TB, vocab string, o wordpiece.Options) *wordpiece.Tokenizer {
	t.Helper()
	v, err := wordpiece.Load(reference.PathOrExcerpt(t, "data", "vocab", vocab))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := wordpiece.New(v, o)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestGoldenLines: every line of a corpus in many scripts gives the tokens that the reference gave, with either
// reference's options: where they differ, these lines don't go.
func TestGoldenLines(t *testing.T) {
	f, err := os.Open(reference.PathOrExcerpt(t, "golden", "tokenization", "regression_uncased.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	google := load(t, "bert-base-uncased-vocab.txt", wordpiece.Google(true))
	hugging := load(t, "bert-base-uncased-vocab.txt", wordpiece.HuggingFace(true))
	n := 0
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		n++
		text, rest, _ := strings.Cut(lines.Text(), "\t")
		want := strings.Split(rest, "\t")
		if rest == "" {
			want = nil
		}
		if got := google.Tokens(text); !slices.Equal(got, want) {
			t.Errorf("line %d: Google's options:\n got %q\nwant %q", n, got, want)
		}
		if got := hugging.Tokens(text); !slices.Equal(got, want) {
			t.Errorf("line %d: Hugging Face's options:\n got %q\nwant %q", n, got, want)
		}
	}
	if err := lines.Err(); err != nil || n != 6600 && n != 83 {
		t.Fatalf("read %d lines, want 6600 or the 83 of the excerpt: %v", n, err)
	}
}

// TestGoldenQuestions: every question of SQuAD's dev set gives the ids that the reference gave.
func TestGoldenQuestions(t *testing.T) {
	var want [][]int32
	decode(t, &want, "golden", "tokenization", "squad-dev-questions_ids.json")
	var data struct {
		Data []struct {
			Paragraphs []struct {
				Qas []struct{ Question string }
			}
		}
	}
	decode(t, &data, "data", "squad", "dev-v1.1.json")
	tok := load(t, "bert-base-uncased-vocab.txt", wordpiece.Google(true))
	n := 0
	for _, article := range data.Data {
		for _, p := range article.Paragraphs {
			for _, qa := range p.Qas {
				if got := tok.AppendIDs(nil, qa.Question); !slices.Equal(got, want[n]) {
					t.Errorf("question %d %q:\n got %d\nwant %d", n, qa.Question, got, want[n])
				}
				n++
			}
		}
	}
	if n != len(want) || n == 0 {
		t.Errorf("%d questions, want %d and some", n, len(want))
	}
}

// TestGoldenOtherSpecials: a vocabulary whose special tokens have other ids than BERT's; text and ids come from
// another team's tests.
func TestGoldenOtherSpecials(t *testing.T) {
	var want struct {
		Text     string
		InputIDs []int32 `json:"input_ids"`
	}
	dir := reference.Path(t, "golden", "bert", "tribuo-tinybert")
	decode(t, &want, "golden", "bert", "tribuo-tinybert", "golden.json")
	v, err := wordpiece.Load(filepath.Join(dir, "vocab.txt"))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := wordpiece.New(v, wordpiece.HuggingFace(true))
	if err != nil {
		t.Fatal(err)
	}
	cls, err := v.Special(wordpiece.Cls)
	if err != nil {
		t.Fatal(err)
	}
	sep, err := v.Special(wordpiece.Sep)
	if err != nil {
		t.Fatal(err)
	}
	got := append(tok.AppendIDs([]int32{cls}, want.Text), sep)
	if !slices.Equal(got, want.InputIDs) {
		t.Errorf("%q: got %d, want %d", want.Text, got, want.InputIDs)
	}
}

func decode(t *testing.T, v any, elem ...string) {
	t.Helper()
	b, err := os.ReadFile(reference.PathOrExcerpt(t, elem...))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkEnglish reads 4 MB of English Wikipedia line by line; MB/s is of text on one thread.
func BenchmarkEnglish(b *testing.B) { benchmark(b, "wiki_en.txt", "bert-base-uncased-vocab.txt") }

// BenchmarkChinese is BenchmarkEnglish for Chinese Wikipedia.
func BenchmarkChinese(b *testing.B) { benchmark(b, "wiki_zh.txt", "bert-base-chinese-vocab.txt") }

func benchmark(b *testing.B, corpus, vocab string) {
	text, err := os.ReadFile(reference.Path(b, "data", "corpus", corpus))
	if err != nil {
		b.Fatal(err)
	}
	text = text[:4<<20]
	lines := strings.Split(string(text), "\n")
	tok := load(b, vocab, wordpiece.Google(true))
	b.Run("AppendIDs", func(b *testing.B) {
		var ids []int32
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			for _, line := range lines {
				ids = tok.AppendIDs(ids[:0], line)
			}
		}
	})
	b.Run("AppendPieces", func(b *testing.B) {
		var pieces []wordpiece.Piece
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			for _, line := range lines {
				pieces = tok.AppendPieces(pieces[:0], line)
			}
		}
	})
}

// BenchmarkLoad reads BERT's vocabulary and builds its trie.
func BenchmarkLoad(b *testing.B) {
	path := reference.Path(b, "data", "vocab", "bert-base-uncased-vocab.txt")
	for b.Loop() {
		if _, err := wordpiece.Load(path); err != nil {
			b.Fatal(err)
		}
	}
}
