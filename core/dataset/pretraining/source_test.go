package pretraining_test

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/dataset"
	"harness.invalid/core/dataset/pretraining"
	"harness.invalid/core/internal/reference"
	"pgregory.net/rapid"
)

func options() pretraining.Options {
	return pretraining.Options{
		Settings: pretraining.Settings{MaxLength: 16, MaxPredictions: 3, ShortProb: 0.1, MaskedProb: 0.15},
		Batch:    4, Seed: 1, DupeFactor: 2, BlockDocuments: 7,
	}
}

func source(t testing.TB, c *pretraining.Corpus, o pretraining.Options) *pretraining.Source {
	t.Helper()
	s, err := pretraining.NewSource(c, words(t), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func next(t testing.TB, s dataset.Source) *bert.Batch {
	t.Helper()
	b, err := s.Next()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSourceErrors(t *testing.T) {
	c := open(t, write(t, "text", small(30)))
	lone := open(t, write(t, "text", "w01\nw02\n"))
	void := open(t, write(t, "text", "\x01\n\n\x02\n\n\x03\n"))
	set := func(change func(*pretraining.Options)) pretraining.Options {
		o := options()
		change(&o)
		return o
	}
	for _, e := range []struct {
		corpus  *pretraining.Corpus
		options pretraining.Options
		want    string
	}{
		{c, set(func(o *pretraining.Options) { o.Batch = 0 }), "a batch of 0 sequences"},
		{c, set(func(o *pretraining.Options) { o.DupeFactor = -1 }), "dupe_factor is -1"},
		{c, set(func(o *pretraining.Options) { o.HeldOut = 1 }), "1 of the documents are held out"},
		{c, set(func(o *pretraining.Options) { o.HeldOut = 0.97 }), "text: 30 documents, want at least 31, of which 29 are held out"},
		{c, set(func(o *pretraining.Options) { o.BlockDocuments = 1 }), "blocks of 1 documents"},
		{c, set(func(o *pretraining.Options) { o.MaxLength = 3 }), "max_seq_length is 3"},
		{lone, options(), "text: 1 document, want at least 2"},
	} {
		if _, err := pretraining.NewSource(e.corpus, words(t), e.options); err == nil || !strings.Contains(err.Error(), e.want) {
			t.Errorf("error is %v, want %q", err, e.want)
		}
	}
	if _, err := pretraining.NewSource(c, words(t, "[MASK]"), options()); err == nil || !strings.Contains(err.Error(), "[MASK]") {
		t.Errorf("without [MASK] the error is %v", err)
	}
	if _, err := source(t, void, options()).Next(); err == nil || !strings.Contains(err.Error(), "leaves no token of 3 documents") {
		t.Errorf("text of control characters: error is %v", err)
	}
	s := source(t, c, options())
	if _, err := s.Evaluation(10, 4); err == nil || !strings.Contains(err.Error(), "no document is held out") {
		t.Errorf("evaluation without held-out documents: error is %v", err)
	}
	for _, p := range []dataset.Position{{Epoch: -1}, {Block: 5}, {Block: 1, Index: 1 << 20}} {
		if err := s.Seek(p); err == nil {
			t.Errorf("seek to %+v is no error", p)
		}
	}
}

// TestChangedFile: a file that has shrunk since it was opened is an error, not other text.
func TestChangedFile(t *testing.T) {
	path := write(t, "text", small(30))
	s := source(t, open(t, path), options())
	if err := os.Truncate(path, 40); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Next(); err == nil || !strings.Contains(err.Error(), "shorter than when it was opened") {
		t.Errorf("error is %v", err)
	}
}

// TestSeek: from any position on, a new source deals what the first one dealt.
func TestSeek(t *testing.T) {
	c := open(t, write(t, "text", small(45)))
	rapid.Check(t, func(r *rapid.T) {
		o := options()
		o.Seed = rapid.Uint64().Draw(r, "seed")
		o.DupeFactor = rapid.IntRange(0, 3).Draw(r, "dupe")
		o.BlockDocuments = rapid.IntRange(2, 60).Draw(r, "block")
		o.BlockBytes = int64(rapid.IntRange(0, 500).Draw(r, "bytes"))
		o.Batch = rapid.IntRange(1, 30).Draw(r, "batch")
		o.WholeWord = rapid.Bool().Draw(r, "whole")
		first := source(t, c, o)
		for range rapid.IntRange(0, 20).Draw(r, "skipped") {
			next(t, first)
		}
		second := source(t, c, o)
		if err := second.Seek(first.Position()); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if a, b := next(t, first), next(t, second); !reflect.DeepEqual(a, b) {
				t.Fatalf("batches differ from position on: %+v and %+v", a, b)
			}
			if first.Position() != second.Position() {
				t.Fatalf("positions are %+v and %+v", first.Position(), second.Position())
			}
		}
	})
}

// TestBatches: batches are what the model takes, and an epoch deals every document of the training part once and
// none of the others.
func TestBatches(t *testing.T) {
	const n = 200
	c := open(t, write(t, "text", small(n/2)), write(t, "more", strings.ReplaceAll(small(n), small(n/2), "")))
	o := options()
	o.HeldOut, o.ShortProb, o.Batch = 0.1, 0, 1
	s := source(t, c, o)
	if training, held := s.Documents(); training != n-n/10 || held != n/10 {
		t.Fatalf("%d documents for training and %d for evaluation, want %d and %d", training, held, n-n/10, n/10)
	}
	vocab := words(t).Vocab()
	config := bert.Defaults()
	config.VocabSize, config.MaxPositionEmbeddings = vocab.Len(), 16

	// A document has 8 tokens in two sentences and target length 13: one instance whose A is its first sentence,
	// unless B was random and the second sentence is used again.
	document := func(b *bert.Batch) string {
		original := slices.Clone(b.InputIDs)
		for j, p := range b.MaskedLMPositions {
			if b.MaskedLMWeights[j] == 1 {
				original[p] = b.MaskedLMIDs[j]
			}
		}
		return vocab.Token(original[1]) + vocab.Token(original[2])
	}
	seen := map[string]int{}
	for s.Position().Epoch == 0 {
		b := next(t, s)
		if err := b.Validate(config, bert.Head{Task: bert.Pretraining}, true); err != nil {
			t.Fatal(err)
		}
		if s.Position().Epoch == 0 {
			seen[document(b)]++
		}
	}
	if len(seen) != n-n/10 {
		t.Errorf("an epoch has %d documents, want %d", len(seen), n-n/10)
	}
	for d, times := range seen {
		if times > 2 {
			t.Errorf("document %s comes %d times", d, times)
		}
	}
	evaluation, err := s.Evaluation(1<<20, 3)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, b := range evaluation {
		if err := b.Validate(config, bert.Head{Task: bert.Pretraining}, true); err != nil {
			t.Fatal(err)
		}
		if b.Sample != total {
			t.Errorf("batch starts at sample %d, want %d", b.Sample, total)
		}
		for i := range b.Size {
			if d := document(b.Slice(i, i+1)); seen[d] > 0 {
				t.Errorf("document %s is for evaluation and for training", d)
			}
			total++
		}
	}
	if total < n/10 {
		t.Errorf("%d sequences for evaluation, want at least one for each of %d documents", total, n/10)
	}
	again, err := s.Evaluation(5, 3)
	if err != nil || len(again) != 2 || again[1].Size != 2 || !reflect.DeepEqual(again[0], evaluation[0]) {
		t.Errorf("five sequences in batches of three are not the first five: %v, %v", again, err)
	}
}

// TestMasking: static instances come again after DupeFactor epochs, in another order; dynamic ones do not.
func TestMasking(t *testing.T) {
	c := open(t, write(t, "text", small(60)))
	epochs := func(dupe int) [][]string {
		o := options()
		o.DupeFactor, o.Batch = dupe, 1
		s := source(t, c, o)
		list := make([][]string, 6)
		for {
			b := next(t, s)
			e := s.Position().Epoch
			if e == len(list) {
				return list
			}
			list[e] = append(list[e], fmt.Sprint(b.InputIDs, b.MaskedLMPositions, b.NextSentenceLabels))
		}
	}
	same := func(a, b []string) bool {
		a, b = slices.Clone(a), slices.Clone(b)
		slices.Sort(a)
		slices.Sort(b)
		return slices.Equal(a, b)
	}
	static := epochs(2)
	for e := range 4 {
		if !same(static[e], static[e+2]) {
			t.Errorf("dupe factor 2: epochs %d and %d have different instances", e, e+2)
		}
		if slices.Equal(static[e], static[e+2]) {
			t.Errorf("dupe factor 2: epochs %d and %d have the same order", e, e+2)
		}
		if same(static[e], static[e+1]) {
			t.Errorf("dupe factor 2: epochs %d and %d have the same instances", e, e+1)
		}
	}
	dynamic := epochs(0)
	for e := range dynamic {
		for f := range e {
			if same(dynamic[e], dynamic[f]) {
				t.Errorf("dynamic: epochs %d and %d have the same instances", f, e)
			}
		}
	}
	if !slices.Equal(dynamic[0], epochs(0)[0]) {
		t.Error("the same seed gives other batches")
	}
}

// TestRealText counts the documents of a real corpus and deals some of it.
func TestRealText(t *testing.T) {
	c := open(t, reference.Path(t, "data", "corpus", "wiki_en.txt"))
	if c.Documents() != 22904 || c.Sentences() != 415695 {
		t.Errorf("%d documents and %d sentences, want 22904 and 415695", c.Documents(), c.Sentences())
	}
	tok := googleTokenizer(t, reference.Path(t, "data", "vocab", "bert-base-uncased-vocab.txt"))
	s, err := pretraining.NewSource(c, tok, pretraining.Options{
		Settings: pretraining.Settings{MaxLength: 128, MaxPredictions: 20, ShortProb: 0.1, MaskedProb: 0.15}, Batch: 32, HeldOut: 0.01,
	})
	if err != nil {
		t.Fatal(err)
	}
	config := bert.Defaults()
	for range 10 {
		if err := next(t, s).Validate(config, bert.Head{Task: bert.Pretraining}, true); err != nil {
			t.Fatal(err)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	c := open(b, reference.Path(b, "data", "corpus", "wiki_en.txt"))
	tok := googleTokenizer(b, reference.Path(b, "data", "vocab", "bert-base-uncased-vocab.txt"))
	s, err := pretraining.NewSource(c, tok, pretraining.Options{
		Settings: pretraining.Settings{MaxLength: 128, MaxPredictions: 20, ShortProb: 0.1, MaskedProb: 0.15}, Batch: 32,
	})
	if err != nil {
		b.Fatal(err)
	}
	tokens := 0
	for b.Loop() {
		batch := next(b, s)
		for _, m := range batch.AttentionMask {
			tokens += int(m)
		}
	}
	b.ReportMetric(float64(tokens)/b.Elapsed().Seconds()/1e6, "Mtokens/s")
}
