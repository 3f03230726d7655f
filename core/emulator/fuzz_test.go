package emulator_test

import (
	"math"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/emulator"
)

// FuzzBatch: a batch of any content is refused by Load, or computed to finite losses and gradients. Masks may leave
// no token, and positions may coincide.
func FuzzBatch(f *testing.F) {
	c := small
	c.NumHiddenLayers = 1
	f.Add([]byte{1, 2, 3}, uint8(2), uint8(5), uint8(1))
	f.Add([]byte{0}, uint8(1), uint8(1), uint8(1))
	f.Add([]byte{255, 0, 7, 52, 1}, uint8(3), uint8(24), uint8(3))
	f.Fuzz(func(t *testing.T, data []byte, size, length, predictions uint8) {
		if len(data) == 0 || size > 4 || length > 30 || predictions > 6 {
			t.Skip()
		}
		at := 0
		ids := func(n, limit int) []int32 {
			values := make([]int32, n)
			for i := range values {
				values[i] = int32(data[at%len(data)])%int32(limit+1) - int32(at%97/96) // now and then out of range
				at++
			}
			return values
		}
		n := newBench(t, c, bert.Pretraining, 3)
		b := &bert.Batch{Size: int(size), Length: int(length), Predictions: int(predictions)}
		tokens, masked := b.Size*b.Length, b.Size*b.Predictions
		b.InputIDs, b.TokenTypeIDs, b.AttentionMask = ids(tokens, c.VocabSize-1), ids(tokens, 1), ids(tokens, 1)
		b.MaskedLMPositions, b.MaskedLMIDs, b.NextSentenceLabels = ids(masked, max(0, b.Length-1)), ids(masked, c.VocabSize-1), ids(b.Size, 1)
		b.MaskedLMWeights = make([]float32, masked)
		for i := range b.MaskedLMWeights {
			b.MaskedLMWeights[i] = float32(i % 2)
		}
		d, p := emulator.New(emulator.Policy{}), &bert.Pass{Step: 1, Train: true}
		o := &bert.Objective{Scale: 1, Sequences: float64(b.Size), MaskedWeight: b.MaskedWeight()}
		l, err := n.network.Forward(d, p, b, o)
		if err != nil {
			return
		}
		n.network.Backward(d, p)
		if loss := l.Total(); math.IsNaN(loss) || math.IsInf(loss, 0) {
			t.Errorf("loss is %g", loss)
		}
		for i, g := range n.grads {
			if math.IsNaN(float64(g)) || math.IsInf(float64(g), 0) {
				t.Fatalf("gradient element %d is %g", i, g)
			}
		}
	})
}
