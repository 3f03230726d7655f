package inference

import (
	"sort"

	"gonum.org/v1/gonum/mathext"
)

// passing is the smallest number of queries within a bound, beside over queries above it, that shows with a
// confidence of 99% that at least a share p of all queries is within it. Of h + over queries, Binomial(h + over, 1 - p)
// are above it at the least share; the chance of so few is the regularized incomplete beta function I_p(h, over + 1).
//
// Source: mlcommons/inference, loadgen/early_stopping.cc, MinPassingQueriesFinder with tolerance 0.
func passing(over int, p float64) int {
	few := func(h int) bool { return mathext.RegIncBeta(float64(h), float64(over+1), p) < 1-confidence }
	most := 1
	for !few(most) {
		most *= 2
	}
	return 1 + sort.Search(most, func(i int) bool { return few(i + 1) })
}

// discarded is how many of n queries, the slowest, may be left out when the percentile p is estimated with a
// confidence of 99%: the estimate is the slowest of the others. 0 means that there are too few queries.
func discarded(n int, p float64) int {
	if n < passing(1, p)+1 {
		return 0
	}
	return sort.Search(n, func(i int) bool { return n < passing(i+2, p)+i+2 }) + 1
}
