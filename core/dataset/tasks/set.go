package tasks

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"harness.invalid/core/bert"
	"harness.invalid/core/dataset"
	"harness.invalid/core/wordpiece"
)

// Set is data in sequences: [CLS] first segment [SEP] second segment [SEP] ..., cut to a length. The choices of a
// question are sequences that follow each other, and so are the windows of a sentence with tags.
type Set struct {
	Data      *Data
	MaxLength int // tokens of a sequence, special tokens included

	labelled  bool
	sequences []sequence // of all choices of all examples
}

// sequence holds tokens and the start of those of type 1.
type sequence struct {
	ids    []int32
	second int

	// Named entities: the places of the first pieces of some words of an example, from its first on.
	example, first int
	words          []int32
}

// NewSet makes the sequences of all examples. labelled demands labels, which training and scoring need.
func NewSet(d *Data, t *wordpiece.Tokenizer, maxLength int, labelled bool) (*Set, error) {
	fail := func(err error) (*Set, error) { return nil, fmt.Errorf("task %s: %w", d.Task.Name, err) }
	if maxLength < 8 || maxLength > 1<<20 {
		return fail(fmt.Errorf("max_seq_length is %d, want 8 to %d", maxLength, 1<<20))
	}
	if i := slices.IndexFunc(d.Examples, func(e Example) bool { return e.Label < 0 }); labelled && i >= 0 {
		return fail(fmt.Errorf("%s: the example has no label: %w", d.Examples[i].Place, ErrInvalid))
	}
	s := &Set{Data: d, MaxLength: maxLength, labelled: labelled}
	special := map[string]int32{}
	for _, token := range []string{wordpiece.Cls, wordpiece.Sep, wordpiece.Mask} {
		id, err := t.Vocab().Special(token)
		if err != nil {
			return fail(err)
		}
		special[token] = id
	}
	for i := range d.Examples {
		if d.Task.Kind == bert.TokenClassification {
			s.addSentence(t, special, i)
		}
		for _, segments := range d.Examples[i].Choices {
			s.add(t, special, segments)
		}
	}
	return s, nil
}

// add makes the sequence of some segments.
func (s *Set) add(t *wordpiece.Tokenizer, special map[string]int32, segments []string) {
	if len(segments) == 2 && strings.Contains(segments[1], blank) {
		s.addCloze(t, special, segments[0], segments[1])
		return
	}
	tokens := make([][]int32, 0, len(segments))
	for i, segment := range segments {
		// An empty second sentence counts as none, as in run_classifier.py.
		if ids := t.AppendIDs(nil, segment); i == 0 || len(ids) > 0 {
			tokens = append(tokens, ids)
		}
	}
	truncate(tokens, s.MaxLength-1-len(tokens))
	q := sequence{ids: []int32{special[wordpiece.Cls]}}
	for i, ids := range tokens {
		if i == 1 {
			q.second = len(q.ids)
		}
		q.ids = append(append(q.ids, ids...), special[wordpiece.Sep])
	}
	if len(tokens) == 1 {
		q.second = len(q.ids)
	}
	q.ids = slices.Clip(q.ids)
	s.sequences = append(s.sequences, q)
}

// truncate drops tokens from the end of the longest segment until all segments together fit. Ties go to the second
// of two segments, as in _truncate_seq_pair of run_classifier.py, and to the first, then the last of three, as in
// _truncate_seq_tuple of CLUE's run_c3.py.
func truncate(segments [][]int32, most int) {
	order := []int{1, 0}
	if len(segments) != 2 {
		order = []int{0, 2, 1}[:len(segments)]
	}
	total := 0
	for _, ids := range segments {
		total += len(ids)
	}
	for ; total > most; total-- {
		longest := order[0]
		for _, i := range order {
			if len(segments[i]) > len(segments[longest]) {
				longest = i
			}
		}
		segments[longest] = segments[longest][:len(segments[longest])-1]
	}
}

// width is the number of sequences of an example.
func (s *Set) width() int {
	if s.Data.Task.Kind == bert.MultipleChoice {
		return s.Data.Task.Choices
	}
	return 1
}

// items is the number of what is dealt in one piece: sequences, or questions with their choices.
func (s *Set) items() int { return len(s.sequences) / s.width() }

// Len returns the number of sequences.
func (s *Set) Len() int { return len(s.sequences) }

// batch returns items as a batch.
func (s *Set) batch(which []int32) *bert.Batch {
	w := s.width()
	b := &bert.Batch{Size: len(which) * w, Length: s.MaxLength}
	tokens := b.Size * b.Length
	b.InputIDs, b.TokenTypeIDs, b.AttentionMask = make([]int32, tokens), make([]int32, tokens), make([]int32, tokens)
	regression, tokenLabels := s.Data.Task.Regression(), s.Data.Task.Kind == bert.TokenClassification
	switch {
	case !s.labelled:
	case tokenLabels:
		s.labelTokens(b, which)
	case regression:
		b.Targets = make([]float32, b.Size)
	default:
		b.Labels = make([]int32, b.Size)
	}
	for i, j := range which {
		for k := range w {
			row := i*w + k
			q := &s.sequences[int(j)*w+k]
			copy(b.InputIDs[row*b.Length:], q.ids)
			for n := range q.ids {
				b.AttentionMask[row*b.Length+n] = 1
				if n >= q.second {
					b.TokenTypeIDs[row*b.Length+n] = 1
				}
			}
		}
		if !s.labelled || tokenLabels {
			continue
		}
		switch e := &s.Data.Examples[j]; {
		case regression:
			b.Targets[i] = e.Target
		case w > 1:
			b.Labels[i*w+e.Label] = 1
		default:
			b.Labels[i] = int32(e.Label)
		}
	}
	return b
}

// Batches returns all examples in order, size sequences at a time; the last batch may have fewer. Sample is the
// index of a batch's first sequence. The error is always nil.
func (s *Set) Batches(size int) iter.Seq2[*bert.Batch, error] {
	return func(yield func(*bert.Batch, error) bool) {
		w := s.width()
		step := max(1, size/w)
		for start := 0; start < s.items(); start += step {
			which := make([]int32, min(step, s.items()-start))
			for i := range which {
				which[i] = int32(start + i)
			}
			b := s.batch(which)
			b.Sample = start * w
			if !yield(b, nil) {
				return
			}
		}
	}
}

// Source deals the set in batches of the given number of sequences. A question of multiple choice has several
// sequences.
func (s *Set) Source(batch int, seed uint64) (*dataset.Shuffled, error) {
	fail := func(err error) (*dataset.Shuffled, error) {
		return nil, fmt.Errorf("task %s: %w", s.Data.Task.Name, err)
	}
	w := s.width()
	switch {
	case !s.labelled:
		return fail(fmt.Errorf("%s: the set was made for prediction and has no labels", s.Data.Name))
	case s.unknown() != "":
		return fail(fmt.Errorf("%s: the tag %s is none of the labels %s", s.Data.Name, s.unknown(), few(s.Data.Task.Labels)))
	case batch%w != 0:
		return fail(fmt.Errorf("a batch of %d sequences, want a multiple of the %d choices of a question", batch, w))
	}
	source, err := dataset.NewShuffled(s.items(), batch/w, seed, s.batch)
	if err != nil {
		return fail(err)
	}
	return source, nil
}
