package wordpiece

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Score is the rule by which a trainer chooses the next two symbols to merge.
type Score int

const (
	// Frequency takes the pair that occurs most often: count(ab). It is the default because it is what the
	// vocabularies in use come from, Hugging Face's WordPieceTrainer being byte-pair encoding with ##, and because
	// it spends the vocabulary on common words.
	Frequency Score = iota
	// Likelihood takes the pair that raises the likelihood of the text most under a unigram model, count(ab) /
	// (count(a)·count(b)): pairs whose symbols seldom stand apart. Rare symbols go first, so give it a MinFrequency
	// well above 1. Source: Schuster and Nakajima 2012, "Japanese and Korean voice search", section 3.
	Likelihood
)

// TrainOptions are the settings of a Trainer. Zero fields take the values in parentheses.
type TrainOptions struct {
	Options Options // how text becomes words; the tokenizer that uses the vocabulary must have the same
	// Size is the number of tokens wanted, special ones included. The result has fewer if no further pair is
	// frequent enough.
	Size         int
	Special      []string // first tokens ([PAD] [UNK] [CLS] [SEP] [MASK])
	Alphabet     int      // most characters, the most frequent ones (1000)
	MinFrequency int64    // of a pair that may be merged (2)
	Score        Score
}

// Trainer counts the words of a text and makes a vocabulary of them: first all its characters, then merges of two
// adjacent tokens, one at a time, the best first. The same words with the same counts give the same vocabulary, in
// any order.
type Trainer struct {
	options TrainOptions
	basic   *Basic
	counts  map[string]*int64

	// Invalid is the number of lines so far that were not UTF-8. Invalid bytes are skipped, as in the tokenizer.
	Invalid int
	// Unknown is the share of the text's words that are [UNK] in the vocabulary last trained, since the alphabet
	// lacks a character of theirs.
	Unknown float64
}

// NewTrainer returns a trainer that has seen no text.
func NewTrainer(o TrainOptions) (*Trainer, error) {
	if o.Special == nil {
		o.Special = []string{Pad, Unk, Cls, Sep, Mask}
	}
	if o.Alphabet == 0 {
		o.Alphabet = 1000
	}
	if o.MinFrequency == 0 {
		o.MinFrequency = 2
	}
	switch {
	case o.Alphabet < 0:
		return nil, fmt.Errorf("train vocabulary: alphabet of %d characters, want 1 or more", o.Alphabet)
	case o.MinFrequency < 0:
		return nil, fmt.Errorf("train vocabulary: least frequency %d, want 1 or more", o.MinFrequency)
	case o.Options.MaxCharsPerWord < 1:
		return nil, fmt.Errorf("train vocabulary: words of at most %d characters, want 1 or more", o.Options.MaxCharsPerWord)
	case o.Score != Frequency && o.Score != Likelihood:
		return nil, fmt.Errorf("train vocabulary: score %d, want Frequency or Likelihood", o.Score)
	}
	return &Trainer{options: o, basic: NewBasic(o.Options), counts: make(map[string]*int64)}, nil
}

// Add counts the words of a text.
func (t *Trainer) Add(text string) {
	w := t.basic.split(text)
	for w.next() {
		if w.plain {
			// A lookup without a copy: a known word costs no allocation.
			if w.scratch == nil {
				w.scratch = t.basic.scratch.Get().(*scratch)
			}
			w.norm = w.norm[:0]
			for i := w.start; i < w.end; i++ {
				w.norm = append(w.norm, t.basic.fold[text[i]])
			}
			w.chars = len(w.norm)
		}
		if w.chars > t.options.Options.MaxCharsPerWord {
			continue // [UNK], whatever the vocabulary
		}
		n := t.counts[string(w.norm)]
		if n == nil {
			n = new(int64)
			t.counts[string(w.norm)] = n
		}
		*n++
	}
	w.close()
}

// ReadFrom counts the words of a stream, line by line.
func (t *Trainer) ReadFrom(r io.Reader) (int64, error) {
	var n int64
	lines := bufio.NewReaderSize(r, 1<<16)
	for {
		line, err := lines.ReadString('\n')
		n += int64(len(line))
		if !utf8.ValidString(line) {
			t.Invalid++
		}
		t.Add(line)
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, fmt.Errorf("train vocabulary: after %d bytes of text: %w", n, err)
		}
	}
}

// Train returns the vocabulary of the text so far. Each of its words is tokenized without [UNK] if the alphabet has
// all its characters.
func (t *Trainer) Train() (*Vocab, error) {
	words := t.sorted()
	if len(words) == 0 {
		return nil, errors.New("train vocabulary: the text has no word")
	}
	tokens := slices.Clone(t.options.Special)
	kept, inside := t.alphabet(words)
	ids := make(map[string]int32)
	add := func(token string) int32 {
		id, ok := ids[token]
		if !ok {
			id = int32(len(tokens))
			ids[token] = id
			tokens = append(tokens, token)
		}
		return id
	}
	// A character that is ever part of a longer word gets both forms, so that new words of known letters can be
	// written too.
	for _, c := range kept {
		add(string(c))
	}
	for _, c := range kept {
		if inside[c] {
			add(Continuing + string(c))
		}
	}
	if len(tokens) > t.options.Size {
		return nil, fmt.Errorf("train vocabulary: size %d is less than %d special tokens and %d of the alphabet: raise the "+
			"size or lower the alphabet from %d characters",
			t.options.Size, len(t.options.Special), len(tokens)-len(t.options.Special), len(kept))
	}

	spelled := symbols(words, ids)
	var all, known int64
	for _, w := range words {
		all += w.count
	}
	for _, w := range spelled {
		known += w.count
	}
	t.Unknown = float64(all-known) / float64(all)
	c := newCorpus(spelled, len(tokens), t.options.MinFrequency, t.options.Score == Likelihood)
	for len(tokens) < t.options.Size {
		best, ok := c.pairs.best()
		if !ok {
			break
		}
		p := &c.pairs.all[best]
		c.merge(best, add(tokens[p.left]+strings.TrimPrefix(tokens[p.right], Continuing)))
	}
	return NewVocab("trained vocabulary", tokens)
}

// Train is a Trainer's work on the texts in one call.
func Train(o TrainOptions, texts ...io.Reader) (*Vocab, error) {
	t, err := NewTrainer(o)
	if err != nil {
		return nil, err
	}
	for _, text := range texts {
		if _, err := t.ReadFrom(text); err != nil {
			return nil, err
		}
	}
	return t.Train()
}

type countedWord struct {
	text  string
	count int64
}

func (t *Trainer) sorted() []countedWord {
	words := make([]countedWord, 0, len(t.counts))
	for text, n := range t.counts {
		words = append(words, countedWord{text, *n})
	}
	slices.SortFunc(words, func(a, b countedWord) int { return strings.Compare(a.text, b.text) })
	return words
}

// alphabet returns the most frequent characters in order of code points, and which of all characters occur in words
// of two or more.
func (t *Trainer) alphabet(words []countedWord) (kept []rune, inside map[rune]bool) {
	counts := make(map[rune]int64)
	inside = make(map[rune]bool)
	for _, w := range words {
		for _, c := range w.text {
			counts[c] += w.count
			if utf8.RuneLen(c) < len(w.text) {
				inside[c] = true
			}
		}
	}
	for c := range counts {
		kept = append(kept, c)
	}
	slices.SortFunc(kept, func(a, b rune) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	kept = kept[:min(len(kept), t.options.Alphabet)]
	slices.Sort(kept)
	return kept, inside
}

// symbols spells the words in the alphabet's ids. Words with other characters are left out: they will be [UNK], and
// their pairs would only displace others. (Hugging Face drops the characters and keeps the rest of the word.)
func symbols(words []countedWord, ids map[string]int32) []trainingWord {
	begin, inside := make(map[rune]int32), make(map[rune]int32)
	for token, id := range ids {
		suffix, ok := strings.CutPrefix(token, Continuing)
		c, _ := utf8.DecodeRuneInString(suffix)
		if ok && suffix != "" {
			inside[c] = id
		} else {
			c, _ = utf8.DecodeRuneInString(token)
			begin[c] = id
		}
	}
	var spelled []trainingWord
next:
	for _, w := range words {
		s := make([]int32, 0, len(w.text))
		for i, c := range w.text {
			table := begin
			if i > 0 {
				table = inside
			}
			id, ok := table[c]
			if !ok {
				continue next
			}
			s = append(s, id)
		}
		spelled = append(spelled, trainingWord{s, w.count})
	}
	return spelled
}
