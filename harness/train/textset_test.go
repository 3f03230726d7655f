package train

import (
	"math"
	"testing"

	"harness.invalid/core/bert"
)

// TestTextFloors: two tokens, one three times as frequent as the other, have the entropy -(3/4 ln 3/4 + 1/4 ln 1/4), and
// who always predicts the frequent one is right three times out of four. Padding does not count, neither among tokens
// nor among packed pairs.
func TestTextFloors(t *testing.T) {
	entropy := func(p float64) float64 { return -(p*math.Log(p) + (1-p)*math.Log(1-p)) }
	got := textFloors([]*bert.Batch{
		{MaskedLMIDs: []int32{4, 4, 0}, MaskedLMWeights: []float32{1, 1, 0}, NextSentenceLabels: []int32{0, 1, 0},
			NextSentenceWeights: []float32{1, 1, 0}},
		{MaskedLMIDs: []int32{9, 4}, MaskedLMWeights: []float32{1, 1}, NextSentenceLabels: []int32{0, 1, 1}},
	})
	for name, want := range map[string]float64{"masked_lm_loss": entropy(0.75), "masked_lm_accuracy": 75,
		"next_sentence_loss": entropy(0.6), "next_sentence_accuracy": 60, "loss": entropy(0.75) + entropy(0.6)} {
		if math.Abs(got[name]-want) > 1e-12 {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if got := textFloors(nil); len(got) != 0 {
		t.Errorf("without text the floors are %v", got)
	}
}
