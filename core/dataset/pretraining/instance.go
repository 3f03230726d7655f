// Package pretraining makes data for masked language modelling and next sentence prediction from plain text: one
// sentence a line, a blank line between documents.
//
// Two users share one procedure, that of google-research/bert. Generate repeats the published program bit for bit,
// including Python's random numbers, with the whole text in memory. Source reads a Corpus of any size block by
// block and deals batches for training.
//
// Sources: Devlin, Chang, Lee, Toutanova 2018 (arXiv:1810.04805), appendix A.1; google-research/bert,
// create_pretraining_data.py; whole words: its README, May 31st, 2019.
package pretraining

import (
	"encoding/json"
	"fmt"
	"math"

	"harness.invalid/core/wordpiece"
)

// Settings are the flags of create_pretraining_data.py that shape an instance.
type Settings struct {
	MaxLength      int     // max_seq_length: tokens of an instance, special tokens included
	MaxPredictions int     // max_predictions_per_seq
	ShortProb      float64 // short_seq_prob: of a document whose instances are shorter than they could be
	MaskedProb     float64 // masked_lm_prob: part of the tokens to predict
	WholeWord      bool    // do_whole_word_mask: a word's tokens are masked together
}

// Validate reports the first setting that allows no instance.
func (s Settings) Validate() error {
	// A short instance draws its length from 2 to MaxLength - 3.
	if s.MaxLength < 5 || s.MaxLength > 1<<20 {
		return fmt.Errorf("pretraining: max_seq_length is %d, want 5 to %d: three tokens are special and each segment has one",
			s.MaxLength, 1<<20)
	}
	if s.MaxPredictions < 1 || s.MaxPredictions > s.MaxLength {
		return fmt.Errorf("pretraining: max_predictions_per_seq is %d, want 1 to max_seq_length %d", s.MaxPredictions, s.MaxLength)
	}
	if !(s.ShortProb >= 0 && s.ShortProb <= 1) {
		return fmt.Errorf("pretraining: short_seq_prob is %g, want 0 to 1", s.ShortProb)
	}
	if !(s.MaskedProb > 0 && s.MaskedProb <= 1) {
		return fmt.Errorf("pretraining: masked_lm_prob is %g, want more than 0 and at most 1", s.MaskedProb)
	}
	return nil
}

// Instance is one sequence with its predictions.
type Instance struct {
	InputIDs          []int32 // [CLS] A [SEP] B [SEP], masks in place
	FirstLength       int     // tokens of the first segment: [CLS] A [SEP]
	MaskedLMPositions []int32 // ascending
	MaskedLMIDs       []int32 // what was there before
	RandomNext        bool    // B is not what follows A
}

// MarshalJSON writes the instance with the names of the published TFRecords, without padding.
func (i Instance) MarshalJSON() ([]byte, error) {
	segments := make([]int32, len(i.InputIDs))
	for j := i.FirstLength; j < len(segments); j++ {
		segments[j] = 1
	}
	label := 0
	if i.RandomNext {
		label = 1
	}
	return json.Marshal(struct {
		InputIDs          []int32 `json:"input_ids"`
		SegmentIDs        []int32 `json:"segment_ids"`
		MaskedLMPositions []int32 `json:"masked_lm_positions"`
		MaskedLMIDs       []int32 `json:"masked_lm_ids"`
		NextSentenceLabel int     `json:"next_sentence_label"`
	}{i.InputIDs, segments, i.MaskedLMPositions, i.MaskedLMIDs, label})
}

// choices are the random choices of the procedure, named as in Python: random, randint and shuffle.
type choices interface {
	Float64() float64
	IntN(n int) int
	Shuffle(n int, swap func(i, j int))
}

// maker turns documents into instances.
type maker struct {
	Settings
	cls, sep, mask int32
	size           int    // of the vocabulary
	continuing     []bool // tokens that continue a word, by id
	plain          bool   // instances are not masked

	// Scratch of one instance.
	candidates []int32 // positions that may be masked
	groups     []group // that are masked together
	labels     []int32 // by position; noLabel where nothing is predicted
}

// group is candidates[start:end].
type group struct{ start, end int32 }

const noLabel = -1

func newMaker(v *wordpiece.Vocab, s Settings) (*maker, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	m := &maker{Settings: s, size: v.Len(), continuing: make([]bool, v.Len()), labels: make([]int32, s.MaxLength)}
	for _, special := range []struct {
		token string
		id    *int32
	}{{wordpiece.Cls, &m.cls}, {wordpiece.Sep, &m.sep}, {wordpiece.Mask, &m.mask}} {
		id, err := v.Special(special.token)
		if err != nil {
			return nil, fmt.Errorf("pretraining: %w", err)
		}
		*special.id = id
	}
	for i := range m.continuing {
		token := v.Token(int32(i))
		m.continuing[i] = len(token) >= len(wordpiece.Continuing) && token[:len(wordpiece.Continuing)] == wordpiece.Continuing
	}
	return m, nil
}

// document makes the instances of document d of docs. All documents have at least one sentence, and no sentence is
// empty. Random choices follow the order of the published create_instances_from_document.
func (m *maker) document(docs []document, d int, r choices, yield func(Instance)) {
	doc := &docs[d]
	longest := m.MaxLength - 3
	target := longest
	if r.Float64() < m.ShortProb {
		target = 2 + r.IntN(longest-1)
	}
	start, length := 0, 0 // of the chunk: the sentences collected for the next instance
	for i := 0; i < len(doc.ends); i++ {
		length += len(doc.sentences(i, i+1))
		if i != len(doc.ends)-1 && length < target {
			continue
		}
		chunk := i + 1 - start
		first := 1 // sentences of A
		if chunk >= 2 {
			first += r.IntN(chunk - 1)
		}
		a := doc.sentences(start, start+first)
		var b []int32
		random := chunk == 1 || r.Float64() < 0.5
		if random {
			b = otherText(docs, d, target-len(a), r)
			i -= chunk - first // the sentences that a real B would have had are used again
		} else {
			b = doc.sentences(start+first, i+1)
		}
		a, b = truncate(a, b, longest, r)
		yield(m.instance(a, b, random, r))
		start, length = i+1, 0
	}
}

// otherText returns sentences from a random place of a document other than d, at least one, until there are length
// tokens or the document ends. Ten draws may all give d: then the text is from d itself, as published.
func otherText(docs []document, d, length int, r choices) []int32 {
	var other int
	for range 10 {
		if other = r.IntN(len(docs)); other != d {
			break
		}
	}
	doc := &docs[other]
	start := r.IntN(len(doc.ends))
	end := start + 1
	for end < len(doc.ends) && len(doc.sentences(start, end)) < length {
		end++
	}
	return doc.sentences(start, end)
}

// truncate drops tokens from the longer segment, at either end with the same probability, until both have longest
// tokens together.
func truncate(a, b []int32, longest int, r choices) ([]int32, []int32) {
	for len(a)+len(b) > longest {
		s := &b
		if len(a) > len(b) {
			s = &a
		}
		if r.Float64() < 0.5 {
			*s = (*s)[1:]
		} else {
			*s = (*s)[:len(*s)-1]
		}
	}
	return a, b
}

// instance joins two segments and masks them.
func (m *maker) instance(a, b []int32, random bool, r choices) Instance {
	ids := make([]int32, 0, len(a)+len(b)+3)
	ids = append(ids, m.cls)
	ids = append(ids, a...)
	ids = append(ids, m.sep)
	first := len(ids)
	ids = append(ids, b...)
	ids = append(ids, m.sep)
	if m.plain {
		return Instance{InputIDs: ids, FirstLength: first, RandomNext: random}
	}
	positions, labels := m.maskTokens(ids, first, r)
	return Instance{InputIDs: ids, FirstLength: first, MaskedLMPositions: positions, MaskedLMIDs: labels, RandomNext: random}
}

// maskTokens is the published create_masked_lm_predictions: it changes ids and returns the positions, ascending,
// and the original tokens.
func (m *maker) maskTokens(ids []int32, first int, r choices) (positions, masked []int32) {
	m.candidates, m.groups = m.candidates[:0], m.groups[:0]
	for i := 1; i < len(ids)-1; i++ {
		if i == first-1 {
			continue // [SEP]
		}
		n := int32(len(m.candidates))
		m.candidates = append(m.candidates, int32(i))
		// Truncation can leave the end of a word at the start of B: it then joins the last word of A, as published.
		if m.WholeWord && len(m.groups) > 0 && m.continuing[ids[i]] {
			m.groups[len(m.groups)-1].end = n + 1
		} else {
			m.groups = append(m.groups, group{n, n + 1})
		}
	}
	r.Shuffle(len(m.groups), func(i, j int) { m.groups[i], m.groups[j] = m.groups[j], m.groups[i] })

	// Python 3 rounds halves to even.
	want := min(m.MaxPredictions, max(1, int(math.RoundToEven(float64(len(ids))*m.MaskedProb))))
	labels := m.labels[:len(ids)]
	for i := range labels {
		labels[i] = noLabel
	}
	n := 0
	for _, g := range m.groups {
		if n >= want {
			break
		}
		if n+int(g.end-g.start) > want {
			continue
		}
		for _, i := range m.candidates[g.start:g.end] {
			labels[i] = ids[i]
			n++
			switch {
			case r.Float64() < 0.8:
				ids[i] = m.mask
			case r.Float64() < 0.5: // stays as it is
			default:
				ids[i] = int32(r.IntN(m.size))
			}
		}
	}
	both := make([]int32, 2*n)
	positions, masked = both[:0:n], both[n:n]
	for i, label := range labels {
		if label != noLabel {
			positions = append(positions, int32(i))
			masked = append(masked, label)
		}
	}
	return positions, masked
}
