// Package agreement is the outcome of comparing a plugin with numbers that another program computed: results and
// expected values go in, a Row with the error and its limit comes out for each quantity.
//
// core/backend/backendtest and core/optimizer/optimizertest make rows, and harness plugin verify prints them.
package agreement

import (
	"fmt"
	"math"
)

// Row is one quantity of one case.
type Row struct {
	Case      string  `json:"case"`      // name of the file or rule
	Task      string  `json:"task"`      // pretraining, question_answering, classification, optimizer
	Precision string  `json:"precision"` // number format of the program that was compared
	Quantity  string  `json:"quantity"`  // what was compared
	RelError  float64 `json:"rel_error"` // see RelError
	Limit     float64 `json:"limit"`     // largest relative error that passes
	Pass      bool    `json:"pass"`
}

// Compare returns a row with the error of got against want. It passes at limit or below.
func Compare[T float32 | float64](name, task, precision, quantity string, got []T, want []float64, limit float64) (Row, error) {
	if len(got) != len(want) {
		return Row{}, fmt.Errorf("agreement: %s: %s has %d values, want %d", name, quantity, len(got), len(want))
	}
	e := RelError(got, want)
	return Row{name, task, precision, quantity, e, limit, e <= limit}, nil
}

// Passed reports whether there are rows and all of them pass.
func Passed(rows []Row) bool {
	for _, r := range rows {
		if !r.Pass {
			return false
		}
	}
	return len(rows) > 0
}

// RelError is the norm of got - want over the norm of want, in float64, or the norm of got if want is zero. An
// error that is not finite becomes math.MaxFloat64, which fails every limit and can be written as JSON. The lengths
// must be equal.
func RelError[T float32 | float64](got []T, want []float64) float64 {
	if len(got) != len(want) {
		panic("agreement: length of got differs from want")
	}
	var difference, reference float64
	for i, w := range want {
		d := float64(got[i]) - w
		difference += d * d
		reference += w * w
	}
	e := math.Sqrt(difference)
	if reference > 0 {
		e /= math.Sqrt(reference)
	}
	if math.IsNaN(e) || math.IsInf(e, 0) {
		return math.MaxFloat64
	}
	return e
}
