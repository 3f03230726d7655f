package verdict

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The F1 of BERT-Large on SQuAD v1.1 that Graphcore published in the logs of its TensorFlow 1 application: five
// seeds on IPUs, ten on GPUs.
const (
	publishedIPU = "f1\n90.84\n91.06\n90.70\n90.72\n91.16\n"
	publishedGPU = "f1\n90.60\n90.65\n90.96\n90.44\n90.58\n90.78\n90.81\n90.82\n90.51\n90.68\n"
)

func scores(t testing.TB, text, metric string) Scores {
	t.Helper()
	s, err := ReadScores(strings.NewReader(text), metric)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestPublishedScores judges the published scores. By hand, with means 90.896 and 90.683 and variances 0.04218 and
// 0.02462: a standard error of 0.1044, 6.5 degrees of freedom, t 2.04, 1.928 for an interval of 90%.
func TestPublishedScores(t *testing.T) {
	gpu, ipu := scores(t, publishedGPU, "f1"), scores(t, publishedIPU, "f1")
	for _, c := range []struct {
		margin       float64
		want         Decision
		pEquivalence float64
	}{{0.5, Equivalent, 0.016}, {0.4, Inconclusive, 0.060}, {0.415, Equivalent, 0.05}} {
		a, err := OfScores(gpu, ipu, Question{Metric: "f1", Margin: c.margin, Alpha: 0.05, Unpaired: true})
		if err != nil {
			t.Fatal(err)
		}
		near(t, "difference", float64(a.Difference), 0.213, 5e-4)
		near(t, "low", float64(a.Interval[0]), 0.012, 5e-4)
		near(t, "high", float64(a.Interval[1]), 0.414, 5e-4)
		near(t, "p of a difference", float64(a.PDifference), 0.085, 1e-3)
		near(t, "p of equivalence", float64(a.PEquivalence), c.pEquivalence, 1e-3)
		near(t, "smallest margin", float64(a.SmallestMargin), 0.414, 5e-4)
		if a.Verdict != c.want || a.N != 15 || math.Abs(a.Level-0.9) > 1e-12 {
			t.Errorf("margin %g: %+v, want %s of 15 values at level 0.9", c.margin, a, c.want)
		}
	}
}

func TestScores(t *testing.T) {
	column := func(values ...float64) string {
		text := "seed,loss,f1\n"
		for i := len(values) - 1; i >= 0; i-- {
			text += fmt.Sprintf("%d, 1, %g\n", i+1, values[i])
		}
		return text
	}
	base := column(90, 91, 89, 90, 92, 88, 90, 91)
	for name, c := range map[string]struct {
		arm        string
		sequential bool
		want       Decision
		n          int
		reason     string
	}{
		"close":         {column(90.1, 91.2, 88.9, 90.1), false, Equivalent, 4, "lies within the margin of 2"},
		"worse":         {column(80, 82, 79, 80), false, Different, 4, "lies beyond the margin of 2"},
		"one":           {column(80), false, Inconclusive, 1, "one value gives no variance"},
		"too early":     {column(90.1, 91.2, 88.9, 90.1), true, Inconclusive, 4, "the plan looks first after 6"},
		"first look":    {column(90.1, 91.2, 88.9, 90.1, 92, 88.1, 10), true, Equivalent, 6, "after 6 pairs"},
		"too early yet": {column(80, 82, 79, 80, 82, 78), true, Inconclusive, 6, "after 8 pairs at the earliest"},
		"far":           {column(80, 82, 79, 80, 82, 78, 80, 81), true, Different, 8, "after 8 pairs"},
	} {
		a, err := OfScores(scores(t, base, "f1"), scores(t, c.arm, "f1"), Question{Metric: "f1", Margin: 2, Alpha: 0.05,
			Sequential: c.sequential})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if a.Verdict != c.want || a.N != c.n || !strings.Contains(a.Reason, c.reason) {
			t.Errorf("%s: %s of %d pairs, %q, want %s of %d, %q", name, a.Verdict, a.N, a.Reason, c.want, c.n, c.reason)
		}
	}
}

// TestUnpairedSequentially: each look takes one more value of each file, in their order.
func TestUnpairedSequentially(t *testing.T) {
	base := Scores{Values: []float64{90, 91, 89, 90, 92, 88, 90, 91}}
	for name, c := range map[string]struct {
		arm    []float64
		want   Decision
		n      int
		reason string
	}{
		"too early":     {[]float64{90.1, 91.2, 88.9, 90.1}, Inconclusive, 8, "4 values of each, and the plan looks first after 6"},
		"first look":    {[]float64{90.1, 91.2, 88.9, 90.1, 92, 88.1, 10, 10}, Equivalent, 12, "after 6 values of each)"},
		"too early yet": {[]float64{80, 82, 79, 80, 82, 78}, Inconclusive, 12, "after 8 values of each at the earliest"},
		"far":           {[]float64{80, 82, 79, 80, 82, 78, 80, 81}, Different, 16, "after 8 values of each)"},
	} {
		b := Scores{Values: base.Values[:len(c.arm)]}
		a, err := OfScores(b, Scores{Values: c.arm}, Question{Metric: "f1", Margin: 4, Alpha: 0.05, Unpaired: true, Sequential: true})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if a.Verdict != c.want || a.N != c.n || !strings.Contains(a.Reason, c.reason) {
			t.Errorf("%s: %s of %d values, %q, want %s of %d, %q", name, a.Verdict, a.N, a.Reason, c.want, c.n, c.reason)
		}
	}
}

// TestScoresThatCollapsed: one run of ten that is far off withholds EQUIVALENT, names itself, and does not withhold
// DIFFERENT; where the metric is known, far better is no collapse.
func TestScoresThatCollapsed(t *testing.T) {
	values := func(last float64) Scores {
		var s Scores
		for i := range 10 {
			s.Seeds, s.Values = append(s.Seeds, uint64(i+1)), append(s.Values, 90+0.1*float64(i%3))
		}
		s.Values[9] = last
		return s
	}
	sound := values(90)
	for name, c := range map[string]struct {
		metric string
		arm    Scores
		margin float64
		want   Decision
		guard  Guard
		reason string
	}{
		"sound":         {"f1", values(90.1), 2, Equivalent, "", "lies within"},
		"collapsed":     {"f1", values(80), 3, Inconclusive, Collapsed, "1 run collapsed: the arm with seed 10 (80, and the median is 90.1)"},
		"better":        {"f1", values(98), 3, Equivalent, "", "lies within"},
		"a loss":        {"loss", values(98), 3, Inconclusive, Collapsed, "the arm with seed 10 (98"},
		"unknown, high": {"BLEU", values(98), 3, Inconclusive, Collapsed, "the arm with seed 10 (98"},
		"unknown, low":  {"BLEU", values(80), 3, Inconclusive, Collapsed, "the arm with seed 10 (80"},
	} {
		for _, unpaired := range []bool{false, true} {
			a, err := OfScores(sound, c.arm, Question{Metric: c.metric, Margin: c.margin, Alpha: 0.05, Unpaired: unpaired})
			if err != nil {
				t.Fatal(err)
			}
			guard := Guard("")
			if a.Withheld != nil {
				guard = a.Withheld.Guard
			}
			if a.Verdict != c.want || guard != c.guard || !strings.Contains(a.Reason, c.reason) {
				t.Errorf("%s, unpaired %v: %s, guard %q, %q; want %s, %q, %q", name, unpaired, a.Verdict, guard, a.Reason, c.want, c.guard,
					c.reason)
			}
		}
	}
	worse := values(60)
	for i := range 9 {
		worse.Values[i] -= 10
	}
	a, err := OfScores(sound, worse, Question{Metric: "f1", Margin: 2, Alpha: 0.05})
	if err != nil || a.Verdict != Different || a.Withheld != nil || !strings.Contains(a.Reason, "1 run collapsed") {
		t.Errorf("%+v, error %v, want DIFFERENT and the collapse named", a, err)
	}
	none := Scores{Values: sound.Values}
	a, err = OfScores(none, Scores{Values: values(80).Values}, Question{Metric: "f1", Margin: 3, Alpha: 0.05, Unpaired: true})
	if err != nil || !strings.Contains(a.Reason, "a score of the arm (80") {
		t.Errorf("%q, error %v, want the score named without a seed", a.Reason, err)
	}
}

// TestScoresAreJudgedAsRuns: pairs of scores come to the verdict of the same values in runs.
func TestScoresAreJudgedAsRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 12).Draw(t, "n")
		value := rapid.Float64Range(80, 90)
		x, y, seeds := make([]float64, n), make([]float64, n), make([]uint64, n)
		spread := rapid.Float64Range(0.01, 5).Draw(t, "spread")
		for i := range n {
			x[i], seeds[i] = value.Draw(t, "x"), uint64(i)
			y[i] = x[i] + spread*(value.Draw(t, "y")-85)
		}
		d := Difference{Metric: "f1", Margin: 2}
		d.judge(x, y, fixedRule(n, 0.05))
		d.conclude(fixedRule(n, 0.05))
		a, err := OfScores(Scores{seeds, x}, Scores{seeds, y}, Question{Metric: "f1", Margin: 2, Alpha: 0.05})
		if a.Withheld != nil { // by a guard, which runs have after this
			a.Verdict = a.Withheld.Verdict
		}
		if err != nil || a.Verdict != d.Verdict || a.PDifference != d.Inference.PDifference {
			t.Errorf("%s and %v, want %s as of runs", a.Verdict, err, d.Verdict)
		}
	})
}

func TestBadScores(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "header",
		"seed,em\n1,2\n":           "no column is named \"f1\"",
		"seed,F1\n1,2\n":           "did you mean F1?",
		"seed,f1\n1,two\n":         "line 2: f1 is \"two\", want a finite number",
		"seed,f1\n1,NaN\n":         "want a finite number",
		"seed,f1\n-1,2\n":          "line 2: seed is \"-1\"",
		"seed,f1\n1,2\n2,3\n1,4\n": "seed 1 is there twice",
		"seed,f1\n1,2,3\n":         "wrong number of fields",
	} {
		if _, err := ReadScores(strings.NewReader(text), "f1"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	with, without := scores(t, "seed,f1\n1,2\n2,3\n", "f1"), scores(t, "f1\n2\n3\n", "f1")
	other := scores(t, "seed,f1\n7,2\n8,3\n", "f1")
	for _, c := range []struct {
		a, b Scores
		q    Question
		want string
	}{
		{with, without, Question{Margin: 1, Alpha: 0.05}, "can't be paired"},
		{with, other, Question{Margin: 1, Alpha: 0.05}, "no seed in common"},
		{with, with, Question{Margin: 0, Alpha: 0.05}, "margin is 0"},
		{with, with, Question{Margin: 1, Alpha: 0.7}, "alpha is 0.7"},
		{with, with, Question{Margin: 1, Alpha: 0.1, Sequential: true}, "has alpha 0.1, want 0.05"},
		{with, scores(t, "f1\n1\n", "f1"), Question{Margin: 1, Alpha: 0.05, Sequential: true, Unpaired: true}, "2 and 1 values"},
	} {
		if _, err := OfScores(c.a, c.b, c.q); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.q, err, c.want)
		}
	}
}

func FuzzScores(f *testing.F) {
	f.Add("seed,f1\n1,90\n2,91\n")
	f.Add(publishedIPU)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ReadScores(strings.NewReader(text), "f1")
		if err != nil {
			return
		}
		a, err := OfScores(s, s, Question{Metric: "f1", Margin: 1, Alpha: 0.05})
		if err == nil && a.Difference != 0 {
			t.Errorf("scores differ from themselves by %v", a.Difference)
		}
	})
}
