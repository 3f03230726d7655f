package score_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"harness.invalid/core/score"
)

// near allows a few roundings of values near 1.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-14 }

func TestClasses(t *testing.T) {
	p, l := []int{1, 1, 0, 0, 1, 0, 1, 1}, []int{1, 0, 0, 1, 1, 0, 1, 0}
	// TP 3, FP 2, FN 1, TN 2.
	if got, err := score.Accuracy(p, l); err != nil || got != 5./8 {
		t.Errorf("accuracy %v, %v, want 5/8", got, err)
	}
	if got, err := score.F1(p, l, 1); err != nil || !near(got, 6./9) {
		t.Errorf("f1 %v, %v, want 6/9", got, err)
	}
	// Matthews 1975: (3·2 - 2·1) / √(5·4·4·3).
	if got, err := score.Matthews(p, l); err != nil || !near(got, 4/math.Sqrt(240)) {
		t.Errorf("matthews %v, %v, want 4/√240", got, err)
	}
	if got, err := score.Matthews([]int{1, 1}, []int{0, 1}); err != nil || got != 0 {
		t.Errorf("matthews of constant predictions %v, %v, want 0", got, err)
	}
	if got, err := score.F1([]int{0}, []int{0}, 1); err != nil || got != 0 {
		t.Errorf("f1 without positives %v, %v, want 0", got, err)
	}
	// Three classes: s 4, c 3, Σpt 2·1 + 1·2 + 1·1 = 5, Σp² 6, Σt² 6: (12 - 5) / 10.
	if got, err := score.Matthews([]string{"a", "a", "b", "c"}, []string{"a", "b", "b", "c"}); err != nil || !near(got, 0.7) {
		t.Errorf("matthews of three classes %v, %v, want 0.7", got, err)
	}
}

func TestCorrelation(t *testing.T) {
	for _, c := range []struct {
		x, y              []float64
		pearson, spearman float64
	}{
		{[]float64{1, 2, 3}, []float64{10, 20, 30}, 1, 1},
		{[]float64{1, 2, 3}, []float64{3, 2, 1}, -1, -1},
		{[]float64{1, 2, 3, 4}, []float64{1, 4, 9, 16}, 25 / math.Sqrt(5*129), 1}, // Σdxdy 25, Σdx² 5, Σdy² 129
		// Ranks of y 1.5 1.5 3 4: Σdxdy 4.5, Σdx² 5, Σdy² 4.5. Of the values: Σdxdy 5, Σdy² 6.
		{[]float64{1, 2, 3, 4}, []float64{1, 1, 2, 4}, 5 / math.Sqrt(5*6), 4.5 / math.Sqrt(5*4.5)},
	} {
		if got, err := score.Pearson(c.x, c.y); err != nil || !near(got, c.pearson) {
			t.Errorf("pearson %v %v: %v, %v, want %v", c.x, c.y, got, err, c.pearson)
		}
		if got, err := score.Spearman(c.x, c.y); err != nil || !near(got, c.spearman) {
			t.Errorf("spearman %v %v: %v, %v, want %v", c.x, c.y, got, err, c.spearman)
		}
	}
}

func TestErrors(t *testing.T) {
	for name, f := range map[string]func() (float64, error){
		"accuracy of nothing":  func() (float64, error) { return score.Accuracy([]int{}, nil) },
		"accuracy of lengths":  func() (float64, error) { return score.Accuracy([]int{1}, []int{1, 2}) },
		"f1 of nothing":        func() (float64, error) { return score.F1(nil, nil, 1) },
		"matthews of lengths":  func() (float64, error) { return score.Matthews([]int{1}, nil) },
		"pearson of constants": func() (float64, error) { return score.Pearson([]float64{1, 1}, []float64{1, 2}) },
		"spearman of one":      func() (float64, error) { return score.Spearman([]float64{1}, []float64{2}) },
	} {
		if got, err := f(); err == nil {
			t.Errorf("%s: %v, want an error", name, got)
		}
	}
}

// TestSpearmanMonotone: Spearman sees ranks only, so a growing function of a series changes nothing; and it is
// symmetric.
func TestSpearmanMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 30).Draw(t, "n")
		small := rapid.Custom(func(t *rapid.T) float64 { return float64(rapid.IntRange(-5, 5).Draw(t, "v")) })
		x := rapid.SliceOfN(small, n, n).Draw(t, "x")
		y := rapid.SliceOfN(small, n, n).Draw(t, "y")
		cubes := make([]float64, n)
		for i, v := range x {
			cubes[i] = v*v*v + 7
		}
		a, errA := score.Spearman(x, y)
		b, errB := score.Spearman(cubes, y)
		c, errC := score.Spearman(y, x)
		if (errA == nil) != (errB == nil) || (errA == nil) != (errC == nil) || a != b || !near(a, c) || math.Abs(a) > 1 {
			t.Errorf("%v, of cubes %v, swapped %v", a, b, c)
		}
	})
}
