package pretraining_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"harness.invalid/core/dataset/pretraining"
	"harness.invalid/core/wordpiece"
	"pgregory.net/rapid"
)

// words is a vocabulary of twenty words with one to three tokens each: w0 is w0, w1 is w1 ##a, w2 is w2 ##a ##b.
func words(t testing.TB, without ...string) *wordpiece.Tokenizer {
	t.Helper()
	var tokens []string
	for _, token := range append([]string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "##a", "##b"}, numbered(20)...) {
		missing := false
		for _, w := range without {
			missing = missing || w == token
		}
		if !missing {
			tokens = append(tokens, token)
		}
	}
	v, err := wordpiece.NewVocab("words.txt", tokens)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := wordpiece.New(v, wordpiece.Google(true))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func numbered(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("w%02d", i)
	}
	return list
}

func settings() pretraining.GenerationSettings {
	return pretraining.GenerationSettings{DupeFactor: 2, MaxSeqLength: 20, MaxPredictions: 4, ShortSeqProb: 0.1, MaskedLMProb: 0.15}
}

func TestGenerateErrors(t *testing.T) {
	set := func(change func(*pretraining.GenerationSettings)) pretraining.GenerationSettings {
		s := settings()
		change(&s)
		return s
	}
	for _, c := range []struct {
		name, text string
		without    string
		settings   pretraining.GenerationSettings
		want       string
	}{
		{"empty", "", "", settings(), "text t.txt: no sentence: invalid text"},
		{"blank", "\n \n\u3000\n", "", settings(), "text t.txt: no sentence: invalid text"},
		{"nothing but control characters", "\x01\x02\n", "", settings(), "text t.txt: no sentence: invalid text"},
		{"not UTF-8", "w01 w02\nw0\xffw\n", "", settings(), "text t.txt:2:3: byte 0xff is not UTF-8: invalid text"},
		{"no mask", "w01\n", "[MASK]", settings(), "pretraining: words.txt: none of its 27 tokens is [MASK]: invalid vocabulary"},
		{"no separator", "w01\n", "[SEP]", settings(), "pretraining: words.txt: none of its 27 tokens is [SEP]: invalid vocabulary"},
		{"short", "w01\n", "", set(func(s *pretraining.GenerationSettings) { s.MaxSeqLength = 4 }), "max_seq_length is 4, want 5"},
		{"predictions", "w01\n", "", set(func(s *pretraining.GenerationSettings) { s.MaxPredictions = 0 }),
			"max_predictions_per_seq is 0, want 1 to max_seq_length 20"},
		{"probability", "w01\n", "", set(func(s *pretraining.GenerationSettings) { s.MaskedLMProb = math.NaN() }), "masked_lm_prob is NaN"},
		{"short probability", "w01\n", "", set(func(s *pretraining.GenerationSettings) { s.ShortSeqProb = 2 }), "short_seq_prob is 2"},
		{"dupe factor", "w01\n", "", set(func(s *pretraining.GenerationSettings) { s.DupeFactor = 0 }), "dupe_factor is 0, want at least 1"},
	} {
		var without []string
		if c.without != "" {
			without = []string{c.without}
		}
		_, err := pretraining.Generate(strings.NewReader(c.text), "t.txt", words(t, without...), c.settings)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v, want %q", c.name, err, c.want)
		}
		if strings.Contains(c.want, "text t.txt") && !errors.Is(err, pretraining.ErrInvalid) {
			t.Errorf("%s: error is not ErrInvalid", c.name)
		}
	}
}

// TestLongLine: a line longer than the reader's buffer is one sentence.
func TestLongLine(t *testing.T) {
	text := strings.Repeat("w01 ", 1<<19) + "\nw02\n\nw03"
	g, err := pretraining.Generate(strings.NewReader(text), "t.txt", words(t), settings())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(g.Instances); n != 4 && n != 6 {
		t.Errorf("%d instances of two documents of two and one sentences twice, want 4 or 6", n)
	}
}

// TestOneSentence: a document of one sentence that is the only one is followed by itself, as published.
func TestOneSentence(t *testing.T) {
	g, err := pretraining.Generate(strings.NewReader("w00 w03 w06"), "t.txt", words(t), settings())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range g.Instances {
		if !i.RandomNext || len(i.InputIDs) != 9 || i.FirstLength != 5 {
			t.Errorf("instance is %+v, want the sentence twice, the second time as a random one", i)
		}
	}
}

// TestInstances: whatever the text and the settings, instances have the form that BERT expects.
func TestInstances(t *testing.T) {
	tok := words(t)
	id := func(token string) int32 { i, _ := tok.Vocab().ID(token); return i }
	cls, sep, mask := id("[CLS]"), id("[SEP]"), id("[MASK]")
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		for range rapid.IntRange(1, 8).Draw(t, "documents") {
			for range rapid.IntRange(1, 6).Draw(t, "sentences") {
				for range rapid.IntRange(1, 12).Draw(t, "words") {
					n := rapid.IntRange(0, 19).Draw(t, "word")
					fmt.Fprintf(&text, "w%02d%s ", n, []string{"", "a", "ab"}[n%3])
				}
				text.WriteString(".\n")
			}
			text.WriteString("\n")
		}
		s := pretraining.GenerationSettings{
			RandomSeed: rapid.Int64().Draw(t, "seed"), DupeFactor: rapid.IntRange(1, 3).Draw(t, "dupe"), MaxSeqLength: rapid.IntRange(5,
				40).Draw(t, "length"),
			MaxPredictions: rapid.IntRange(1, 5).Draw(t, "predictions"), ShortSeqProb: rapid.Float64Range(0, 1).Draw(t, "short"),
			MaskedLMProb: rapid.Float64Range(0.01, 1).Draw(t, "masked"), WholeWord: rapid.Bool().Draw(t, "whole"),
		}
		g, err := pretraining.Generate(strings.NewReader(text.String()), "t.txt", tok, s)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range g.Instances {
			n := len(i.InputIDs)
			if n < 5 || n > s.MaxSeqLength {
				t.Fatalf("instance has %d tokens, want 5 to %d", n, s.MaxSeqLength)
			}
			if i.InputIDs[0] != cls || i.InputIDs[i.FirstLength-1] != sep || i.InputIDs[n-1] != sep || i.FirstLength < 3 || i.FirstLength > n-2 {
				t.Fatalf("instance is not [CLS] A [SEP] B [SEP]: %v, A ends at %d", i.InputIDs, i.FirstLength)
			}
			want := min(s.MaxPredictions, max(1, int(math.RoundToEven(float64(n)*s.MaskedLMProb))), n-3)
			if p := len(i.MaskedLMPositions); p != want && !(s.WholeWord && p < want) || p != len(i.MaskedLMIDs) {
				t.Fatalf("%d positions and %d ids to predict, want %d", p, len(i.MaskedLMIDs), want)
			}
			original := append([]int32(nil), i.InputIDs...)
			last := int32(0)
			for j, p := range i.MaskedLMPositions {
				if p <= last || int(p) >= n-1 || int(p) == i.FirstLength-1 {
					t.Fatalf("positions are %v, want ascending ones of no special token", i.MaskedLMPositions)
				}
				last, original[p] = p, i.MaskedLMIDs[j]
			}
			for j, id := range original {
				if id == mask || (id == cls || id == sep) != (j == 0 || j == i.FirstLength-1 || j == n-1) {
					t.Fatalf("original text %v has special tokens", original)
				}
			}
		}
	})
}

// TestWholeWords: no word is masked in part, but for one that truncation has cut.
func TestWholeWords(t *testing.T) {
	tok := words(t)
	s := settings()
	s.WholeWord, s.MaxPredictions, s.MaskedLMProb, s.DupeFactor, s.MaxSeqLength = true, 20, 0.3, 50, 40
	g, err := pretraining.Generate(strings.NewReader("w01a w02ab w05ab w04a .\nw03 w08ab .\n\nw11ab w10a .\nw00 .\n"), "t.txt", tok, s)
	if err != nil {
		t.Fatal(err)
	}
	groups := 0
	for _, i := range g.Instances {
		original := append([]int32(nil), i.InputIDs...)
		predicted := map[int]bool{}
		for j, p := range i.MaskedLMPositions {
			original[p], predicted[int(p)] = i.MaskedLMIDs[j], true
		}
		for j := 1; j < len(original); j++ {
			if strings.HasPrefix(tok.Vocab().Token(original[j]), "##") {
				groups++
				if predicted[j] != predicted[j-1] {
					t.Fatalf("a word is masked in part at %d: %v of %v", j, i.MaskedLMPositions, original)
				}
			}
		}
	}
	if groups < 100 {
		t.Fatalf("only %d continuing tokens were seen", groups)
	}
}

// TestProportions: 80% masks, 10% kept, 10% random. The bounds are five standard deviations of the binomial for the
// number drawn, and a random token is the original one time in 28.
func TestProportions(t *testing.T) {
	tok := words(t)
	var text strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&text, "w%02d w%02d w%02d w%02d w%02d w%02d .\n", i%20, i*7%20, i*3%20, i*11%20, i*13%20, i/20%20)
		if i%100 == 0 {
			text.WriteString("\n")
		}
	}
	s := settings()
	s.MaxSeqLength, s.MaxPredictions, s.DupeFactor = 64, 20, 5
	g, err := pretraining.Generate(strings.NewReader(text.String()), "t.txt", tok, s)
	if err != nil {
		t.Fatal(err)
	}
	mask, _ := tok.Vocab().ID("[MASK]")
	var n, masks, kept, random float64
	for _, i := range g.Instances {
		if i.RandomNext {
			random++
		}
		for j, p := range i.MaskedLMPositions {
			n++
			switch i.InputIDs[p] {
			case mask:
				masks++
			case i.MaskedLMIDs[j]:
				kept++
			}
		}
	}
	near := func(what string, got, n, p float64) {
		if d := math.Abs(got/n - p); d > 5*math.Sqrt(p*(1-p)/n) {
			t.Errorf("%s: %.4f of %.0f, want %.4f", what, got/n, n, p)
		}
	}
	vocab := float64(tok.Vocab().Len())
	near("masks", masks, n, 0.8+0.1/vocab)
	near("kept", kept, n, 0.1+0.1/vocab)
	if got := random / float64(len(g.Instances)); got < 0.5 || got > 0.6 {
		t.Errorf("random next sentences: %.3f, want a half and the documents' last sentences", got)
	}
}
