package statistics

import (
	"fmt"
	"slices"
)

// Plan says after how many pairs the differences of a comparison are looked at, and how much evidence a verdict
// takes at each look. Looking again and again at the same level would make many more false verdicts than a single
// look; the levels of a plan are set so that all looks together make at most Alpha of each kind.
type Plan struct {
	Alpha float64 `json:"alpha"`
	Looks []Look  `json:"looks"` // by Pairs, ascending
}

// Look is one look at the differences.
type Look struct {
	Pairs int `json:"pairs"`
	// Equivalence is the one-sided level of each of the two tests of TOST; 0: too early for this verdict.
	Equivalence float64 `json:"equivalence"`
	// Difference is the two-sided level of the test against 0; 0: too early for this verdict.
	Difference float64 `json:"difference"`
}

// The least numbers of pairs for a verdict, and the largest number of pairs of a plan. With fewer pairs than these,
// differences that fall into two narrow groups all land in one group too often, and then look certain: 2 of 2^n
// times.
const (
	LeastPairs           = 6
	LeastPairsDifference = 8
	MostPairs            = 40
)

// planAlpha is the error rate that the levels of sequential plans are calibrated for.
const planAlpha = 0.05

// Sequential is the plan that looks after every pair from LeastPairs to last. Its nominal levels rise in proportion
// to the number of pairs.
//
// At the margin, the t statistic of TOST has a distribution that does not depend on the standard deviation, and so
// has that of the test against 0 at no difference. A level is therefore calibrated once, by simulation: for each
// number of pairs last, the factor of proportionality is the largest with which a path of t statistics crosses its
// boundary with probability alpha or less, whether differences are normal, have heavy tails (t with 3 degrees of
// freedom), or fall into two groups of any width (see sequential_test.go). Looks that stop at the first crossing
// are repeated confidence intervals in the sense of Jennison and Turnbull 1989, J. R. Statist. Soc. B 51:305.
func Sequential(last int, alpha float64) (Plan, error) {
	if alpha != planAlpha {
		return Plan{}, fmt.Errorf("a sequential plan has alpha %g, want %g: use a fixed number of seeds for another one", alpha, planAlpha)
	}
	if last < LeastPairs || last > MostPairs {
		return Plan{}, fmt.Errorf("a sequential plan of up to %d pairs, want %d to %d", last, LeastPairs, MostPairs)
	}
	p := Plan{Alpha: alpha}
	rates := levelsPerPair[last-LeastPairs]
	for n := LeastPairs; n <= last; n++ {
		l := Look{Pairs: n, Equivalence: rates.equivalence * float64(n)}
		if n >= LeastPairsDifference {
			l.Difference = rates.difference * float64(n)
		}
		p.Looks = append(p.Looks, l)
	}
	return p, nil
}

// Fixed is the plan that looks once, after n pairs.
func Fixed(n int, alpha float64) Plan {
	return Plan{Alpha: alpha, Looks: []Look{{Pairs: n, Equivalence: alpha, Difference: alpha}}}
}

// For is the look for n pairs: the last one that has so many. Before the first look it is that one, and false.
func (p Plan) For(n int) (Look, bool) {
	for _, l := range slices.Backward(p.Looks) {
		if l.Pairs <= n {
			return l, true
		}
	}
	return p.Looks[0], false
}

// Last is the number of pairs after which the plan ends.
func (p Plan) Last() int { return p.Looks[len(p.Looks)-1].Pairs }
