package wordpiece_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"harness.invalid/core/internal/reference"
	"harness.invalid/core/wordpiece"
)

// TestTrainByHand follows the rule on a text small enough for paper: hug ×10, pug ×5, pun ×12, bun ×4, hugs ×5 (the
// example of Hugging Face's course, chapter 6). By frequency ##u ##g (20) goes first; by likelihood ##g ##s (5 /
// 20·5) does, which the course shows too.
func TestTrainByHand(t *testing.T) {
	text := strings.Repeat("hug ", 10) + strings.Repeat("pug ", 5) + strings.Repeat("pun ", 12) + strings.Repeat("bun ",
		4) + strings.Repeat("hugs ", 5)
	for _, c := range []struct {
		score wordpiece.Score
		want  []string
	}{
		// ##u ##g 20; ##u ##n 16 and h ##ug 15: then p ##un 12.
		{wordpiece.Frequency, []string{"##ug", "##un", "hug", "pun"}},
		// ##g ##s 5/(20·5); then h, p and b with ##u are equal at 1/36, and count 17 for p ##u is the highest; with 19 of ##u left h and b
		// are equal again at 1/19, h ##u has count 15; then b ##u.
		{wordpiece.Likelihood, []string{"##gs", "pu", "hu", "bu"}},
	} {
		v, err := wordpiece.Train(wordpiece.TrainOptions{Options: wordpiece.Google(true), Size: 5 + 14 + 4, Score: c.score},
			strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		alphabet := []string{"b", "g", "h", "n", "p", "s", "u", "##b", "##g", "##h", "##n", "##p", "##s", "##u"}
		want := slices.Concat([]string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}, alphabet, c.want)
		if got := tokens(v); !slices.Equal(got, want) {
			t.Errorf("score %d:\n got %q\nwant %q", c.score, got, want)
		}
	}
}

func tokens(v *wordpiece.Vocab) []string {
	var all []string
	for id := range v.Len() {
		all = append(all, v.Token(int32(id)))
	}
	return all
}

// naiveTrain counts everything anew for every merge.
func naiveTrain(text string, size int, score wordpiece.Score, minimum int) []string {
	out := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
	var words [][]string
	begin, inside := map[string]bool{}, map[string]bool{}
	for _, f := range strings.Fields(text) {
		var word []string
		for i, c := range strings.Split(f, "") {
			begin[c] = true
			if len([]rune(f)) > 1 {
				inside["##"+c] = true
			}
			if i > 0 {
				c = "##" + c
			}
			word = append(word, c)
		}
		words = append(words, word)
	}
	for _, set := range []map[string]bool{begin, inside} {
		var chars []string
		for c := range set {
			chars = append(chars, c)
		}
		slices.Sort(chars)
		out = append(out, chars...)
	}
	for len(out) < size {
		single, double := map[string]int{}, map[[2]string]int{}
		for _, w := range words {
			for i, s := range w {
				single[s]++
				if i > 0 {
					double[[2]string{w[i-1], s}]++
				}
			}
		}
		value := func(p [2]string) float64 {
			if score == wordpiece.Likelihood {
				return float64(double[p]) / (float64(single[p[0]]) * float64(single[p[1]]))
			}
			return float64(double[p])
		}
		place := func(s string) int { return slices.Index(out, s) }
		var best [2]string
		for p, n := range double {
			if n < minimum {
				continue
			}
			better := best[0] == "" || value(p) > value(best) || value(p) == value(best) && (n > double[best] ||
				n == double[best] && (place(p[0]) < place(best[0]) || p[0] == best[0] && place(p[1]) < place(best[1])))
			if better {
				best = p
			}
		}
		if best[0] == "" {
			break
		}
		whole := best[0] + strings.TrimPrefix(best[1], "##")
		if place(whole) < 0 {
			out = append(out, whole)
		}
		for k, w := range words {
			var merged []string
			for i := 0; i < len(w); i++ {
				if i+1 < len(w) && w[i] == best[0] && w[i+1] == best[1] {
					merged = append(merged, whole)
					i++
				} else {
					merged = append(merged, w[i])
				}
			}
			words[k] = merged
		}
	}
	return out
}

// TestTrainAgainstNaive: counts kept up to date give the merges that counting anew gives, whatever the order of the
// text; and no word of the text is [UNK].
func TestTrainAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[abé]{1,9}`), 1, 25).Draw(t, "words")
		o := wordpiece.TrainOptions{
			Options:      wordpiece.Google(false),
			Size:         rapid.IntRange(11, 40).Draw(t, "size"),
			MinFrequency: int64(rapid.IntRange(1, 4).Draw(t, "least")),
			Score:        rapid.SampledFrom([]wordpiece.Score{wordpiece.Frequency, wordpiece.Likelihood}).Draw(t, "score"),
		}
		v, err := wordpiece.Train(o, strings.NewReader(strings.Join(words, " ")))
		if err != nil {
			t.Fatal(err)
		}
		want := naiveTrain(strings.Join(words, " "), o.Size, o.Score, int(o.MinFrequency))
		if got := tokens(v); !slices.Equal(got, want) {
			t.Fatalf("got %q\nwant %q", got, want)
		}
		slices.Reverse(words)
		again, err := wordpiece.Train(o, strings.NewReader(words[0]), strings.NewReader(strings.Join(words[1:], "\n")))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(tokens(again), want) {
			t.Fatal("another order of the text, another vocabulary")
		}
		tok, err := wordpiece.New(v, o.Options)
		if err != nil {
			t.Fatal(err)
		}
		if got := tok.Tokens(strings.Join(words, " ")); slices.Contains(got, wordpiece.Unk) {
			t.Fatalf("a word of the text is [UNK]: %q", got)
		}
	})
}

func TestTrainAlphabet(t *testing.T) {
	trainer, err := wordpiece.NewTrainer(wordpiece.TrainOptions{Options: wordpiece.Google(true), Size: 100, Alphabet: 3,
		Special: []string{"[UNK]"}})
	if err != nil {
		t.Fatal(err)
	}
	trainer.Add("aab aab aab aac 中")
	v, err := trainer.Train()
	if err != nil {
		t.Fatal(err)
	}
	// c and 中 occur once, and c has the lower code point. 中 never stands within a word.
	if got, want := tokens(v), []string{"[UNK]", "a", "b", "c", "##a", "##b", "##c", "aa", "aab"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if trainer.Unknown != 0.2 {
		t.Errorf("%g of the words are unknown, want 中 of 5", trainer.Unknown)
	}
}

func TestTrainErrors(t *testing.T) {
	good := wordpiece.TrainOptions{Options: wordpiece.Google(true), Size: 100}
	for name, c := range map[string]struct {
		change func(*wordpiece.TrainOptions)
		text   string
		want   string
	}{
		"no text":      {func(*wordpiece.TrainOptions) {}, " \n\x00", "has no word"},
		"small size":   {func(o *wordpiece.TrainOptions) { o.Size = 8 }, "abc", "size 8 is less than 5 special tokens and 6"},
		"alphabet":     {func(o *wordpiece.TrainOptions) { o.Alphabet = -1 }, "abc", "alphabet of -1"},
		"frequency":    {func(o *wordpiece.TrainOptions) { o.MinFrequency = -1 }, "abc", "least frequency -1"},
		"word length":  {func(o *wordpiece.TrainOptions) { o.Options.MaxCharsPerWord = 0 }, "abc", "at most 0 characters"},
		"unknown rule": {func(o *wordpiece.TrainOptions) { o.Score = 7 }, "abc", "score 7"},
		"same special": {func(o *wordpiece.TrainOptions) { o.Special = []string{"[UNK]", "a"} }, "abc", `"a" is on line 2 already`},
	} {
		o := good
		c.change(&o)
		if _, err := wordpiece.Train(o, strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

func TestTrainerCountsInvalid(t *testing.T) {
	tr, err := wordpiece.NewTrainer(wordpiece.TrainOptions{Options: wordpiece.Google(true), Size: 100})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := tr.ReadFrom(strings.NewReader("good\nba\xffd\ngood")); n != 14 || err != nil || tr.Invalid != 1 {
		t.Errorf("read %d bytes, %d invalid lines, %v, want 14 and 1", n, tr.Invalid, err)
	}
}

func TestSave(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "vocab.txt")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	v, err := wordpiece.NewVocab("test", []string{"[UNK]", "a", "##b", "\u2028"})
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Save(path); err != nil {
		t.Fatal(err)
	}
	got, err := wordpiece.Load(path)
	if err != nil || !slices.Equal(tokens(got), tokens(v)) {
		t.Errorf("read back %q, %v", tokens(got), err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("%d files, want vocab.txt alone", len(left))
	}
	if err := v.Save(filepath.Join(dir, "none", "vocab.txt")); err == nil {
		t.Error("no error for a folder that is not there")
	}
}

// BenchmarkTrain makes BERT's number of tokens from 52.7 MB of English Wikipedia.
func BenchmarkTrain(b *testing.B) {
	path := reference.Path(b, "data", "corpus", "wiki_en.txt")
	for name, o := range map[string]wordpiece.TrainOptions{
		"Frequency":  {Options: wordpiece.Google(true), Size: 30522},
		"Likelihood": {Options: wordpiece.Google(true), Size: 30522, Score: wordpiece.Likelihood, MinFrequency: 20},
	} {
		b.Run(name, func(b *testing.B) {
			var reading, merging time.Duration
			for b.Loop() {
				f, err := os.Open(path)
				if err != nil {
					b.Fatal(err)
				}
				tr, err := wordpiece.NewTrainer(o)
				if err != nil {
					b.Fatal(err)
				}
				start := time.Now()
				if _, err := tr.ReadFrom(f); err != nil {
					b.Fatal(err)
				}
				f.Close()
				reading += time.Since(start)
				start = time.Now()
				if v, err := tr.Train(); err != nil || v.Len() != o.Size {
					b.Fatalf("%v, want %d tokens", err, o.Size)
				}
				merging += time.Since(start)
			}
			b.ReportMetric(reading.Seconds()/float64(b.N), "reading-s/op")
			b.ReportMetric(merging.Seconds()/float64(b.N), "merging-s/op")
		})
	}
}
