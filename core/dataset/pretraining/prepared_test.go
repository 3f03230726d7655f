package pretraining_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/dataset"
	"harness.invalid/core/dataset/pretraining"
	"harness.invalid/core/wordpiece"
)

func dealing() pretraining.Dealing {
	return pretraining.Dealing{Settings: pretraining.Settings{MaxLength: 16, MaxPredictions: 3, ShortProb: 0.1, MaskedProb: 0.15},
		Batch: 4, Seed: 9}
}

func opened(t testing.TB, dir string) *pretraining.Prepared {
	t.Helper()
	p, err := pretraining.OpenPrepared(dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func dealt(t testing.TB, p *pretraining.Prepared, d pretraining.Dealing) *pretraining.PreparedSource {
	t.Helper()
	s, err := p.Source(words(t), d)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// unmasked is a sequence of a batch as it was before it was masked, with its segments.
func unmasked(b *bert.Batch, i int) (a, second []int32) {
	ids := slices.Clone(b.InputIDs[i*b.Length : (i+1)*b.Length])
	for j := range b.Predictions {
		if at := i*b.Predictions + j; b.MaskedLMWeights[at] > 0 {
			ids[b.MaskedLMPositions[at]] = b.MaskedLMIDs[at]
		}
	}
	for j := range b.Length {
		switch at := i*b.Length + j; {
		case b.AttentionMask[at] == 0:
		case b.TokenTypeIDs[at] == 0:
			a = append(a, ids[j])
		default:
			second = append(second, ids[j])
		}
	}
	return a, second
}

// epoch deals one epoch and returns its batches. The number of sequences must be a multiple of the batch.
func epoch(t testing.TB, s *pretraining.PreparedSource, batch int) []*bert.Batch {
	t.Helper()
	var list []*bert.Batch
	for range int(s.Sequences()) / batch {
		list = append(list, next(t, s))
	}
	return list
}

// TestPreparedContent looks at every sequence: they are pairs of segments of the text, each is dealt once in an
// epoch, and what is held out stays out.
func TestPreparedContent(t *testing.T) {
	of := preparation()
	of.DupeFactor = 40
	p := opened(t, prepare(t, 20, of)) // document i has the words w00 and that of its number
	if p.Documents != 18 || p.HeldOutDocuments != 2 || len(p.Shards) != 4 {
		t.Fatalf("%d documents, %d held out, %d shards, want 18, 2 and 4", p.Documents, p.HeldOutDocuments, len(p.Shards))
	}
	d := dealing()
	d.Batch = 1
	s := dealt(t, p, d)
	if s.Sequences() < 40*18 {
		t.Errorf("%d sequences, want one at least of each document in each duplicate", s.Sequences())
	}
	v := words(t).Vocab()
	document := func(segment []int32) string {
		name := ""
		for _, id := range segment {
			if w := v.Token(id); strings.HasPrefix(w, "w") && (name == "" || w != "w00") {
				name = w
			}
		}
		return name
	}
	training := map[string]bool{}
	random, tokens := 0, int64(0)
	for _, b := range epoch(t, s, 1) {
		a, second := unmasked(b, 0)
		tokens += int64(len(a) + len(second))
		if v.Token(a[0]) != wordpiece.Cls || v.Token(a[len(a)-1]) != wordpiece.Sep || v.Token(second[len(second)-1]) != wordpiece.Sep {
			t.Fatalf("segments are %v and %v, want [CLS] A [SEP] and B [SEP]", a, second)
		}
		if n := len(a) + len(second); n > 16 {
			t.Errorf("a sequence has %d tokens", n)
		}
		random += int(b.NextSentenceLabels[0])
		if len(a) > 3 { // else the segment may have been cut to the word that all documents have
			training[document(a)] = true
		}
		if b.NextSentenceLabels[0] == 0 && len(second) > 2 && len(a) > 3 && document(a) != document(second) {
			t.Errorf("%q follows on %q, which are of two documents", document(second), document(a))
		}
	}
	if tokens != p.Tokens() {
		t.Errorf("%d tokens were dealt, the manifest says %d", tokens, p.Tokens())
	}
	// Half of the first ones of a document; a second sentence that a random one took the place of comes alone, and
	// is followed by a random one, too.
	if n := int(s.Sequences()); random < n*6/10 || random > n*8/10 {
		t.Errorf("%d of %d next sentences are random", random, n)
	}
	held, err := s.Evaluation(1000, 8)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, b := range held {
		for i := range b.Size {
			a, _ := unmasked(b, i)
			if len(a) > 3 && training[document(a)] {
				t.Errorf("document %q is held out and trained on", document(a))
			}
			n++
		}
	}
	if len(training) != 18 {
		t.Errorf("%d documents are trained on, want 18", len(training))
	}
	if int64(n) != p.HeldOutShard.Sequences || n < 2 {
		t.Errorf("%d sequences are held out, the manifest says %d", n, p.HeldOutShard.Sequences)
	}
	if err := p.Verify(nil); err != nil {
		t.Error(err)
	}
}

// TestPreparedMasks: static masks stay from epoch to epoch, dynamic ones change; the order always does.
func TestPreparedMasks(t *testing.T) {
	p := opened(t, prepare(t, 100, preparation()))
	for _, dynamic := range []bool{false, true} {
		d := dealing()
		d.Dynamic, d.Batch = dynamic, 1
		s := dealt(t, p, d)
		keys := func() (whole, bare []string) {
			for _, b := range epoch(t, s, 1) {
				a, second := unmasked(b, 0)
				whole = append(whole, fmt.Sprint(b.InputIDs, b.MaskedLMPositions, b.MaskedLMIDs))
				bare = append(bare, fmt.Sprint(a, second))
			}
			return whole, bare
		}
		first, firstBare := keys()
		second, secondBare := keys()
		if slices.Equal(firstBare, secondBare) {
			t.Error("two epochs have the same order")
		}
		for _, list := range [][]string{first, firstBare, second, secondBare} {
			slices.Sort(list)
		}
		if !slices.Equal(firstBare, secondBare) {
			t.Errorf("dynamic %v: two epochs have different sequences", dynamic)
		}
		if slices.Equal(first, second) == dynamic {
			t.Errorf("dynamic %v: two epochs have the same masks: %v", dynamic, !dynamic)
		}
	}
}

// TestPreparedSeek goes on from every position of two epochs.
func TestPreparedSeek(t *testing.T) {
	p := opened(t, prepare(t, 40, preparation()))
	s := dealt(t, p, dealing())
	var positions []dataset.Position
	var batches []string
	for range 2*int(s.Sequences())/4 + 1 {
		positions = append(positions, s.Position())
		batches = append(batches, fmt.Sprint(*next(t, s)))
	}
	for i, at := range positions {
		other := dealt(t, p, dealing())
		if err := other.Seek(at); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(*next(t, other)); got != batches[i] {
			t.Errorf("from %+v another batch is dealt", at)
		}
	}
	if err := s.Seek(dataset.Position{Block: 4}); err == nil {
		t.Error("a position in shard 5 of 4 is taken")
	}
	if err := s.Seek(dataset.Position{Index: 1 << 20}); err == nil {
		t.Error("a position behind the end of a shard is taken")
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestDamagedShard: no byte of a shard can change, and no part of it be missing, without an error.
func TestDamagedShard(t *testing.T) {
	dir := prepare(t, 6, pretraining.Preparation{PrepareSettings: pretraining.PrepareSettings{Length: 16, DupeFactor: 1,
		Lowercase: true}, Shards: 1})
	p := opened(t, dir)
	d := dealing()
	d.ShortProb = 0
	path := filepath.Join(dir, p.Shards[0].File)
	whole := must(os.ReadFile(path))
	for i := range whole {
		for _, damaged := range [][]byte{append(append(slices.Clone(whole[:i]), whole[i]^4), whole[i+1:]...), whole[:i]} {
			if err := os.WriteFile(path, damaged, 0o666); err != nil {
				t.Fatal(err)
			}
			if _, err := dealt(t, p, d).Next(); !errors.Is(err, pretraining.ErrInvalid) {
				t.Fatalf("byte %d: error is %v, want %v", i, err, pretraining.ErrInvalid)
			}
			if err := p.Verify(nil); !errors.Is(err, pretraining.ErrInvalid) {
				t.Fatalf("byte %d: Verify's error is %v, want %v", i, err, pretraining.ErrInvalid)
			}
		}
	}
}

// FuzzShard: whatever a file holds, it is read or refused.
func FuzzShard(f *testing.F) {
	dir := prepare(f, 6, pretraining.Preparation{PrepareSettings: pretraining.PrepareSettings{Length: 16, DupeFactor: 1,
		Lowercase: true}, Shards: 1})
	f.Add(must(os.ReadFile(filepath.Join(dir, opened(f, dir).Shards[0].File))))
	f.Add([]byte("harness shard 1\n\x02\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := pretraining.ReadShard(data, 28, 16); err != nil && !errors.Is(err, pretraining.ErrInvalid) {
			t.Errorf("error is %v, want one that wraps %v", err, pretraining.ErrInvalid)
		}
	})
}

func TestPreparedErrors(t *testing.T) {
	p := opened(t, prepare(t, 20, preparation()))
	for name, change := range map[string]func(*pretraining.Dealing){
		"up to 16 tokens, want 32":         func(d *pretraining.Dealing) { d.MaxLength = 32 },
		"short_seq_prob is 0.1, want 0.2":  func(d *pretraining.Dealing) { d.ShortProb = 0.2 },
		"a batch of 0":                     func(d *pretraining.Dealing) { d.Batch = 0 },
		"max_predictions_per_seq is 0":     func(d *pretraining.Dealing) { d.MaxPredictions = 0 },
		"masked_lm_prob is 0, want more":   func(d *pretraining.Dealing) { d.MaskedProb = 0 },
		"max_predictions_per_seq is 17, w": func(d *pretraining.Dealing) { d.MaxPredictions = 17 },
	} {
		d := dealing()
		change(&d)
		if _, err := p.Source(words(t), d); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error is %v, want in it %q", err, name)
		}
	}
	v := must(wordpiece.NewVocab("other", []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"}))
	if _, err := p.Source(must(wordpiece.New(v, wordpiece.Google(true))), dealing()); err == nil ||
		!strings.Contains(err.Error(), "another vocabulary") {
		t.Errorf("error is %v, want that the vocabulary is another", err)
	}
	if _, err := pretraining.OpenPrepared(t.TempDir()); err == nil || !strings.Contains(err.Error(), "harness data prepare") {
		t.Errorf("error is %v, want what makes such a folder", err)
	}
	c := open(t, write(t, "text.txt", small(20)))
	for name, change := range map[string]func(*pretraining.Preparation){
		"dupe_factor is 0":              func(p *pretraining.Preparation) { p.DupeFactor = 0 },
		"max_seq_length is 4":           func(p *pretraining.Preparation) { p.Length = 4 },
		"max_seq_length is 40000, want": func(p *pretraining.Preparation) { p.Length = 40000 },
		"-1 shards":                     func(p *pretraining.Preparation) { p.Shards = -1 },
		"2 of the documents":            func(p *pretraining.Preparation) { p.HeldOut = 2 },
	} {
		p := preparation()
		change(&p)
		if _, err := pretraining.Prepare(t.Context(), filepath.Join(t.TempDir(), "d"), c, words(t), p); err == nil ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("error is %v, want in it %q", err, name)
		}
	}
}
