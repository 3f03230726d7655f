package bench

import (
	"iter"
	"math"
	"math/rand/v2"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
)

func one(b *bert.Batch) iter.Seq2[*bert.Batch, error] {
	return func(yield func(*bert.Batch, error) bool) { yield(b, nil) }
}

// Inputs are n sequences of random tokens, one by one.
func (o StepOptions) Inputs(p *backend.Program, n int) []*bert.Batch {
	o.Batch = n
	program := *p
	program.MicroBatch = n
	b := o.randomBatch(&program, 0)
	all := make([]*bert.Batch, n)
	for i := range all {
		all[i] = b.Slice(i, i+1)
	}
	return all
}

// batches is how many batches a benchmark cycles through. They are prepared before it begins and do not count.
const batches = 4

// lengths returns the tokens of the sequences of a batch without padding. They lie around Fill times the length, at
// most 60% from it, and over many sequences are spread evenly: multiples of the golden ratio leave no gaps.
// against-pytorch/step.py has the same formula.
func (o *StepOptions) lengths(batch int) []int {
	mean := float64(o.Length) * o.fill()
	spread := min(0.6, 1/o.fill()-1)
	all := make([]int, o.Batch)
	for i := range all {
		_, u := math.Modf((float64(batch*o.Batch+i) + 0.5) * (math.Sqrt(5) - 1) / 2)
		all[i] = max(1, int(mean*(1+spread*(2*u-1))+0.5))
	}
	return all
}

// fill is the share of tokens that are no padding.
func (o *StepOptions) fill() float64 {
	if o.Fill == 0 {
		return 1
	}
	return o.Fill
}

// randomBatch is batch i: random tokens, with padding at the end of sequences.
func (o *StepOptions) randomBatch(p *backend.Program, batch int) *bert.Batch {
	r := rand.New(rand.NewPCG(1, uint64(batch)))
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
	lengths := o.lengths(batch)
	for i := range b.AttentionMask {
		if i%length < lengths[i/length] {
			b.AttentionMask[i] = 1
		}
		if i%length >= length/2 {
			b.TokenTypeIDs[i] = 1
		}
	}
	if p.Head.Task != bert.Pretraining {
		b.StartPositions, b.EndPositions = ids(size, length), ids(size, length)
		for i, n := range lengths {
			b.StartPositions[i], b.EndPositions[i] = b.StartPositions[i]%int32(n), b.EndPositions[i]%int32(n)
		}
		return b
	}
	b.Predictions = p.MaxPredictions
	b.MaskedLMPositions, b.MaskedLMIDs = make([]int32, 0, size*b.Predictions), ids(size*b.Predictions, p.Model.VocabSize)
	b.MaskedLMWeights, b.NextSentenceLabels = make([]float32, size*b.Predictions), ids(size, 2)
	for i, n := range lengths {
		positions := make([]int32, b.Predictions) // those beyond the tokens' share are padding: position 0, weight 0
		for k, at := range r.Perm(n)[:max(1, b.Predictions*n/length)] {
			positions[k] = int32(at)
			b.MaskedLMWeights[i*b.Predictions+k] = 1
		}
		b.MaskedLMPositions = append(b.MaskedLMPositions, positions...)
	}
	return b
}
