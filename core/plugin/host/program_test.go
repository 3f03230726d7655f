package host_test

import (
	"iter"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
)

// program is a small pre-training program.
func program() backend.Program {
	model := bert.Defaults()
	model.VocabSize, model.HiddenSize, model.NumHiddenLayers, model.NumAttentionHeads, model.IntermediateSize = 97, 32, 2, 2, 64
	model.MaxPositionEmbeddings = 32
	return backend.Program{
		Model: model, Head: bert.Head{Task: bert.Pretraining}, Precision: "fp16", Seed: 3,
		Length: 16, MaxPredictions: 3, MicroBatch: 2, Accumulation: 2, Replicas: 1,
	}
}

// batches are the micro-batches of a step.
func batches(p backend.Program, step int) iter.Seq2[*bert.Batch, error] {
	return func(yield func(*bert.Batch, error) bool) {
		for i := range p.Accumulation * p.Replicas {
			if !yield(batch(p, step, i*p.MicroBatch, p.MicroBatch), nil) {
				return
			}
		}
	}
}

func batch(p backend.Program, step, sample, size int) *bert.Batch {
	ids := func(n, limit, salt int) []int32 {
		v := make([]int32, n)
		for i := range v {
			v[i] = int32((i*7 + sample*31 + step*13 + salt) % limit)
		}
		return v
	}
	b := &bert.Batch{
		Size: size, Length: p.Length, Sample: sample, Predictions: p.MaxPredictions,
		InputIDs: ids(size*p.Length, p.Model.VocabSize, 1), TokenTypeIDs: ids(size*p.Length, 2, 2), AttentionMask: make([]int32, size*p.Length),
		MaskedLMPositions: ids(size*p.MaxPredictions, p.Length, 3), MaskedLMIDs: ids(size*p.MaxPredictions, p.Model.VocabSize, 4),
		MaskedLMWeights: make([]float32, size*p.MaxPredictions), NextSentenceLabels: ids(size, 2, 5),
	}
	for i := range b.AttentionMask {
		b.AttentionMask[i] = 1
	}
	for i := range b.MaskedLMWeights {
		b.MaskedLMWeights[i] = 1
	}
	return b
}

func stepOf(p backend.Program, step int) backend.Step {
	n := p.GlobalBatch()
	return backend.Step{Step: step, Sequences: n, MaskedWeight: float64(n * p.MaxPredictions)}
}
