package score

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Accuracy is the fraction of predictions that equal their labels.
func Accuracy[T comparable](predictions, labels []T) (float64, error) {
	if err := paired("accuracy", len(predictions), len(labels)); err != nil {
		return 0, err
	}
	right := 0
	for i, p := range predictions {
		if p == labels[i] {
			right++
		}
	}
	return float64(right) / float64(len(labels)), nil
}

// F1 is the harmonic mean of precision and recall of the class positive: 2·TP / (2·TP + FP + FN). It is 0 when the
// class is neither predicted nor there, as in scikit-learn.
func F1[T comparable](predictions, labels []T, positive T) (float64, error) {
	if err := paired("f1", len(predictions), len(labels)); err != nil {
		return 0, err
	}
	var tp, wrong int
	for i, p := range predictions {
		switch {
		case p == positive && labels[i] == positive:
			tp++
		case p == positive || labels[i] == positive:
			wrong++
		}
	}
	if tp == 0 {
		return 0, nil
	}
	return float64(2*tp) / float64(2*tp+wrong), nil
}

// Matthews is the Matthews correlation coefficient for any number of classes, -1 to 1; CoLA's measure. It is 0 when
// the predictions or the labels are all of one class.
//
//	(c·s - Σ pₖ·tₖ) / √((s² - Σ pₖ²)·(s² - Σ tₖ²))
//
// s samples, c of them right; class k is predicted pₖ times and there tₖ times. Source: Gorodkin 2004, "Comparing
// two K-category assignments by a K-category correlation coefficient"; for two classes it is the formula of
// Matthews 1975.
func Matthews[T cmp.Ordered](predictions, labels []T) (float64, error) {
	if err := paired("matthews correlation", len(predictions), len(labels)); err != nil {
		return 0, err
	}
	predicted, there := make(map[T]float64), make(map[T]float64)
	var c float64
	for i, p := range predictions {
		predicted[p]++
		there[labels[i]]++
		if p == labels[i] {
			c++
		}
	}
	// All terms are integers that float64 holds exactly up to 94 million samples, so the order of the classes does
	// not matter.
	s := float64(len(labels))
	var pt, pp, tt float64
	for k, n := range predicted {
		pt += n * there[k]
		pp += n * n
	}
	for _, n := range there {
		tt += n * n
	}
	if s*s == pp || s*s == tt {
		return 0, nil
	}
	return (float64(c*s) - pt) / (math.Sqrt(s*s-pp) * math.Sqrt(s*s-tt)), nil
}

// Pearson is the correlation coefficient of two series, -1 to 1. It is undefined, an error, if either is constant.
func Pearson(x, y []float64) (float64, error) {
	if err := paired("pearson correlation", len(x), len(y)); err != nil {
		return 0, err
	}
	mx, my := mean(x), mean(y)
	var xy, xx, yy float64
	for i := range x {
		dx, dy := x[i]-mx, y[i]-my
		xy += float64(dx * dy)
		xx += float64(dx * dx)
		yy += float64(dy * dy)
	}
	if xx == 0 || yy == 0 {
		return 0, fmt.Errorf("correlation of %d values: a series is constant, want two values or more: %w", len(x), ErrNone)
	}
	// Rounding can carry a perfect correlation beyond 1 by an ulp.
	return max(-1, min(1, xy/(math.Sqrt(xx)*math.Sqrt(yy)))), nil
}

// Spearman is Pearson of the ranks; equal values share the mean of their ranks.
func Spearman(x, y []float64) (float64, error) {
	if err := paired("spearman correlation", len(x), len(y)); err != nil {
		return 0, err
	}
	return Pearson(ranks(x), ranks(y))
}

func ranks(x []float64) []float64 {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(x[i], x[j]) })
	r := make([]float64, len(x))
	for start := 0; start < len(order); {
		end := start + 1
		for end < len(order) && x[order[end]] == x[order[start]] {
			end++
		}
		for _, i := range order[start:end] {
			r[i] = float64(start+end+1) / 2 // mean of the ranks start+1 to end
		}
		start = end
	}
	return r
}

func mean(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

func paired(measure string, predictions, labels int) error {
	if predictions != labels {
		return fmt.Errorf("%s: %d predictions for %d labels", measure, predictions, labels)
	}
	if labels == 0 {
		return fmt.Errorf("%s: no label: %w", measure, ErrNone)
	}
	return nil
}
