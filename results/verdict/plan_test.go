package verdict

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"harness.invalid/core/recipe"
	"harness.invalid/results"
	"harness.invalid/results/statistics"
)

// TestPlanBounds: a recipe accepts exactly those sequential plans for which there are levels.
func TestPlanBounds(t *testing.T) {
	for n := range 60 {
		v := recipe.Verdict{Alpha: 0.05, Primary: "f1", Plan: recipe.Plan{Kind: recipe.SequentialPlan, MaxSeeds: n}}
		_, err := PlanOf(v)
		if taken := v.CheckPlan() == nil; taken != (err == nil) {
			t.Errorf("up to %d seeds: the recipe takes it: %v, the levels say %v", n, taken, err)
		}
	}
}

// byHand goes through the looks of a plan with Student's t alone: the verdict, and the number of pairs.
func byHand(p statistics.Plan, d []float64, margin float64) (Decision, int) {
	for _, l := range p.Looks {
		if l.Pairs > len(d) {
			break
		}
		mean, sd := stat.MeanStdDev(d[:l.Pairs], nil)
		se := sd / math.Sqrt(float64(l.Pairs))
		t := distuv.StudentsT{Sigma: 1, Nu: float64(l.Pairs - 1)}
		switch {
		case t.CDF(-(margin-math.Abs(mean))/se) < l.Equivalence:
			return Equivalent, l.Pairs
		case 2*t.CDF(-math.Abs(mean)/se) < l.Difference && math.Abs(mean) >= margin:
			return Different, l.Pairs
		}
	}
	return Inconclusive, min(len(d), p.Last())
}

// TestSequentialErrorRates draws runs and judges them: every verdict is that of the plan's first look that decides,
// and wrong ones come at the plan's rate at most, which statistics.TestErrorRates holds with more draws.
func TestSequentialErrorRates(t *testing.T) {
	const draws = 250
	plan, err := PlanOf(sequential(t).Verdict)
	if err != nil {
		t.Fatal(err)
	}
	c := Comparison{Plan: plan, Alpha: 0.05, Arms: make([]ArmSummary, 1)}
	rng := rand.New(rand.NewPCG(3, 4))
	families := map[string]func() float64{
		"normal": rng.NormFloat64,
		"t with 3 degrees": func() float64 {
			a, b, c := rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()
			return rng.NormFloat64() / math.Sqrt(a*a+b*b+c*c)
		},
		"two groups": func() float64 { return (0.1*rng.NormFloat64() + float64(2*rng.IntN(2)-1)) / math.Sqrt(1.01) },
	}
	tolerance := 3 * math.Sqrt(0.05*0.95/draws) // three standard errors
	for name, draw := range families {
		for _, sd := range []float64{0.25, 0.5, 1, 2} {
			for wrong, mean := range map[Decision]float64{Equivalent: 1, Different: 0} {
				errors := 0
				for range draws {
					x, y, p := make([]float64, 20), make([]float64, 20), Pairing{Seeds: make([]uint64, 20)}
					for i := range y {
						y[i], p.Seeds[i] = mean+sd*draw(), uint64(i)
					}
					s := series{Difference{Metric: "f1", Margin: 1}, x, y}
					_, n := c.followPlan(&p, &s, 1)
					got := p.Looks[len(p.Looks)-1].Verdict
					if want, pairs := byHand(plan.Plan, y, 1); got != want || n != pairs {
						t.Fatalf("%s, SD %g: %s of %d pairs, want %s of %d", name, sd, got, n, want, pairs)
					}
					if got == wrong {
						errors++
					}
				}
				if rate := float64(errors) / draws; rate > 0.05+tolerance {
					t.Errorf("%s, SD %g of the margin: %.1f%% false %s", name, sd, 100*rate, wrong)
				}
			}
		}
	}
}

// sequential is quick with its own plan.
func sequential(t testing.TB, set ...string) *recipe.Recipe {
	t.Helper()
	r, err := recipe.Load("scratch", set...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// around are values that differ from 90 by chance alone, of standard deviation sd.
func around(n int, center, sd float64, seed uint64) []float64 {
	rng := rand.New(rand.NewPCG(seed, 1))
	v := make([]float64, n)
	for i := range v {
		v[i] = center + sd*rng.NormFloat64()
	}
	return v
}

func compareF1(t *testing.T, r *recipe.Recipe, f1 ...[]float64) *Comparison {
	t.Helper()
	c, err := Compare(runsWithF1(r, f1...))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestLaterPairs: the verdict is that of the first look that decides, in the order of the seeds, whatever comes after.
func TestLaterPairs(t *testing.T) {
	r := sequential(t)
	x, y := around(20, 90, 0.5, 1), around(20, 90, 0.5, 2)
	first := compareF1(t, r, x[:7], y[:7]).Comparisons[0]
	if first.Verdict != Equivalent || first.Look == nil || first.Look.Pairs != 6 || len(first.Looks) != 1 {
		t.Fatalf("%s at look %v of %d, want EQUIVALENT at the first", first.Verdict, first.Look, len(first.Looks))
	}
	d, _ := first.Metric("squad", "f1")
	level := 1 - 2*first.Look.Equivalence
	if e := d.Inference.EquivalenceInterval; e.Level != level || d.Baseline.N != 6 || *first.Looks[0].EquivalenceInterval != e {
		t.Errorf("the interval is %v over %d pairs, want one at level %g over 6", e, d.Baseline.N, level)
	}
	for i := 7; i < 20; i++ {
		x[i], y[i] = 90, 10
	}
	later := compareF1(t, r, x, y).Comparisons[0]
	after, _ := later.Metric("squad", "f1")
	if diff := cmp.Diff(d, after, cmpopts.IgnoreUnexported(Difference{})); diff != "" || later.Verdict != Equivalent {
		t.Errorf("13 later pairs change the verdict: %s", diff)
	}
	// A look that is too early for DIFFERENT, and the one that is not.
	x, y = around(9, 90, 0.5, 3), around(9, 80, 0.5, 4)
	for n, want := range map[int]Decision{1: Inconclusive, 5: Inconclusive, 6: Inconclusive, 7: Inconclusive, 8: Different, 9: Different} {
		p := compareF1(t, r, x[:n], y[:n]).Comparisons[0]
		if p.Verdict != want || (p.Look == nil) != (n < 6) {
			t.Errorf("10 points apart: %s of %d pairs (%s), look %v, want %s", p.Verdict, n, p.Reason, p.Look, want)
		}
	}
}

// TestReasons: what an undecided metric lacks and what it would cost, in the bounds of the plan.
func TestReasons(t *testing.T) {
	x := make([]float64, 40)
	for _, c := range []struct {
		name    string
		set     []string
		y       []float64
		further bool
		reasons []string
	}{
		{"one", nil, x[:1], false, []string{"1 pair, and the plan looks first after 6: 5 further seeds, about 10s"}},
		{"before the first look", nil, around(4, 0, 1, 1), true, []string{
			"4 pairs, and the plan looks first after 6: 2 further seeds, about 4s"}},
		{"early", nil, around(6, 10, 1, 1), true, []string{"arms different after 8 pairs at the earliest"}},
		{"undecided", nil, around(7, 0.5, 1.5, 1), true, []string{"further seeds, about", "would settle it with probability 0.9",
			"the smallest margin within which they are equivalent is"}},
		{"at the end", []string{"verdict.plan.max_seeds=8"}, slices.Repeat([]float64{8.2, -0.2}, 4), false, []string{
			"the plan ends after 8 pairs: a new comparison of up to"}},
		{"hopeless", nil, around(20, 1, 20, 1), false, []string{
			"the plan ends after 20 pairs, and the longest one, of 40, would not settle it"}},
	} {
		n := len(c.y)
		d, _ := compareF1(t, sequential(t, c.set...), x[:n], c.y).Comparisons[0].Metric("squad", "f1")
		if d.Verdict != Inconclusive || d.FurtherSeeds > 0 != c.further || d.FurtherSeconds != results.Number(2*d.FurtherSeeds) {
			t.Errorf("%s: %s, %d further seeds in %v s: %s", c.name, d.Verdict, d.FurtherSeeds, d.FurtherSeconds, d.Reason)
		}
		for _, want := range c.reasons {
			if !strings.Contains(d.Reason, want) {
				t.Errorf("%s: %q, want %q in it", c.name, d.Reason, want)
			}
		}
	}
}

// TestSecondary: the other metrics are judged where the primary one is, and don't prolong the comparison.
func TestSecondary(t *testing.T) {
	runs := runsWithF1(sequential(t), around(12, 90, 0.5, 1), around(12, 90, 0.5, 2))
	em := around(24, 80, 5, 3)
	for i, r := range runs {
		r.Result.Phases[0].Metrics["exact_match"] = em[i]
	}
	c, err := Compare(runs)
	if err != nil {
		t.Fatal(err)
	}
	d, _ := c.Comparisons[0].Metric("squad", "exact_match")
	if d.Verdict != Inconclusive || d.Baseline.N != 6 || d.FurtherSeeds != 0 ||
		!strings.Contains(d.Reason, "the plan ended when the primary metric was decided") {
		t.Errorf("%s of %d pairs, %s", d.Verdict, d.Baseline.N, d.Reason)
	}
}

// TestDivergedSequentially: the sign test keeps to the level of the look.
func TestDivergedSequentially(t *testing.T) {
	for n, want := range map[int]Decision{5: Inconclusive, 7: Inconclusive, 9: Different} {
		p := compareF1(t, sequential(t), slices.Repeat([]float64{90}, n), slices.Repeat([]float64{math.NaN()}, n)).Comparisons[0]
		if p.Verdict != want {
			t.Errorf("%d of %d runs diverged: %s (%s), want %s", n, n, p.Verdict, p.Reason, want)
		}
	}
}

// TestGaps: a sequential plan takes seeds in their order. Runs of several plans are judged by the first.
func TestGaps(t *testing.T) {
	r := sequential(t)
	runs := runsWithF1(r, around(9, 90, 0.5, 1), around(9, 90, 0.5, 2))
	runs = slices.DeleteFunc(runs, func(r *results.Run) bool { return r.Seed == 4 && r.Backend == "ipu" })
	runs[3].Recipe = sequential(t, "verdict.plan.kind=fixed", "verdict.plan.max_seeds=3")
	c, err := Compare(runs)
	if err != nil {
		t.Fatal(err)
	}
	if p := c.Comparisons[0]; p.Verdict != Inconclusive || p.Look != nil {
		t.Errorf("%s of 3 pairs before a gap", p.Verdict)
	}
	want := []string{
		"gpu-ref/adamw with seed 4: not paired, since ipu/adamw has no run that ended",
		"ipu/adamw against gpu-ref/adamw: seed 4 is missing; a sequential plan takes seeds in their order, and " +
			"does not judge the 5 pairs after it",
		"the runs were made under several plans (sequential, at most 20 seeds; fixed, 3 seeds); the first one judges them",
	}
	if diff := cmp.Diff(want, c.Notes); diff != "" {
		t.Error(diff)
	}
}

// TestSequentialNoise: at a look, the A/A comparison takes as many other seeds as there are pairs.
func TestSequentialNoise(t *testing.T) {
	r := sequential(t)
	x, y := around(20, 90, 0.5, 1), around(8, 80, 0.5, 2)
	c := compareF1(t, r, x[:8], y)
	runs := runsWithF1(r, x, y)
	more, err := Compare(runs)
	if err != nil {
		t.Fatal(err)
	}
	d, _ := more.Comparisons[0].Metric("squad", "f1")
	if d.Noise == nil || fmt.Sprint(d.Noise.OtherSeeds) != "[9 10 11 12 13 14 15 16]" || d.Verdict != Different ||
		c.Comparisons[0].Verdict != Different {
		t.Errorf("%s with noise %+v, %s without", d.Verdict, d.Noise, c.Comparisons[0].Verdict)
	}
}
