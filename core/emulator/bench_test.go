package emulator_test

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	gpuref "harness.invalid/plugins/gpu-ref"
	"harness.invalid/plugins/ipu"
)

// BenchmarkStep is a training step of a published size: pre-training at length 128, batch 32, dropout 0.1, without the optimizer.
func BenchmarkStep(b *testing.B) {
	for _, bench := range []struct {
		backend   backend.Backend
		precision string
	}{
		{gpuref.New(), "fp32"}, {gpuref.New(), "tf32"}, {gpuref.New(), "bf16"}, {gpuref.New(), "fp16"}, {ipu.New(), "fp16.16"}, {ipu.New(), "fp16.32"},
	} {
		for _, size := range []string{"tiny", "mini"} {
			b.Run(fmt.Sprintf("%s/%s", size, bench.precision), func(b *testing.B) {
				c, err := bert.Defaults().Size(size)
				if err != nil {
					b.Fatal(err)
				}
				step(b, bench.backend, backend.Program{Model: c, Head: bert.Head{Task: bert.Pretraining}, Precision: bench.precision,
					Length: 128, MaxPredictions: 20, MicroBatch: 32, Accumulation: 1, Replicas: 1})
			})
		}
	}
}

func step(b *testing.B, on backend.Backend, p backend.Program) {
	l, err := bert.Parameters(p.Model, p.Head)
	if err != nil {
		b.Fatal(err)
	}
	m := backend.Memory{Layout: l, Params: make([]float32, l.Len()), Grads: make([]float32, l.Len())}
	bert.Initialize(p.Model, l, m.Params, 1)
	s, err := on.Open(b.Context(), p, m)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	if err := s.Commit(b.Context(), 0); err != nil {
		b.Fatal(err)
	}
	batch := pretrainingBatch(p.Model, p.MicroBatch, p.Length, p.MaxPredictions)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		step := backend.Step{Step: i, Sequences: batch.Size, MaskedWeight: batch.MaskedWeight()}
		if _, err := s.Step(b.Context(), step, one(batch)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(batch.Size*i)/b.Elapsed().Seconds(), "sequences/s")
}

func one(batch *bert.Batch) iter.Seq2[*bert.Batch, error] {
	return func(yield func(*bert.Batch, error) bool) { yield(batch, nil) }
}

// pretrainingBatch is a batch of random tokens, with padding at the end of every fourth sequence.
func pretrainingBatch(c bert.Config, size, length, predictions int) *bert.Batch {
	r := rand.New(rand.NewPCG(1, 1))
	ids := func(n, limit int) []int32 {
		values := make([]int32, n)
		for i := range values {
			values[i] = int32(r.IntN(limit))
		}
		return values
	}
	b := &bert.Batch{Size: size, Length: length, Predictions: predictions,
		InputIDs: ids(size*length, c.VocabSize), TokenTypeIDs: ids(size*length, c.TypeVocabSize), AttentionMask: make([]int32, size*length),
		MaskedLMPositions: ids(size*predictions, length), MaskedLMIDs: ids(size*predictions, c.VocabSize), MaskedLMWeights: make([]float32, size*predictions),
		NextSentenceLabels: ids(size, 2)}
	for i := range b.AttentionMask {
		if i/length%4 != 3 || i%length < length*3/4 {
			b.AttentionMask[i] = 1
		}
	}
	for i := range b.MaskedLMWeights {
		b.MaskedLMWeights[i] = 1
	}
	return b
}
