package train

import (
	"math"
	"testing"

	"harness.invalid/core/bert"
)

// TestUnigramLoss: two tokens, one three times as frequent as the other, have the entropy -(3/4 ln 3/4 + 1/4 ln 1/4).
// Padding does not count.
func TestUnigramLoss(t *testing.T) {
	got := unigramLoss([]*bert.Batch{
		{MaskedLMIDs: []int32{4, 4, 0}, MaskedLMWeights: []float32{1, 1, 0}},
		{MaskedLMIDs: []int32{9, 4}, MaskedLMWeights: []float32{1, 1}},
	})
	if want := -(0.75*math.Log(0.75) + 0.25*math.Log(0.25)); math.Abs(got-want) > 1e-15 {
		t.Errorf("%v, want %v", got, want)
	}
}
