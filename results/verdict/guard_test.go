package verdict

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/recipe"
	"harness.invalid/results"
)

// withFloor sets what a model that ignores its input gets in F1; nil: the runs do not say.
func withFloor(runs []*results.Run, floor *float64) []*results.Run {
	for _, r := range runs {
		p := &r.Result.Phases[0]
		if p.Floors = nil; floor != nil {
			p.Floors = results.Metrics{"f1": *floor}
		}
	}
	return runs
}

// withTarget sets the step at which each run reached a target of 80; 0: it did not.
func withTarget(runs []*results.Run, steps ...int) []*results.Run {
	for i, r := range runs {
		r.Result.Phases[0].Target = &results.Reached{Metric: "f1", Value: 80, Step: steps[i]}
	}
	return runs
}

// TestGuards: which findings withhold a verdict, which do not, and which is named first.
func TestGuards(t *testing.T) {
	low, high := []float64{10.8, 10.7, 10.9, 10.8, 10.8, 10.9}, []float64{90, 91, 89.5, 90.4, 90.2, 89.9}
	but := func(v []float64, i int, x float64) []float64 {
		v = slices.Clone(v)
		v[i] = x
		return v
	}
	shifted := func(v []float64, by float64) []float64 {
		v = slices.Clone(v)
		for i := range v {
			v[i] += by + 0.1*float64(i%2)
		}
		return v
	}
	for _, c := range []struct {
		name    string
		runs    []*results.Run
		guard   Guard
		verdict Decision
		reason  string
	}{
		{"nothing learned", withFloor(runsWithF1(quick(t), low, shifted(low, 0.1)), new(19.3)), NothingLearned, Inconclusive,
			"neither arm is better by more than the margin of 2 than a model that ignores its input, which gets 19.30: 10.82 and 10.97"},
		{"within the margin of the floor", withFloor(runsWithF1(quick(t), low, low), new(8.9)), NothingLearned, Inconclusive, "gets 8.90"},
		{"above the floor", withFloor(runsWithF1(quick(t), low, low), new(8.7)), "", Equivalent, "lies within the margin"},
		{"one arm learned", withFloor(runsWithF1(quick(t), high, low), new(19.3)), "", Different, "lies beyond the margin"},
		{"neither learned and they differ", withFloor(runsWithF1(quick(t), low, shifted(low, -5)), new(19.3)), NothingLearned, Inconclusive, ""},
		{"one seed", withFloor(runsWithF1(quick(t), low[:1], low[:1]), new(19.3)), NothingLearned, Inconclusive, "neither arm is better"},
		{"old runs", withFloor(runsWithF1(quick(t), low, low), nil), "", Equivalent, "lies within the margin"},
		{"no target reached", withTarget(runsWithF1(quick(t), low, low), 0, 0, 0, 0, 0, 300, 0, 0, 0, 0, 0, 0), TargetMissed, Inconclusive,
			"neither arm reached the target of F1 80: 1 of 6 runs of the baseline did, and 0 of 6 of the arm"},
		{"half of an arm reached it", withTarget(runsWithF1(quick(t), low, low), 0, 0, 0, 0, 0, 0, 9, 0, 9, 0, 0, 9), "", Equivalent, ""},
		{"a collapse", runsWithF1(quick(t), high, but(high, 3, 84.9)), Collapsed, Inconclusive,
			"1 run collapsed: ipu/adamw with seed 4 (84.90, and the median of its arm is 89.95)"},
		{"a collapse of the baseline", runsWithF1(quick(t), but(high, 0, 84.9), high), Collapsed, Inconclusive,
			"1 run collapsed: gpu-ref/adamw with seed 1"},
		{"of both with one seed", runsWithF1(quick(t), but(high, 5, 20), but(high, 5, 21)), Collapsed, Inconclusive, "2 runs collapsed"},
		{"far better", runsWithF1(quick(t), but(low, 3, 20), but(low, 3, 20.1)), "", Equivalent, ""},
		{"two margins are little", runsWithF1(quick(t), high, but(high, 3, 86.6)), "", Equivalent, ""},
	} {
		verdict := c.runs[0].Recipe.Verdict
		verdict.Plan.Kind = recipe.FixedPlan
		comparison, err := CompareBy(c.runs, verdict)
		if err != nil {
			t.Fatal(err)
		}
		p := comparison.Comparisons[0]
		d, _ := p.Metric("squad", "f1")
		var guard Guard
		if d.Withheld != nil {
			guard = d.Withheld.Guard
		}
		if guard != c.guard || d.Verdict != c.verdict || p.Verdict != d.Verdict || !strings.Contains(d.Reason, c.reason) {
			t.Errorf("%s: %s withheld by %q: %s; want %s withheld by %q: %s", c.name, d.Verdict, guard, d.Reason, c.verdict, c.guard, c.reason)
		}
		if c.guard != "" && !strings.Contains(p.Sentence, c.reason) {
			t.Errorf("%s: the sentence does not say why there is no verdict: %s", c.name, p.Sentence)
		}
		old := slices.ContainsFunc(comparison.Notes, func(n string) bool { return strings.Contains(n, "do not record what a model") })
		if old != (d.Floor == nil) {
			t.Errorf("%s: notes are %q", c.name, comparison.Notes)
		}
	}
}

// TestGuardAtEachLook: a collapse keeps a sequential plan from EQUIVALENT at the look at which it would have been said.
func TestGuardAtEachLook(t *testing.T) {
	r := sequential(t)
	x, y := around(8, 90, 0.5, 1), around(8, 90, 0.5, 2)
	if p := compareF1(t, r, x, y).Comparisons[0]; p.Verdict != Equivalent || p.Look.Pairs != 6 {
		t.Fatalf("%s, want EQUIVALENT after 6 pairs", p.Verdict)
	}
	y[2] -= 20
	x[2] -= 20 // so that the tests alone would still say EQUIVALENT
	p := compareF1(t, r, x, y).Comparisons[0]
	if p.Verdict != Inconclusive || p.Decided() || len(p.Looks) != 3 || p.Looks[0].Verdict != Inconclusive {
		t.Errorf("with a collapse: %s, looks %+v", p.Verdict, p.Looks)
	}
	if d, _ := p.Metric("squad", "f1"); d.Withheld == nil || d.Withheld.Verdict != Equivalent || len(d.Collapses) != 2 {
		t.Errorf("withheld is %+v, collapses are %+v", d.Withheld, d.Collapses)
	}
}

// TestGuardsJSON holds what other programs read.
func TestGuardsJSON(t *testing.T) {
	c, err := Compare(withFloor(runsWithF1(quick(t), []float64{90, 91, 90}, []float64{91, 90, 90}), new(95.)))
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := c.WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	type metric struct {
		Metric   string
		Floor    float64
		Withheld struct{ Guard string }
	}
	var got struct {
		Comparisons []struct {
			Sentence string
			Metrics  []metric
		}
	}
	if err := json.Unmarshal(text.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	p := got.Comparisons[0]
	i := slices.IndexFunc(p.Metrics, func(m metric) bool { return m.Metric == "f1" })
	if m := p.Metrics[i]; m.Floor != 95 || m.Withheld.Guard != "nothing learned" || p.Sentence == "" {
		t.Errorf("%+v of %q", m, p.Sentence)
	}
}
