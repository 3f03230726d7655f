package bench

import (
	"iter"
	"math/rand/v2"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
)

func one(b *bert.Batch) iter.Seq2[*bert.Batch, error] {
	return func(yield func(*bert.Batch, error) bool) { yield(b, nil) }
}

// randomBatch is a batch of random tokens without padding.
func randomBatch(p *backend.Program, seed uint64) *bert.Batch {
	r := rand.New(rand.NewPCG(1, seed))
	size, length := p.MicroBatch, p.Length
	ids := func(n, limit int) []int32 {
		x := make([]int32, n)
		for i := range x {
			x[i] = int32(r.IntN(limit))
		}
		return x
	}
	b := &bert.Batch{
		Size: size, Length: length, InputIDs: ids(size*length, p.Model.VocabSize),
		TokenTypeIDs: make([]int32, size*length), AttentionMask: make([]int32, size*length),
	}
	for i := range b.AttentionMask {
		b.AttentionMask[i] = 1
		if i%length >= length/2 {
			b.TokenTypeIDs[i] = 1
		}
	}
	if p.Head.Task != bert.Pretraining {
		b.StartPositions, b.EndPositions = ids(size, length), ids(size, length)
		return b
	}
	b.Predictions = p.MaxPredictions
	b.MaskedLMPositions, b.MaskedLMIDs = make([]int32, 0, size*b.Predictions), ids(size*b.Predictions, p.Model.VocabSize)
	b.MaskedLMWeights, b.NextSentenceLabels = make([]float32, size*b.Predictions), ids(size, 2)
	for range size {
		for _, at := range r.Perm(length)[:b.Predictions] {
			b.MaskedLMPositions = append(b.MaskedLMPositions, int32(at))
		}
	}
	for i := range b.MaskedLMWeights {
		b.MaskedLMWeights[i] = 1
	}
	return b
}
