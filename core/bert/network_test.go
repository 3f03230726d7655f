package bert_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"harness.invalid/core/bert"
)

var tiny = bert.Config{
	VocabSize: 11, HiddenSize: 4, NumHiddenLayers: 2, NumAttentionHeads: 2, IntermediateSize: 6, HiddenAct: bert.GELUNew,
	MaxPositionEmbeddings: 8, TypeVocabSize: 2, InitializerRange: 0.02, LayerNormEps: 1e-12, AttentionMask: -10000,
}

// batch is a valid batch for every task.
func batch(size, length, predictions int) *bert.Batch {
	b := &bert.Batch{Size: size, Length: length, Predictions: predictions,
		InputIDs: make([]int32, size*length), TokenTypeIDs: make([]int32, size*length), AttentionMask: make([]int32, size*length),
		MaskedLMPositions: make([]int32, size*predictions), MaskedLMIDs: make([]int32, size*predictions),
		MaskedLMWeights:    make([]float32, size*predictions),
		NextSentenceLabels: make([]int32, size), StartPositions: make([]int32, size), EndPositions: make([]int32, size),
		Labels: make([]int32, size), Targets: make([]float32, size)}
	for i := range b.InputIDs {
		b.InputIDs[i] = int32(i % tiny.VocabSize)
	}
	for i := range b.MaskedLMPositions {
		b.MaskedLMPositions[i] = int32(i % length)
	}
	b.Labels[size-1] = 1 // one right choice of two
	return b
}

func TestBatchValidate(t *testing.T) {
	heads := map[bert.Task]bert.Head{bert.Pretraining: {Task: bert.Pretraining},
		bert.QuestionAnswering: {Task: bert.QuestionAnswering}, bert.Classification: {Task: bert.Classification, Labels: 2},
		bert.MultipleChoice: {Task: bert.MultipleChoice, Labels: 2}, bert.TokenClassification: {Task: bert.TokenClassification, Labels: 2}}
	none := int32(bert.Unlabelled)
	for task, h := range heads {
		b := batch(2, 8, 2)
		if task == bert.TokenClassification {
			b.AttentionMask = slices.Repeat([]int32{1, 1, 1, 0}, 4)
			b.Labels = slices.Repeat([]int32{none, 1, 0, none}, 4)
		}
		if err := b.Validate(tiny, h, true); err != nil {
			t.Errorf("%s: %v", task, err)
		}
	}
	for _, test := range []struct {
		task  bert.Task
		names string // what the error must name
		spoil func(b *bert.Batch)
	}{
		{bert.Pretraining, "sequences", func(b *bert.Batch) { b.Size = 0 }},
		{bert.Pretraining, "max_position_embeddings", func(b *bert.Batch) { b.Length = 9 }},
		{bert.Pretraining, "sample", func(b *bert.Batch) { b.Sample = -1 }},
		{bert.Pretraining, "input_ids has 15 values, want 16", func(b *bert.Batch) { b.InputIDs = b.InputIDs[1:] }},
		{bert.Pretraining, "input_ids[3] is 11, want 0 to 10", func(b *bert.Batch) { b.InputIDs[3] = 11 }},
		{bert.Pretraining, "token_type_ids[0] is -1", func(b *bert.Batch) { b.TokenTypeIDs[0] = -1 }},
		{bert.Pretraining, "attention_mask[1] is 2", func(b *bert.Batch) { b.AttentionMask[1] = 2 }},
		{bert.Pretraining, "predictions", func(b *bert.Batch) { b.Predictions = 0 }},
		{bert.Pretraining, "masked_lm_positions[2] is 8", func(b *bert.Batch) { b.MaskedLMPositions[2] = 8 }},
		{bert.Pretraining, "masked_lm_ids", func(b *bert.Batch) { b.MaskedLMIDs = nil }},
		{bert.Pretraining, "masked_lm_weights has 3 values, want 4", func(b *bert.Batch) { b.MaskedLMWeights = b.MaskedLMWeights[1:] }},
		{bert.Pretraining, "masked_lm_weights[0] is NaN", func(b *bert.Batch) { b.MaskedLMWeights[0] = float32(math.NaN()) }},
		{bert.Pretraining, "masked_lm_weights[1] is -1", func(b *bert.Batch) { b.MaskedLMWeights[1] = -1 }},
		{bert.Pretraining, "next_sentence_labels[0] is 2", func(b *bert.Batch) { b.NextSentenceLabels[0] = 2 }},
		{bert.QuestionAnswering, "start_positions[1] is 8", func(b *bert.Batch) { b.StartPositions[1] = 8 }},
		{bert.QuestionAnswering, "end_positions", func(b *bert.Batch) { b.EndPositions = nil }},
		{bert.Classification, "labels[1] is 2, want 0 to 1", func(b *bert.Batch) { b.Labels[1] = 2 }},
		{bert.MultipleChoice, "batch of 1 sequences, want a multiple of num_labels 2", func(b *bert.Batch) { *b = *b.Slice(0, 1) }},
		{bert.MultipleChoice, "labels[0] to [1] mark 2 right choices, want one", func(b *bert.Batch) { b.Labels[0] = 1 }},
		{bert.MultipleChoice, "labels has 0 values", func(b *bert.Batch) { b.Labels = nil }},
		{bert.TokenClassification, "labels has 2 values, want 16", func(*bert.Batch) {}},
		{bert.TokenClassification, "labels[15] is 2, want 0 to 1, or -100", func(b *bert.Batch) {
			b.Labels = append(slices.Repeat([]int32{none}, 15), 2)
		}},
		{bert.TokenClassification, "labels[15] is 1, but attention_mask is 0 there", func(b *bert.Batch) {
			b.Labels = append(slices.Repeat([]int32{none}, 15), 1)
		}},
	} {
		b := batch(2, 8, 2)
		test.spoil(b)
		if err := b.Validate(tiny, heads[test.task], true); err == nil || !strings.Contains(err.Error(), test.names) {
			t.Errorf("%s: %v, want an error with %q", test.task, err, test.names)
		}
	}
	b := batch(2, 8, 2)
	b.MaskedLMIDs, b.NextSentenceLabels, b.StartPositions, b.Labels = nil, nil, nil, nil
	for task, h := range heads {
		if err := b.Validate(tiny, h, false); err != nil {
			t.Errorf("%s without labels: %v", task, err)
		}
	}
	b.Targets = nil
	if err := b.Validate(tiny, bert.Head{Task: bert.Classification, Labels: 1}, true); err == nil {
		t.Error("a regression without targets was taken")
	}
}

// TestSlice: slices of a valid batch are valid, cover it, and keep the samples' numbers.
func TestSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 9).Draw(t, "size")
		b := batch(size, rapid.IntRange(2, 8).Draw(t, "length"), 2)
		b.Sample = rapid.IntRange(0, 100).Draw(t, "sample")
		at := rapid.IntRange(0, size).Draw(t, "at")
		tokens := 0
		for _, s := range []*bert.Batch{b.Slice(0, at), b.Slice(at, size)} {
			if s.Size == 0 {
				continue
			}
			if err := s.Validate(tiny, bert.Head{Task: bert.Pretraining}, true); err != nil {
				t.Fatal(err)
			}
			if first := b.InputIDs[tokens]; s.InputIDs[0] != first || s.Sample != b.Sample+tokens/b.Length {
				t.Fatalf("slice begins with token %d of sample %d", s.InputIDs[0], s.Sample)
			}
			tokens += len(s.InputIDs)
		}
		if tokens != len(b.InputIDs) {
			t.Fatalf("slices have %d tokens, want %d", tokens, len(b.InputIDs))
		}
	})
}

// TestSites: every layer, operator, draw and head has its own stream.
func TestSites(t *testing.T) {
	seen := map[uint32]string{}
	for _, layer := range []int{-1, 0, 1, 23, 1023} {
		for op := bert.OpEmbeddings; op <= bert.OpUpdate; op++ {
			for _, draw := range []uint32{0, 1, 63} {
				for _, head := range []uint32{0, 1, 1023} {
					n, name := bert.Site{Layer: layer, Op: op}.Stream(draw, head), fmt.Sprint(layer, op, draw, head)
					if other, ok := seen[n]; ok {
						t.Fatalf("%s and %s share stream %d", name, other, n)
					}
					seen[n] = name
				}
			}
		}
	}
}

// TestReadTokens: the tokens that each head reads, also where two predictions are of one token.
func TestReadTokens(t *testing.T) {
	b := batch(2, 8, 3)
	b.MaskedLMPositions = []int32{3, 0, 3, 7, 1, 2}
	packed := *b
	packed.Sequences, packed.FirstPositions = 2, []int32{0, 5, 0, 4}
	for _, test := range []struct {
		name string
		head bert.Head
		of   *bert.Batch
		want []int32
	}{
		{"pre-training", bert.Head{Task: bert.Pretraining}, b, []int32{0, 3, 0, 3, 8, 15, 9, 10}},
		{"packed rows", bert.Head{Task: bert.Pretraining}, &packed, []int32{0, 5, 3, 0, 3, 8, 12, 15, 9, 10}},
		{"classification", bert.Head{Task: bert.Classification, Labels: 2}, b, []int32{0, 8}},
		{"multiple choice", bert.Head{Task: bert.MultipleChoice, Labels: 2}, b, []int32{0, 8}},
		{"questions", bert.Head{Task: bert.QuestionAnswering}, b, nil},
		{"entities", bert.Head{Task: bert.TokenClassification, Labels: 2}, b, nil},
	} {
		if got := test.of.ReadTokens(test.head); !slices.Equal(got, test.want) {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

func TestNetworkRefuses(t *testing.T) {
	m, err := bert.New(tiny, bert.Head{Task: bert.Pretraining})
	if err != nil {
		t.Fatal(err)
	}
	params := make([]float32, m.Layout.Len())
	limit := bert.Shape{Size: 2, Length: 6, Predictions: 2}
	for _, test := range []struct {
		name          string
		params, grads []float32
		limit         bert.Shape
	}{
		{"too few parameters", params[1:], params, limit},
		{"too few gradients", params, params[1:], limit},
		{"no sequences", params, params, bert.Shape{Size: 0, Length: 6, Predictions: 2}},
		{"too many tokens", params, params, bert.Shape{Size: 2, Length: 9, Predictions: 2}},
		{"no predictions", params, params, bert.Shape{Size: 2, Length: 6}},
	} {
		if _, err := bert.NewNetwork(m, test.params, test.grads, test.limit); err == nil {
			t.Errorf("%s: no error", test.name)
		}
	}
	n, err := bert.NewNetwork(m, params, nil, limit)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*bert.Batch{"size": batch(3, 6, 2), "length": batch(2, 7, 2), "predictions": batch(2, 6, 3)} {
		if err := n.Load(&bert.Pass{}, b, true); err == nil {
			t.Errorf("a batch beyond the limit of %s was loaded", name)
		}
	}
	if err := n.Load(&bert.Pass{Train: true}, batch(2, 6, 2), true); err == nil {
		t.Error("a network without gradients takes a training pass")
	}
	if err := n.Load(&bert.Pass{}, batch(2, 6, 2), true); err != nil {
		t.Error(err)
	}
}

func TestLosses(t *testing.T) {
	var l bert.Losses
	l.Add(bert.Losses{MaskedLM: bert.Loss{Sum: 6, Weight: 2, Correct: 1}, NextSentence: bert.Loss{Sum: 1, Weight: 4}})
	l.Add(bert.Losses{MaskedLM: bert.Loss{Sum: 2, Weight: 2, Correct: 2}, NextSentence: bert.Loss{Sum: 1, Weight: 4}})
	if l.MaskedLM.Mean() != 2 || l.MaskedLM.Accuracy() != 0.75 || l.Total() != 2.25 {
		t.Errorf("mean %g, accuracy %g, total %g, want 2, 0.75, 2.25", l.MaskedLM.Mean(), l.MaskedLM.Accuracy(), l.Total())
	}
	qa := bert.Losses{Start: bert.Loss{Sum: 2, Weight: 1}, End: bert.Loss{Sum: 4, Weight: 1}}
	if qa.Total() != 3 || (bert.Loss{}).Mean() != 0 || (bert.Loss{}).Accuracy() != 0 {
		t.Errorf("total %g, want 3; nothing has mean and accuracy 0", qa.Total())
	}
}
