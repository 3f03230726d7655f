package emulator_test

import (
	"fmt"
	"slices"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/emulator"
)

// lengthened is a bench of three sequences with 7, 20 and a number of tokens, and predictions of tokens only.
func lengthened(t *testing.T, task bert.Task, last int) *bench {
	t.Helper()
	b := newBench(t, small, task, 3)
	for i := range b.batch.AttentionMask {
		b.batch.AttentionMask[i] = 0
		if i%20 < []int{7, 20, last}[i/20] {
			b.batch.AttentionMask[i] = 1
		}
	}
	if task == bert.TokenClassification {
		b.labelTokens()
		b.objective.LabelWeight = b.batch.LabelWeight()
	}
	b.batch.MaskedLMPositions = []int32{3, 6, 0, 19, 4, 4, 1, 2, 3}
	return b
}

// TestPaddingIsLeftOut: operators have rows for 7 + 20 + 4 tokens, and keys and values also where the head reads all.
func TestPaddingIsLeftOut(t *testing.T) {
	const all, seen = 3 * 20, 7 + 20 + 4
	for _, test := range []struct {
		task         bert.Task
		hidden, last int // rows of the operators of layers, and of the feed-forward block of the last
	}{{bert.Pretraining, seen, 3 * 4}, {bert.Classification, seen, 3}, {bert.QuestionAnswering, all, all},
		{bert.TokenClassification, seen, seen}} {
		b := lengthened(t, test.task, 4)
		rows := map[bert.Site]int{}
		d := bert.Watch(emulator.New(emulator.Policy{}), func(s bert.Site, gradient bool, values []float32, _ []int32) {
			for _, o := range bert.Operators(small, b.model.Head) {
				if o.Site == s {
					rows[s] = len(values) / o.Width
				}
			}
		})
		p := &bert.Pass{Seed: 5, Step: 2, Train: true}
		if _, err := b.network.Forward(d, p, b.batch, &b.objective); err != nil {
			t.Fatal(err)
		}
		b.network.Backward(d, p)
		for s, want := range map[bert.Site]int{
			{Layer: -1, Op: bert.OpEmbeddings}: test.hidden, {Layer: 0, Op: bert.OpQuery}: test.hidden,
			{Layer: 0, Op: bert.OpAttention}:    test.hidden,
			{Layer: 0, Op: bert.OpIntermediate}: test.hidden, {Layer: 0, Op: bert.OpOutputNorm}: test.hidden,
			{Layer: 1, Op: bert.OpKey}: seen, {Layer: 0, Op: bert.OpKey}: seen, {Layer: 1, Op: bert.OpValue}: seen,
			{Layer: 1, Op: bert.OpOutput}: test.last,
		} {
			if rows[s] != want {
				t.Errorf("%s: operator %d of layer %d has %d rows, want %d", test.task, s.Op, s.Layer, rows[s], want)
			}
		}
	}
}

// TestPaddingKeysNoBits: what the operators store for a sequence, dropout and stochastic rounding included, has the same
// bits whatever padding it and the sequences before it have. This leaves out partial sums, whose random bits depend on
// their place in the product.
func TestPaddingKeysNoBits(t *testing.T) {
	policy := half(true)
	policy.Partials = emulator.Partials{}
	for _, task := range []bert.Task{bert.Pretraining, bert.QuestionAnswering} {
		var want map[string][]float32
		for _, padding := range []bool{true, false} {
			b := lengthened(t, task, 4)
			if !padding { // of the first sequence
				for i := range 20 {
					b.batch.AttentionMask[i] = 1
				}
			}
			got := map[string][]float32{}
			d := bert.Watch(emulator.New(policy), func(s bert.Site, gradient bool, values []float32, tokens []int32) {
				for _, o := range bert.Operators(small, b.model.Head) {
					if o.Site != s || o.Rows == bert.FirstTokens || o.Rows == bert.MaskedTokens {
						continue
					}
					if tokens == nil && o.Rows == bert.ReadTokens {
						tokens = b.batch.ReadTokens(b.model.Head)
					}
					for row := range len(values) / o.Width {
						token := row
						if tokens != nil {
							token = int(tokens[row])
						}
						if token >= 20 {
							name := fmt.Sprintf("%s %v token %d", o.Name, gradient, token)
							got[name] = append(got[name], values[row*o.Width:(row+1)*o.Width]...)
						}
					}
				}
			})
			p := &bert.Pass{Seed: 5, Step: 2, Train: true}
			if _, err := b.network.Forward(d, p, b.batch, &b.objective); err != nil {
				t.Fatal(err)
			}
			b.network.Backward(d, p)
			if want == nil {
				want = got
				continue
			}
			if len(got) != len(want) {
				t.Errorf("%s: %d rows, want %d", task, len(got), len(want))
			}
			for name, values := range want {
				if !slices.Equal(got[name], values) {
					t.Errorf("%s: %s has other values without padding in the first sequence", task, name)
				}
			}
		}
	}
}
