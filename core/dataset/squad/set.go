package squad

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"harness.invalid/core/bert"
	"harness.invalid/core/wordpiece"
	"harness.invalid/core/wordpiece/pystring"
)

// Settings are the flags of run_squad.py that shape a feature.
type Settings struct {
	MaxLength      int // max_seq_length: tokens of a feature, special tokens included
	DocStride      int // doc_stride: tokens from the start of a window to the start of the next
	MaxQueryLength int // max_query_length: tokens of a question; the rest is cut off
	// Impossible is version_2_with_negative: questions may have no answer, whose place is [CLS].
	Impossible bool
	// Chinese takes each Chinese character for a word, and answers as they stand in the passage. In training the
	// first answer counts, where it stands nearest to its place.
	Chinese bool
}

// Validate reports the first setting that allows no feature.
func (s Settings) Validate() error {
	switch {
	case s.MaxQueryLength < 1:
		return fmt.Errorf("squad: max_query_length is %d, want at least 1", s.MaxQueryLength)
	case s.DocStride < 1:
		return fmt.Errorf("squad: doc_stride is %d, want at least 1", s.DocStride)
	case s.MaxLength < s.MaxQueryLength+4 || s.MaxLength > 1<<20:
		return fmt.Errorf("squad: max_seq_length is %d, want %d to %d: a question of max_query_length %d, three special tokens and some text",
			s.MaxLength, s.MaxQueryLength+4, 1<<20, s.MaxQueryLength)
	}
	return nil
}

// Set is data in features: [CLS] question [SEP] window of the passage [SEP].
type Set struct {
	Settings Settings
	Skipped  []Skipped // questions that make no feature

	data      *Data
	tokenizer *wordpiece.Tokenizer
	training  bool
	cls, sep  int32
	examples  []example
	features  []feature
}

// Skipped is a question that the published program leaves out of training, and why.
type Skipped struct {
	ID     string
	Place  Place
	Reason string
}

type example struct {
	id      string
	passage *passage
	query   []int32
	first   int // feature
	windows int // features
	// gold are the answers as tokens of the passage, -1 where there is none. Evaluation only, and only those that can be
	// found in the passage.
	gold []tokens
}

// tokens are the first and the last token of an answer in its passage.
type tokens struct{ start, end int32 }

// feature is a window of an example's passage.
type feature struct {
	example       int32
	start, length int32 // tokens of the passage
	// Positions of the answer's first and last token within the feature, 0 and 0 where the window lacks it. Training only.
	startPosition, endPosition int32
}

// NewSet makes the features of all questions. For training each question must have one answer, which becomes the
// label (none where it is impossible); an answer that differs from the words at its place is skipped and listed, as
// published; one outside the passage is an error. Sets for evaluation keep the answers that they find (Decoder.Likelihood),
// and need none.
func NewSet(d *Data, t *wordpiece.Tokenizer, s Settings, training bool) (*Set, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	set := &Set{Settings: s, data: d, tokenizer: t, training: training}
	var err error
	if set.cls, err = t.Vocab().Special(wordpiece.Cls); err != nil {
		return nil, fmt.Errorf("squad: %w", err)
	}
	if set.sep, err = t.Vocab().Special(wordpiece.Sep); err != nil {
		return nil, fmt.Errorf("squad: %w", err)
	}
	for i := range d.Articles {
		for j := range d.Articles[i].Paragraphs {
			if err := set.add(&d.Articles[i].Paragraphs[j]); err != nil {
				return nil, err
			}
		}
	}
	if training && len(set.features) == 0 {
		return nil, fmt.Errorf("squad %s: all of %d questions were skipped, the first one because %s: %w", d.Name, len(set.Skipped),
			set.Skipped[0].Reason, ErrInvalid)
	}
	return set, nil
}

// add makes the features of a paragraph's questions.
func (s *Set) add(g *Paragraph) error {
	p := newPassage(g.Context, s.tokenizer, s.Settings.Chinese)
	characters := p.wordOfCharacters(g.Context)
	for i := range g.Questions {
		q := &g.Questions[i]
		e := example{id: q.ID, passage: p, query: s.tokenizer.AppendIDs(nil, q.Text), first: len(s.features)}
		e.query = e.query[:min(len(e.query), s.Settings.MaxQueryLength)]
		var start, end int32
		if s.training {
			var reason string
			var err error
			if start, end, reason, err = s.span(p, characters, q); err != nil {
				return fmt.Errorf("%s: %w: %w", s.data.at(q), err, ErrInvalid)
			}
			if reason != "" {
				s.Skipped = append(s.Skipped, Skipped{q.ID, q.Place, reason})
				continue
			}
		} else {
			e.gold = s.gold(p, characters, q)
		}
		s.window(&e, start, end)
		s.examples = append(s.examples, e)
	}
	return nil
}

// span returns the first and last token of the question's answer in the passage, -1 where it has none, or the
// reason why the question is skipped.
func (s *Set) span(p *passage, characters []int32, q *Question) (start, end int32, reason string, err error) {
	switch n := len(q.Answers); {
	case q.Impossible && s.Settings.Impossible:
		return -1, -1, "", nil
	case q.Impossible:
		return 0, 0, "", errors.New("the question is impossible: SQuAD v2.0 is the task squad2")
	case n == 0 || n > 1 && !s.Settings.Chinese:
		return 0, 0, "", fmt.Errorf("%d answers, want one for training", n)
	}
	a := q.Answers[0]
	if s.Settings.Chinese {
		if a.Text = strings.TrimFunc(a.Text, unicode.IsSpace); a.Text == "" {
			return 0, 0, "the answer is empty", nil
		}
		if a.Start = p.locate(a.Text, a.Start); a.Start < 0 {
			return 0, 0, fmt.Sprintf("the answer %q is not in the passage", shorten(a.Text)), nil
		}
	}
	n := utf8.RuneCountInString(a.Text)
	if n == 0 {
		return 0, 0, "the answer is empty", nil
	}
	if a.Start < 0 || a.Start+n > len(characters) {
		return 0, 0, "", fmt.Errorf("answer %q starts at character %d and has %d, but the context has %d", shorten(a.Text), a.Start, n,
			len(characters))
	}
	first, last := characters[a.Start], characters[a.Start+n-1]
	wanted := strings.Join(pystring.Fields(a.Text), " ")
	if first < 0 || !s.Settings.Chinese && !strings.Contains(p.text(int(first), int(last)), wanted) {
		return 0, 0, fmt.Sprintf("the answer %q is not among the words at character %d", shorten(a.Text), a.Start), nil
	}
	start, end = p.firstToken[first], int32(len(p.ids))-1
	if int(last) < len(p.words)-1 {
		end = p.firstToken[last+1] - 1
	}
	start, end = improve(p.ids, start, end, s.tokenizer.AppendIDs(nil, a.Text))
	if end < start {
		// The published program would train on a span that ends before it starts.
		return 0, 0, fmt.Sprintf("the tokenizer leaves nothing of the answer %q", shorten(a.Text)), nil
	}
	return start, end, "", nil
}

// gold returns the different answers of a question that are in the passage.
func (s *Set) gold(p *passage, characters []int32, q *Question) (found []tokens) {
	one := *q
	add := func() {
		start, end, reason, err := s.span(p, characters, &one)
		if t := (tokens{start, end}); err == nil && reason == "" && !slices.Contains(found, t) {
			found = append(found, t)
		}
	}
	if q.Impossible {
		add()
		return found
	}
	for i := range q.Answers {
		one.Answers = q.Answers[i : i+1]
		add()
	}
	return found
}

// improve narrows a span of whole words to the tokens of the answer, where they are in it: "1895" in "(1895-1943)."
// It is _improve_answer_span.
func improve(ids []int32, start, end int32, answer []int32) (int32, int32) {
	n := int32(len(answer))
	if n == 0 {
		return start, end
	}
	for i := start; i+n <= end+1; i++ {
		if slices.Equal(ids[i:i+n], answer) {
			return i, i + n - 1
		}
	}
	return start, end
}

// window appends the example's features, one for each window of the passage. Start and end are the answer's tokens.
func (s *Set) window(e *example, start, end int32) {
	total := int32(len(e.passage.ids))
	longest := int32(s.Settings.MaxLength - len(e.query) - 3)
	for at := int32(0); at < total; {
		length := min(total-at, longest)
		f := feature{example: int32(len(s.examples)), start: at, length: length}
		if s.training && start >= at && end < at+length {
			offset := int32(len(e.query)) + 2 - at
			f.startPosition, f.endPosition = start+offset, end+offset
		}
		s.features = append(s.features, f)
		e.windows++
		if at+length == total {
			break
		}
		at += min(length, int32(s.Settings.DocStride))
	}
}

// shorten shortens a quotation for a message.
func shorten(text string) string {
	if runes := []rune(text); len(runes) > 40 {
		return string(runes[:40]) + "..."
	}
	return text
}

// Len returns the number of features.
func (s *Set) Len() int { return len(s.features) }

// Questions returns the number of questions that make the features.
func (s *Set) Questions() int { return len(s.examples) }

// batch returns features as a batch.
func (s *Set) batch(which []int32) *bert.Batch {
	length := s.Settings.MaxLength
	tokens := len(which) * length
	b := &bert.Batch{
		Size: len(which), Length: length,
		InputIDs: make([]int32, tokens), TokenTypeIDs: make([]int32, tokens), AttentionMask: make([]int32, tokens),
	}
	if s.training {
		b.StartPositions, b.EndPositions = make([]int32, len(which)), make([]int32, len(which))
	}
	for i, j := range which {
		f := &s.features[j]
		e := &s.examples[f.example]
		ids := append(b.InputIDs[i*length:i*length], s.cls)
		ids = append(ids, e.query...)
		ids = append(ids, s.sep)
		second := len(ids)
		ids = append(ids, e.passage.ids[f.start:f.start+f.length]...)
		ids = append(ids, s.sep)
		for k := range ids {
			b.AttentionMask[i*length+k] = 1
			if k >= second {
				b.TokenTypeIDs[i*length+k] = 1
			}
		}
		if s.training {
			b.StartPositions[i], b.EndPositions[i] = f.startPosition, f.endPosition
		}
	}
	return b
}

// Batches returns all features in order, size at a time; the last batch may have fewer. Sample is the index of a
// batch's first feature. The error is always nil.
func (s *Set) Batches(size int) iter.Seq2[*bert.Batch, error] {
	return func(yield func(*bert.Batch, error) bool) {
		for start := 0; start < len(s.features); start += size {
			which := make([]int32, min(size, len(s.features)-start))
			for i := range which {
				which[i] = int32(start + i)
			}
			b := s.batch(which)
			b.Sample = start
			if !yield(b, nil) {
				return
			}
		}
	}
}
