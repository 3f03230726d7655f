package verdict

import (
	"math"
	"math/rand/v2"
	"testing"

	"harness.invalid/core/recipe"
	"harness.invalid/results/statistics"
)

// TestCollapseFalseAlarms holds the rates that collapse.go states, where the margin plays no part. The tolerance is four
// standard errors of a simulated rate.
func TestCollapseFalseAlarms(t *testing.T) {
	const draws = 4000
	rng := rand.New(rand.NewPCG(5, 6))
	normal := rng.NormFloat64
	heavy := func() float64 {
		a, b, c := normal(), normal(), normal()
		return normal() / math.Sqrt(a*a+b*b+c*c) // t with 3 degrees of freedom, but for its scale
	}
	for _, c := range []struct {
		name string
		draw func() float64
		n    int
		rate float64
	}{
		{"normal", normal, 3, 0}, {"normal", normal, 5, 0}, {"heavy tails", heavy, 5, 0},
		{"normal", normal, 6, 0.002}, {"normal", normal, 10, 0.001}, {"normal", normal, 20, 0.001},
		{"heavy tails", heavy, 6, 0.027}, {"heavy tails", heavy, 10, 0.034}, {"heavy tails", heavy, 20, 0.063},
	} {
		alarms := 0
		for range draws {
			var arms [2][]float64
			for side := range arms {
				for range c.n {
					arms[side] = append(arms[side], c.draw())
				}
			}
			if places, _ := collapsed(arms, 0); len(places[0])+len(places[1]) > 0 {
				alarms++
			}
		}
		rate := float64(alarms) / draws
		t.Logf("%s, %d pairs: %.2f%%", c.name, c.n, 100*rate)
		if math.Abs(rate-c.rate) > 4*math.Sqrt(c.rate*(1-c.rate)/draws) {
			t.Errorf("%s, %d pairs: false alarms in %.2f%% of cases, want %.1f%%", c.name, c.n, 100*rate, 100*c.rate)
		}
	}
}

// TestCollapseOfFew: among fewer runs than the guard judges, one that falls by two margins or more withholds EQUIVALENT by
// the width of the interval alone, where the others agree, at every level in use; and an arm of enough runs is judged
// beside one of few.
func TestCollapseOfFew(t *testing.T) {
	const margin = 1
	few := func(n int, fall float64) []float64 {
		v := make([]float64, n)
		v[0] = -fall
		return v
	}
	for n := 2; n < collapseRuns; n++ {
		for _, fall := range []float64{2, 3, 10, 1000} {
			for _, alpha := range []float64{0.001, 0.01, 0.05, 0.1} {
				x, y := few(n, 0), few(n, fall)
				if i := statistics.InferPaired(statistics.Differences(x, y), margin, alpha); float64(*i.PEquivalence) < alpha {
					t.Errorf("%d pairs, a fall by %g: p of equivalence %g at %g", n, fall, *i.PEquivalence, alpha)
				}
				if i := statistics.InferUnpaired(x, y, margin, statistics.Fixed(len(x), alpha).Looks[0]); float64(*i.PEquivalence) < alpha {
					t.Errorf("%d and %d values, a fall by %g: p of equivalence %g at %g", n, n, fall, *i.PEquivalence, alpha)
				}
			}
			if places, _ := collapsed([2][]float64{few(n, 0), few(n, fall)}, margin); len(places[1]) != 0 {
				t.Errorf("one of %d runs that fell by %g: collapsed %v, want none named", n, fall, places)
			}
			places, _ := collapsed([2][]float64{few(n, fall), few(collapseRuns, fall)}, margin)
			if len(places[0]) != 0 || len(places[1]) != 1 || places[1][0] != 0 {
				t.Errorf("%d runs against %d: collapsed %v, want the first of the second arm", n, collapseRuns, places)
			}
		}
	}
}

// rareCollapse judges arms of which one loses points with probability 0.1 in each run, at margin 2: how often the tests
// alone say EQUIVALENT, and how often they still do with the guard. Runs of both arms have standard deviation sd.
func rareCollapse(rng *rand.Rand, draws, n int, points, sd float64, sequential bool) (tests, guarded float64) {
	v := recipe.Verdict{Alpha: 0.05, Plan: recipe.Plan{Kind: recipe.FixedPlan, MaxSeeds: n}}
	if sequential {
		v.Plan.Kind = recipe.SequentialPlan
	}
	plan, err := PlanOf(v)
	if err != nil {
		panic(err)
	}
	for range draws {
		var arms [2][]float64
		for range n {
			x, y := sd*rng.NormFloat64(), sd*rng.NormFloat64()
			if rng.Float64() < 0.1 {
				y -= points
			}
			arms[0], arms[1] = append(arms[0], x), append(arms[1], y)
		}
		if equivalentAt(plan, arms, false) {
			tests++
		}
		if equivalentAt(plan, arms, true) {
			guarded++
		}
	}
	return tests / float64(draws), guarded / float64(draws)
}

// equivalentAt reports whether a look of a plan says EQUIVALENT before another one says DIFFERENT.
func equivalentAt(plan Plan, arms [2][]float64, guarded bool) bool {
	const margin = 2
	for _, l := range plan.Looks {
		x, y := arms[0][:l.Pairs], arms[1][:l.Pairs]
		s := statistics.NewSample(statistics.Differences(x, y))
		switch decide(float64(s.Mean), statistics.InferAt(float64(s.Mean), float64(*s.SD), s.N, margin, l), margin) {
		case Equivalent:
			if places, _ := collapsed([2][]float64{x, y}, margin); !guarded || len(places[0])+len(places[1]) == 0 {
				return true
			}
		case Different:
			if l.Difference > 0 {
				return false
			}
		}
	}
	return false
}

// TestRareCollapse holds figures of docs/results.md: the guard withholds EQUIVALENT where a collapse is among the runs,
// and nothing can where none is. The tolerance is four standard errors.
func TestRareCollapse(t *testing.T) {
	const draws = 500
	rng := rand.New(rand.NewPCG(7, 8))
	for _, c := range []struct {
		points         float64
		n              int
		sequential     bool
		tests, guarded float64
	}{
		{20, 6, false, 0.53, 0.53}, {10, 20, false, 0.42, 0.11}, {6, 10, false, 0.66, 0.37}, {6, 20, true, 0.80, 0.54},
	} {
		tests, guarded := rareCollapse(rng, draws, c.n, c.points, 0.5, c.sequential)
		off := func(got, want float64) bool { return math.Abs(got-want) > 4*math.Sqrt(want*(1-want)/draws) }
		if off(tests, c.tests) || off(guarded, c.guarded) {
			t.Errorf("%g points lost in a run of ten, %d seeds: EQUIVALENT in %.2f and with the guard in %.2f, want %.2f and %.2f",
				c.points, c.n, tests, guarded, c.tests, c.guarded)
		}
	}
}
