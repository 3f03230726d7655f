package agreement

import (
	"encoding/json"
	"math"
	"testing"
)

func TestRelError(t *testing.T) {
	for _, test := range []struct {
		got, want []float64
		error     float64
	}{
		{[]float64{3, 4}, []float64{3, 4}, 0},
		{[]float64{3, 4.5}, []float64{3, 4}, 0.1},
		{[]float64{3, 4}, []float64{0, 0}, 5},
		{nil, nil, 0},
		{[]float64{math.NaN(), 4}, []float64{3, 4}, math.MaxFloat64},
		{[]float64{math.Inf(1), 4}, []float64{3, 4}, math.MaxFloat64},
	} {
		if e := RelError(test.got, test.want); e != test.error {
			t.Errorf("RelError(%v, %v) = %g, want %g", test.got, test.want, e, test.error)
		}
	}
}

func TestCompare(t *testing.T) {
	pass, err := Compare("rule", "optimizer", "fp32", "w", []float32{1}, []float64{1 + 1e-6}, 1e-5)
	if err != nil || !pass.Pass {
		t.Errorf("Compare = %+v, %v, want a pass", pass, err)
	}
	fail, err := Compare("rule", "optimizer", "fp32", "w", []float64{math.NaN()}, []float64{1}, 1e-5)
	if err != nil || fail.Pass {
		t.Errorf("Compare = %+v, %v, want a NaN to fail", fail, err)
	}
	if _, err := json.Marshal(fail); err != nil {
		t.Errorf("a failed row can't be written as JSON: %v", err)
	}
	if _, err := Compare("rule", "optimizer", "fp32", "w", []float32{1, 2}, []float64{1}, 1); err == nil {
		t.Error("Compare took slices of different length")
	}
	if Passed(nil) || !Passed([]Row{pass}) || Passed([]Row{pass, fail}) {
		t.Error("Passed: want false for no rows, true for rows that pass, false when one fails")
	}
}
