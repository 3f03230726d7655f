package bert

import (
	"fmt"
	"math"
)

// Batch is a number of sequences of equal length with the labels of a task. All slices are row-major.
type Batch struct {
	Size   int // sequences, B
	Length int // tokens a sequence, S
	Sample int // index of the first sequence within the global batch: keys the dropout streams

	InputIDs      []int32 // [B, S]
	TokenTypeIDs  []int32 // [B, S]
	AttentionMask []int32 // [B, S]: 1 for tokens, 0 for padding; in packed rows the number of the token's sequence, 1 to Q

	// Pretraining
	Predictions        int       // masked positions a sequence, P, padding included
	MaskedLMPositions  []int32   // [B, P]
	MaskedLMIDs        []int32   // [B, P]
	MaskedLMWeights    []float32 // [B, P]: 1 for predictions, 0 for padding
	NextSentenceLabels []int32   // [B], packed [B, Q]: 0 the next sentence, 1 a random one

	// Packed rows, only for Pretraining: up to Q sequences follow each other in a row, and a token sees only tokens of
	// its own sequence.
	Sequences           int       // Q; 0 and 1: rows are not packed
	PositionIDs         []int32   // [B, S]: position within the sequence; empty: 0 to S-1 in every row
	FirstPositions      []int32   // [B, Q]: where each sequence begins; 0 where there is none
	NextSentenceWeights []float32 // [B, Q]: 1 for sequences, 0 where there is none

	// QuestionAnswering
	StartPositions, EndPositions []int32 // [B]

	// Classification: Labels with two or more labels, Targets for a regression. MultipleChoice: the choices of a
	// question follow each other, and Labels has 1 for the right one and 0 for the others.
	// TokenClassification: Unlabelled for tokens without a label, such as all pieces of a word but the first.
	Labels  []int32   // [B]; TokenClassification [B, S]
	Targets []float32 // [B]
}

// Unlabelled is the label of a token that has none. It is transformers' (CrossEntropyLoss, ignore_index).
const Unlabelled = -100

// MaskedWeight is the sum of MaskedLMWeights: the number of predictions.
func (b *Batch) MaskedWeight() float64 {
	var sum float64
	for _, w := range b.MaskedLMWeights {
		sum += float64(w)
	}
	return sum
}

// NextSentenceWeight is the sum of NextSentenceWeights: the number of packed sequences; 0 where rows are not packed.
func (b *Batch) NextSentenceWeight() float64 {
	var sum float64
	for _, w := range b.NextSentenceWeights {
		sum += float64(w)
	}
	return sum
}

// LabelWeight is the number of Labels that are not Unlabelled.
func (b *Batch) LabelWeight() float64 {
	n := 0
	for _, l := range b.Labels {
		if l != Unlabelled {
			n++
		}
	}
	return float64(n)
}

// packed reports whether rows hold several sequences.
func (b *Batch) packed() bool { return b.Sequences > 1 }

// perRow is the number of sequences that fit in a row.
func (b *Batch) perRow() int { return max(1, b.Sequences) }

// Validate reports the first field that a model with config c and head h cannot take. It does not look at labels
// when labels is false, as for a prediction.
func (b *Batch) Validate(c Config, h Head, labels bool) error {
	if b.Size < 1 || b.Length < 1 || b.Length > c.MaxPositionEmbeddings {
		return fmt.Errorf("bert: batch of %d sequences of %d tokens, want at least 1 and 1 to %d (max_position_embeddings)",
			b.Size, b.Length, c.MaxPositionEmbeddings)
	}
	if b.Sample < 0 || b.Sample > math.MaxUint32-b.Size {
		return fmt.Errorf("bert: sample index %d is out of range", b.Sample)
	}
	if b.Sequences < 0 || b.Sequences > b.Length || b.packed() && h.Task != Pretraining {
		return fmt.Errorf("bert: packs of %d sequences in rows of %d tokens for %s, want at most one sequence a token, and packs only for %s",
			b.Sequences, b.Length, h.Task, Pretraining)
	}
	tokens := b.Size * b.Length
	fields := []field{
		{"input_ids", b.InputIDs, tokens, c.VocabSize},
		{"token_type_ids", b.TokenTypeIDs, tokens, c.TypeVocabSize},
		{"attention_mask", b.AttentionMask, tokens, 1 + b.perRow()},
	}
	if len(b.PositionIDs) > 0 || b.packed() {
		fields = append(fields, field{"position_ids", b.PositionIDs, tokens, c.MaxPositionEmbeddings})
	}
	switch {
	case !b.packed() && len(b.FirstPositions)+len(b.NextSentenceWeights) > 0:
		return fmt.Errorf("bert: first_positions and next_sentence_weights in rows of %d sequences, want them only in packed rows", b.perRow())
	case b.packed():
		fields = append(fields, field{"first_positions", b.FirstPositions, b.Size * b.Sequences, b.Length})
	}
	switch {
	case h.Task == Pretraining:
		// The positions are input as well as labels: they say which hidden states go through the decoder.
		n := b.Size * b.Predictions
		if b.Predictions < 1 || b.Predictions > b.Length {
			return fmt.Errorf("bert: %d predictions a sequence of %d tokens, want 1 to %d", b.Predictions, b.Length, b.Length)
		}
		fields = append(fields, field{"masked_lm_positions", b.MaskedLMPositions, n, b.Length})
		if labels {
			fields = append(fields, field{"masked_lm_ids", b.MaskedLMIDs, n, c.VocabSize},
				field{"next_sentence_labels", b.NextSentenceLabels, b.Size * b.perRow(), 2})
			if err := checkWeights("masked_lm_weights", b.MaskedLMWeights, n); err != nil {
				return err
			}
			if b.packed() {
				if err := checkWeights("next_sentence_weights", b.NextSentenceWeights, b.Size*b.Sequences); err != nil {
					return err
				}
			}
		}
	case h.Task == QuestionAnswering && labels:
		fields = append(fields, field{"start_positions", b.StartPositions, b.Size, b.Length},
			field{"end_positions", b.EndPositions, b.Size, b.Length})
	case h.Task == Classification && labels && h.Labels > 1:
		fields = append(fields, field{"labels", b.Labels, b.Size, h.Labels})
	case h.Task == Classification && labels && len(b.Targets) != b.Size:
		return fmt.Errorf("bert: targets has %d values, want %d", len(b.Targets), b.Size)
	case h.Task == MultipleChoice && b.Size%h.Labels != 0:
		return fmt.Errorf("bert: batch of %d sequences, want a multiple of num_labels %d: the choices of a question stay together",
			b.Size, h.Labels)
	case h.Task == MultipleChoice && labels:
		fields = append(fields, field{"labels", b.Labels, b.Size, 2})
	}
	for _, f := range fields {
		if err := f.check(); err != nil {
			return err
		}
	}
	if h.Task == MultipleChoice && labels {
		return b.checkChoices(h.Labels)
	}
	if h.Task == TokenClassification && labels {
		return b.checkTokenLabels(h.Labels)
	}
	return nil
}

// checkTokenLabels reports a label that is none of n, or that of a token that attention masks out.
func (b *Batch) checkTokenLabels(n int) error {
	if tokens := b.Size * b.Length; len(b.Labels) != tokens {
		return fmt.Errorf("bert: labels has %d values, want %d", len(b.Labels), tokens)
	}
	for i, l := range b.Labels {
		switch {
		case l == Unlabelled:
		case l < 0 || int(l) >= n:
			return fmt.Errorf("bert: labels[%d] is %d, want 0 to %d, or %d for none", i, l, n-1, Unlabelled)
		case b.AttentionMask[i] == 0:
			return fmt.Errorf("bert: labels[%d] is %d, but attention_mask is 0 there: want %d", i, l, Unlabelled)
		}
	}
	return nil
}

// checkWeights reports weights unless they are n finite numbers of at least 0.
func checkWeights(name string, weights []float32, n int) error {
	if len(weights) != n {
		return fmt.Errorf("bert: %s has %d values, want %d", name, len(weights), n)
	}
	for i, w := range weights {
		if !(w >= 0 && w <= math.MaxFloat32) {
			return fmt.Errorf("bert: %s[%d] is %g, want a finite number of at least 0", name, i, w)
		}
	}
	return nil
}

// checkChoices reports a question without exactly one right choice.
func (b *Batch) checkChoices(n int) error {
	for i := 0; i < b.Size; i += n {
		right := 0
		for _, l := range b.Labels[i : i+n] {
			right += int(l)
		}
		if right != 1 {
			return fmt.Errorf("bert: labels[%d] to [%d] mark %d right choices, want one", i, i+n-1, right)
		}
	}
	return nil
}

// field is a slice of indices with its required length and exclusive upper bound.
type field struct {
	name   string
	values []int32
	length int
	limit  int
}

func (f field) check() error {
	if len(f.values) != f.length {
		return fmt.Errorf("bert: %s has %d values, want %d", f.name, len(f.values), f.length)
	}
	for i, v := range f.values {
		if v < 0 || int(v) >= f.limit {
			return fmt.Errorf("bert: %s[%d] is %d, want 0 to %d", f.name, i, v, f.limit-1)
		}
	}
	return nil
}

// Slice returns sequences i0 to i1 as a batch of their own that shares memory with b.
func (b *Batch) Slice(i0, i1 int) *Batch {
	s := &Batch{Size: i1 - i0, Length: b.Length, Sample: b.Sample + i0, Predictions: b.Predictions}
	s.InputIDs = rows(b.InputIDs, i0, i1, b.Length)
	s.TokenTypeIDs = rows(b.TokenTypeIDs, i0, i1, b.Length)
	s.AttentionMask = rows(b.AttentionMask, i0, i1, b.Length)
	s.MaskedLMPositions = rows(b.MaskedLMPositions, i0, i1, b.Predictions)
	s.MaskedLMIDs = rows(b.MaskedLMIDs, i0, i1, b.Predictions)
	s.MaskedLMWeights = rows(b.MaskedLMWeights, i0, i1, b.Predictions)
	s.NextSentenceLabels = rows(b.NextSentenceLabels, i0, i1, b.perRow())
	s.StartPositions = rows(b.StartPositions, i0, i1, 1)
	s.EndPositions = rows(b.EndPositions, i0, i1, 1)
	s.Labels = rows(b.Labels, i0, i1, len(b.Labels)/max(1, b.Size))
	s.Targets = rows(b.Targets, i0, i1, 1)
	s.Sequences = b.Sequences
	s.PositionIDs = rows(b.PositionIDs, i0, i1, b.Length)
	s.FirstPositions = rows(b.FirstPositions, i0, i1, b.perRow())
	s.NextSentenceWeights = rows(b.NextSentenceWeights, i0, i1, b.perRow())
	return s
}

func rows[T any](values []T, i0, i1, width int) []T {
	if len(values) == 0 {
		return nil
	}
	return values[i0*width : i1*width]
}
