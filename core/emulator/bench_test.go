package emulator_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/emulator"
	"harness.invalid/core/kernels"
	"harness.invalid/core/numerics"
)

// Products check that their inputs are in the format that they name.
func init() { kernels.CheckInputs = true }

// small has dropout, and extents that are not multiples of a vector's.
var small = bert.Config{
	VocabSize: 53, HiddenSize: 36, NumHiddenLayers: 2, NumAttentionHeads: 3, IntermediateSize: 44, HiddenAct: bert.GELU,
	HiddenDropoutProb: 0.1, AttentionProbsDropoutProb: 0.2, MaxPositionEmbeddings: 24, TypeVocabSize: 2,
	InitializerRange: 0.1, LayerNormEps: 1e-12, AttentionMask: -10000,
}

// half is FP16 in every store, as on an IPU.
func half(stochastic bool) emulator.Policy {
	s := emulator.Store{Format: numerics.FP16, Stochastic: stochastic}
	r := emulator.Row{Out: s, Grad: s, Weight: s}
	return emulator.Policy{Partials: emulator.Partials{Chunk: 16, Store: s}, Embed: r, Linear: r, Pointwise: r, Residual: r,
		Norm: r, Statistics: s, Scores: r,
		Masked: s, Exponential: s, Reciprocal: s, Probabilities: r, LossGrad: s, Accumulate: s, Reduce: s, Parameters: s, Overflow: numerics.Clip}
}

// bench is a network with its memory and a batch.
type bench struct {
	model         *bert.Model
	params, grads []float32
	network       *bert.Network
	batch         *bert.Batch
	objective     bert.Objective
	limit         bert.Shape
}

func newBench(t testing.TB, c bert.Config, task bert.Task, size int) *bench {
	t.Helper()
	head := bert.Head{Task: task}
	if task == bert.Classification || task == bert.TokenClassification {
		head.Labels = 3
	}
	if task == bert.MultipleChoice {
		head.Labels = 2
	}
	m, err := bert.New(c, head)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{model: m, params: make([]float32, m.Layout.Len()), grads: make([]float32, m.Layout.Len()),
		limit: bert.Shape{Size: size, Length: 20, Predictions: 3}}
	bert.Initialize(c, m.Layout, b.params, 1)
	b.network, err = bert.NewNetwork(m, b.params, b.grads, b.limit)
	if err != nil {
		t.Fatal(err)
	}
	b.batch = pretrainingBatch(c, size, b.limit.Length, b.limit.Predictions)
	b.batch.StartPositions, b.batch.EndPositions, b.batch.Labels = make([]int32, size), make([]int32, size), make([]int32, size)
	for i := range size {
		b.batch.StartPositions[i], b.batch.EndPositions[i], b.batch.Labels[i] = int32(i%14), int32(i*3%14), int32(i%3)
		if task == bert.MultipleChoice {
			b.batch.Labels[i] = int32((i/2 + i + 1) % 2) // the first of two, the second, the first ...
		}
	}
	if task == bert.TokenClassification {
		b.labelTokens()
	}
	b.objective = bert.Objective{Scale: 1, Sequences: float64(size), MaskedWeight: b.batch.MaskedWeight(),
		LabelWeight: b.batch.LabelWeight()}
	return b
}

// labelTokens labels two of three tokens that attention sees.
func (b *bench) labelTokens() {
	b.batch.Labels = make([]int32, len(b.batch.InputIDs))
	for i := range b.batch.Labels {
		if b.batch.Labels[i] = int32(i * i % 3); i%3 == 2 || b.batch.AttentionMask[i] == 0 {
			b.batch.Labels[i] = bert.Unlabelled
		}
	}
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
		MaskedLMPositions: ids(size*predictions, length), MaskedLMIDs: ids(size*predictions, c.VocabSize),
		MaskedLMWeights:    make([]float32, size*predictions),
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

// run is a training pass over part of the batch.
func (b *bench) run(t testing.TB, d *emulator.Device, batch *bert.Batch) bert.Losses {
	t.Helper()
	p, l := b.forward(t, d, batch)
	b.network.Backward(d, p)
	return l
}

// forward is the forward half of run.
func (b *bench) forward(t testing.TB, d *emulator.Device, batch *bert.Batch) (*bert.Pass, bert.Losses) {
	t.Helper()
	p := &bert.Pass{Seed: 5, Step: 2, Train: true}
	l, err := b.network.Forward(d, p, batch, &b.objective)
	if err != nil {
		t.Fatal(err)
	}
	return p, l
}

func norm(x []float32) float64 {
	var sum float64
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return math.Sqrt(sum)
}

// relative is the norm of x - y over the norm of y.
func relative(x, y []float32) float64 {
	d := make([]float32, len(x))
	for i := range d {
		d[i] = x[i] - y[i]
	}
	return norm(d) / norm(y)
}
