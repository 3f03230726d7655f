package verdict

import (
	"testing"

	"harness.invalid/core/recipe"
	"harness.invalid/results"
)

// TestSentence: the whole answer in words, for every verdict.
func TestSentence(t *testing.T) {
	x := []float64{90, 91, 89, 90, 90.5, 89.5}
	plus := func(v ...float64) []float64 {
		y := make([]float64, len(x))
		for i := range y {
			y[i] = x[i] + v[i%len(v)]
		}
		return y
	}
	for _, c := range []struct {
		name string
		runs []*results.Run
		want string
	}{
		{"equivalent", runsWithF1(quick(t), x, plus(0.4, 0.1)),
			"ipu:fp16.16 against gpu-ref:fp32, scratch: EQUIVALENT in F1: +0.25 (90% interval 0.11 to 0.39, margin 2), 6 seeds, 3.0 minutes; " +
				"no run of 6 collapsed: rate below 39% at 95%."},
		{"less than the usual decimals", runsWithF1(quick(t), x, plus(-0.0004, -0.0001)),
			"ipu:fp16.16 against gpu-ref:fp32, scratch: EQUIVALENT in F1: -0.0003 (90% interval -0.0004 to -0.0001, margin 2), " +
				"6 seeds, 3.0 minutes; no run of 6 collapsed: rate below 39% at 95%."},
		{"different", runsWithF1(quick(t), x, plus(-5, -5.2)),
			"ipu:fp16.16 against gpu-ref:fp32, scratch: DIFFERENT in F1, worse: -5.10 (95% interval -5.21 to -4.99, margin 2), " +
				"6 seeds, 3.0 minutes."},
		{"another metric differs", withExactMatch(runsWithF1(quick(t), x, plus(0.4, 0.1)), 5),
			"ipu:fp16.16 against gpu-ref:fp32, scratch: EQUIVALENT in F1: +0.25 (90% interval 0.11 to 0.39, margin 2), 6 seeds, 3.0 minutes; " +
				"no run of 6 collapsed: rate below 39% at 95%; " +
				"but exact match of squad is DIFFERENT, better: +5.25 (95% interval 4.96 to 5.54, margin 3)."},
		{"inconclusive", runsWithF1(quick(t), x, plus(4, -4, 1)),
			"ipu:fp16.16 against gpu-ref:fp32, scratch: INCONCLUSIVE in F1: +0.33 (90% interval -2.64 to 3.31, margin 2), 6 seeds, 3.0 minutes; " +
				"equivalent within a margin of 3.31; " +
				"84 further seeds, about 42m, would settle it with probability 0.9 if the difference stays as it is."},
		{"nothing learned", withFloor(runsWithF1(quick(t), x, x), new(93.)),
			"ipu:fp16.16 against gpu-ref:fp32, scratch: INCONCLUSIVE in F1, since neither arm is better by more than the margin of 2 than a model " +
				"that ignores its input, which gets 93.00: 90.00 and 90.00; 6 seeds, 3.0 minutes."},
		{"one seed", runsWithF1(quick(t), x[:1], x[1:2]),
			"ipu:fp16.16 against gpu-ref:fp32, scratch: INCONCLUSIVE in F1: +1.00 (margin 2), 1 seed, 30.0 seconds; " +
				"1 seed gives no variance; use --seeds 3 or more."},
		{"several optimizers", withOptimizer(runsWithF1(quick(t), x, plus(-5, -5.2)), "lamb"),
			"ipu:fp16.16/lamb against gpu-ref:fp32/adamw, scratch: DIFFERENT in F1, worse: -5.10 (95% interval -5.21 to -4.99, margin 2), " +
				"6 seeds, 3.0 minutes."},
	} {
		for _, r := range c.runs {
			r.Precision = map[string]string{"gpu-ref": "fp32", "ipu": "fp16.16"}[r.Backend]
			r.Result.MeasuredSeconds["total"] = 15
		}
		v := recipe.Verdict{Primary: "f1", Alpha: 0.05, Margins: map[string]float64{"f1": 2, "exact_match": 3}}
		comparison, err := CompareBy(c.runs, v)
		if err != nil {
			t.Fatal(err)
		}
		if got := comparison.Comparisons[0].Sentence; got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
	// The phase is named where several measure the metric.
	all := Comparison{Phases: []MeasuredPhase{{"probe", []string{"f1"}}, {"squad", []string{"f1"}}}}
	if got := all.headline(&Difference{Phase: "probe", Metric: "f1", Verdict: Equivalent}); got != "EQUIVALENT in F1 of probe" {
		t.Errorf("%s, want the phase", got)
	}
	// Without a primary metric nothing is answered, and without a pair nothing can be.
	v := recipe.Verdict{Alpha: 0.05}
	comparison, err := CompareBy(runsWithF1(quick(t), x, x), v)
	if err != nil {
		t.Fatal(err)
	}
	want := "ipu against gpu-ref, scratch: no verdict, since the recipe names no primary metric with a margin."
	if got := comparison.Comparisons[0].Sentence; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	runs := runsWithF1(quick(t), x[:1], x[:1])
	runs[1].Seed = 7
	if comparison, err = Compare(runs); err != nil {
		t.Fatal(err)
	}
	want = "ipu against gpu-ref, scratch: INCONCLUSIVE in F1: the arms have no seed in common."
	if got := comparison.Comparisons[0].Sentence; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// withExactMatch gives all runs an exact match, and those of the second arm a better one.
func withExactMatch(runs []*results.Run, better float64) []*results.Run {
	for _, r := range runs {
		m := r.Result.Phases[0].Metrics
		m["exact_match"] = 70
		if r.Backend == "ipu" {
			m["exact_match"] += better + float64(r.Seed%2)/2
		}
	}
	return runs
}

// withOptimizer trains the second arm with another optimizer.
func withOptimizer(runs []*results.Run, name string) []*results.Run {
	for _, r := range runs {
		if r.Backend == "ipu" {
			r.Optimizer = name
		}
	}
	return runs
}
