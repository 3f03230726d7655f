package emulator

import (
	"slices"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/numerics"
)

// TestScoresApart: scores are rounded in the same way whether their rows lie as far apart as in the stream of random bits
// or next to each other, whichever queries there are.
func TestScoresApart(t *testing.T) {
	for _, tokens := range [][]int32{nil, {0, 1, 2, 9, 10, 69}} {
		var rounded [2][]float32
		for i, ld := range []int{50, 70} {
			h := head{d: New(Policy{Overflow: numerics.Clip}), pass: &bert.Pass{Seed: 3, Step: 4, Train: true, Size: 1, Length: 70},
				op: &bert.Attention{Size: 1, Length: 70}, keys: 50, queries: 6, ld: ld, queryTokens: tokens}
			p, values := make([]float32, 6*ld), numbers(6*50, 1)
			for r := range 6 {
				copy(h.row(p, r), values[r*50:])
			}
			h.put(p, Store{numerics.FP16, true}, drawMasked)
			for r := range 6 {
				rounded[i] = append(rounded[i], h.row(p, r)...)
			}
			if slices.Equal(rounded[i], values) {
				t.Fatal("nothing is rounded")
			}
		}
		if !slices.Equal(rounded[0], rounded[1]) {
			t.Errorf("queries %v: rows next to each other are rounded in another way than rows apart", tokens)
		}
	}
}
