package train

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/dataset"
)

// counter is a source of empty batches, with an error in place of one of them.
type counter struct {
	at     dataset.Position
	failAt int
}

var errDealt = errors.New("bad line")

func (c *counter) Next() (*bert.Batch, error) {
	c.at.Index++
	if c.at.Index == c.failAt {
		return nil, errDealt
	}
	return &bert.Batch{Size: 1, Sample: c.at.Index}, nil
}
func (c *counter) Position() dataset.Position    { return c.at }
func (c *counter) Seek(p dataset.Position) error { c.at = p; return nil }

func TestPrefetch(t *testing.T) {
	source := &counter{}
	n := 0
	for l := range prefetch(t.Context(), source, 7) {
		n++
		if l.err != nil || l.batch.Sample != n || l.after.Index != n {
			t.Errorf("batch %d: %+v", n, l)
		}
	}
	if n != 7 || source.at.Index != 7 {
		t.Errorf("%d batches from a source at %d, want 7", n, source.at.Index)
	}

	var errs []error
	for l := range prefetch(t.Context(), &counter{failAt: 3}, 7) {
		errs = append(errs, l.err)
	}
	if !slices.Equal(errs, []error{nil, nil, errDealt}) {
		t.Errorf("errors %v, want the third and an end", errs)
	}

	// When the host gives up, the channel is closed, and the source is free.
	ctx, cancel := context.WithCancel(t.Context())
	c := prefetch(ctx, &counter{}, math.MaxInt)
	<-c
	cancel()
	for range c {
	}
}

// TestBatchDigest: every field of a batch counts, and so does the order of batches.
func TestBatchDigest(t *testing.T) {
	full := func() *bert.Batch {
		return &bert.Batch{
			Size: 1, Length: 2, Predictions: 1,
			InputIDs: []int32{5, 6}, TokenTypeIDs: []int32{0, 1}, AttentionMask: []int32{1, 1},
			MaskedLMPositions: []int32{1}, MaskedLMIDs: []int32{7}, MaskedLMWeights: []float32{1}, NextSentenceLabels: []int32{1},
			StartPositions: []int32{0}, EndPositions: []int32{1}, Labels: []int32{2}, Targets: []float32{0.5},
		}
	}
	sum := func(batches ...*bert.Batch) string {
		d := newBatchDigest()
		for _, b := range batches {
			d.add(b)
		}
		return d.sum()
	}
	seen := map[string]string{sum(full()): "the batch itself"}
	for name, change := range map[string]func(*bert.Batch){
		"input_ids":            func(b *bert.Batch) { b.InputIDs[1]++ },
		"token_type_ids":       func(b *bert.Batch) { b.TokenTypeIDs[1]++ },
		"attention_mask":       func(b *bert.Batch) { b.AttentionMask[1] = 0 },
		"masked_lm_positions":  func(b *bert.Batch) { b.MaskedLMPositions[0]++ },
		"masked_lm_ids":        func(b *bert.Batch) { b.MaskedLMIDs[0]++ },
		"masked_lm_weights":    func(b *bert.Batch) { b.MaskedLMWeights[0] = 0 },
		"next_sentence_labels": func(b *bert.Batch) { b.NextSentenceLabels[0] = 0 },
		"start_positions":      func(b *bert.Batch) { b.StartPositions[0] = 1 },
		"end_positions":        func(b *bert.Batch) { b.EndPositions[0] = 0 },
		"labels":               func(b *bert.Batch) { b.Labels[0]++ },
		"targets":              func(b *bert.Batch) { b.Targets[0]++ },
		"length":               func(b *bert.Batch) { b.Length++ },
	} {
		b := full()
		change(b)
		s := sum(b)
		if other, ok := seen[s]; ok {
			t.Errorf("another %s has the digest of %s", name, other)
		}
		seen[s] = name
	}
	a, b := full(), full()
	b.InputIDs[0] = 9
	if sum(a, b) == sum(b, a) {
		t.Error("the order of batches does not count")
	}

	half := newBatchDigest()
	half.add(a)
	state, err := half.save()
	if err != nil {
		t.Fatal(err)
	}
	resumed := newBatchDigest()
	if err := resumed.load(state); err != nil {
		t.Fatal(err)
	}
	resumed.add(b)
	if resumed.sum() != sum(a, b) {
		t.Error("a digest that was carried over a restart differs")
	}
	if err := resumed.load([]byte("no state")); err == nil {
		t.Error("a broken state is taken")
	}
}

func TestMicroBatches(t *testing.T) {
	b := &bert.Batch{
		Size: 7, Length: 1,
		InputIDs: []int32{0, 1, 2, 3, 4, 5, 6}, TokenTypeIDs: make([]int32, 7), AttentionMask: make([]int32, 7),
	}
	var ids, samples []int32
	for m, err := range microBatches(b, 3) {
		if err != nil {
			t.Fatal(err)
		}
		ids, samples = append(ids, m.InputIDs...), append(samples, int32(m.Sample))
	}
	if !slices.Equal(ids, b.InputIDs) || !slices.Equal(samples, []int32{0, 3, 6}) {
		t.Errorf("sequences %v from samples %v", ids, samples)
	}
}
