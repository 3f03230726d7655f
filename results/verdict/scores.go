package verdict

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"harness.invalid/core/recipe"
	"harness.invalid/core/spelling"
	"harness.invalid/results"
	"harness.invalid/results/statistics"
)

// Scores are the values of a metric that somebody measured.
type Scores struct {
	Seeds  []uint64 // nil: they have none, and can't be paired
	Values []float64
}

// ErrNoSeeds is the error of pairing scores that have no seeds.
var ErrNoSeeds = errors.New("scores without a column seed can't be paired")

// maxScores bounds what is read of a file.
const maxScores = 1_000_000

// ReadScores reads one metric of a CSV file whose first line names its columns: one for each metric, and seed if values
// are to be paired. Scores with seeds come out sorted by seed.
func ReadScores(r io.Reader, metric string) (Scores, error) {
	in := csv.NewReader(r)
	in.TrimLeadingSpace = true
	header, err := in.Read()
	if err != nil {
		return Scores{}, fmt.Errorf("header: %w", err)
	}
	for i := range header {
		header[i] = strings.TrimSpace(header[i])
	}
	column, seed := slices.Index(header, metric), slices.Index(header, "seed")
	if column < 0 {
		return Scores{}, fmt.Errorf("no column is named %q%s (found: %s)", metric, spelling.Hint(metric, header), strings.Join(header, ", "))
	}
	type score struct {
		seed  uint64
		value float64
	}
	var list []score
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Scores{}, err
		}
		line, _ := in.FieldPos(column)
		s := score{}
		if s.value, err = strconv.ParseFloat(strings.TrimSpace(row[column]), 64); err != nil || math.IsNaN(s.value) || math.IsInf(s.value, 0) {
			return Scores{}, fmt.Errorf("line %d: %s is %q, want a finite number", line, metric, row[column])
		}
		if seed >= 0 {
			if s.seed, err = strconv.ParseUint(strings.TrimSpace(row[seed]), 10, 64); err != nil {
				return Scores{}, fmt.Errorf("line %d: seed is %q, want a whole number", line, row[seed])
			}
		}
		if list = append(list, s); len(list) > maxScores {
			return Scores{}, fmt.Errorf("more than %d values", maxScores)
		}
	}
	if seed >= 0 {
		slices.SortFunc(list, func(a, b score) int { return cmp.Compare(a.seed, b.seed) })
		for i := 1; i < len(list); i++ {
			if list[i].seed == list[i-1].seed {
				return Scores{}, fmt.Errorf("seed %d is there twice", list[i].seed)
			}
		}
	}
	var out Scores
	for _, s := range list {
		out.Values = append(out.Values, s.value)
		if seed >= 0 {
			out.Seeds = append(out.Seeds, s.seed)
		}
	}
	return out, nil
}

// Question is what is asked about scores.
type Question struct {
	Metric string
	Margin float64 // the greatest difference that does not matter, > 0
	Alpha  float64
	// Unpaired compares two independent samples, by Welch's test, and pairs nothing.
	Unpaired bool
	// Sequential takes the pairs for those of a sequential plan, in the order of their seeds: the verdict is that of the
	// first look that decides. Unpaired values count in the order of their files.
	Sequential bool
}

// Answer is the verdict on scores.
type Answer struct {
	Metric     string         `json:"metric"`
	N          int            `json:"n"` // pairs; of unpaired scores, values in both samples together
	Difference results.Number `json:"difference"`
	// Interval is that of the test of equivalence, at Level; nil for too few values.
	Interval     []results.Number `json:"interval"`
	Level        float64          `json:"level"`
	PEquivalence results.Number   `json:"p_equivalence"`
	PDifference  results.Number   `json:"p_difference"`
	// SmallestMargin is the smallest margin within which the scores are equivalent at this level.
	SmallestMargin results.Number `json:"smallest_margin"`
	Verdict        Decision       `json:"verdict"`
	Reason         string         `json:"reason"`
	// Withheld says which guard keeps the scores from a verdict; nil: none does. Collapses are the scores that are far
	// worse than the others of their file, see Collapse.
	Withheld  *Withheld         `json:"withheld,omitempty"`
	Collapses []ScoreCollapse   `json:"collapses,omitempty"`
	Baseline  statistics.Sample `json:"baseline"`
	Arm       statistics.Sample `json:"arm"`
}

// ScoreCollapse is a score that is far worse than the others of its file.
type ScoreCollapse struct {
	Of     string         `json:"of"` // baseline or arm
	Seed   *uint64        `json:"seed,omitempty"`
	Value  results.Number `json:"value"`
	Median results.Number `json:"median"`
}

// String is the verdict in two lines.
func (a Answer) String() string {
	number := func(n results.Number) string { return strconv.FormatFloat(float64(n), 'g', 4, 64) }
	text := fmt.Sprintf("%s: %s differs by %s", a.Verdict, a.Metric, number(a.Difference))
	if a.Interval != nil {
		text += fmt.Sprintf(", %.3g%% interval %s to %s, p of equivalence %s, of a difference %s", 100*a.Level, number(a.Interval[0]),
			number(a.Interval[1]), number(a.PEquivalence), number(a.PDifference))
	}
	return text + "\n" + a.Reason
}

// OfScores judges how far scores of an arm are from those of the baseline.
func OfScores(baseline, arm Scores, q Question) (Answer, error) {
	if !(q.Margin > 0) || math.IsInf(q.Margin, 0) {
		return Answer{}, fmt.Errorf("margin is %g, want more than 0", q.Margin)
	}
	if !(q.Alpha > 0 && q.Alpha < 0.5) {
		return Answer{}, fmt.Errorf("alpha is %g, want more than 0 and less than 0.5", q.Alpha)
	}
	if q.Unpaired {
		return q.ofUnpaired(baseline, arm)
	}
	x, y, err := pairScores(baseline, arm)
	if err != nil {
		return Answer{}, err
	}
	a := Answer{}
	if q.Sequential {
		a, err = q.follow(x.Values, y.Values)
	} else {
		a = q.answer(x.Values, y.Values, fixedRule(len(x.Values), q.Alpha),
			statistics.InferPaired(statistics.Differences(x.Values, y.Values), q.Margin, q.Alpha))
	}
	if err == nil {
		q.heed(&a, x.first(a.N), y.first(a.N))
	}
	return a, err
}

// ofUnpaired judges two independent samples: all values at once, or by the looks of the default plan until one decides.
// The levels of the plan were calibrated for pairs, and hold for two samples of the same length, too, whose degrees of
// freedom are Welch's: see statistics.TestUnpairedErrorRates.
func (q Question) ofUnpaired(baseline, arm Scores) (Answer, error) {
	x, y := baseline.Values, arm.Values
	if !q.Sequential {
		r := fixedRule(len(x)+len(y), q.Alpha)
		a := q.answer(x, y, r, statistics.InferUnpaired(x, y, q.Margin, r.Look))
		a.N = r.Pairs
		q.heed(&a, baseline, arm)
		return a, nil
	}
	if len(x) != len(y) {
		return Answer{}, fmt.Errorf("%d and %d values: a sequential plan adds one to each sample in turn", len(x), len(y))
	}
	plan, err := q.plan(len(x))
	if err != nil {
		return Answer{}, err
	}
	r := rule{alpha: q.Alpha, plan: &plan.Plan, unpaired: true}
	first := plan.Looks[0].Pairs
	r.ahead = len(x) < first
	var a Answer
	for n := min(first, len(x)); n <= len(x); n++ {
		r.Look, _ = plan.For(n)
		a = q.answer(x[:n], y[:n], r, statistics.InferUnpaired(x[:n], y[:n], q.Margin, r.Look))
		if a.Verdict != Inconclusive {
			break
		}
	}
	a.N = a.Baseline.N + a.Arm.N
	q.heed(&a, baseline.first(a.Baseline.N), arm.first(a.Arm.N))
	return a, nil
}

// first are the first n scores.
func (s Scores) first(n int) Scores {
	f := Scores{Values: s.Values[:n]}
	if s.Seeds != nil {
		f.Seeds = s.Seeds[:n]
	}
	return f
}

// plan is the default plan, which has to have a look for n of each.
func (q Question) plan(n int) (Plan, error) {
	p, err := PlanOf(recipe.Verdict{Alpha: q.Alpha, Plan: recipe.Plan{Kind: recipe.SequentialPlan, MaxSeeds: recipe.DefaultMaxSeeds}})
	if err == nil && n > p.Last() {
		err = fmt.Errorf("%d values of each, and the plan ends after %d", n, p.Last())
	}
	return p, err
}

// heed applies the guard against collapses, as Difference.heed does for runs. In a metric that harness does not know
// nobody says which values are worse, and those that are far off on either side count.
func (q Question) heed(a *Answer, scores ...Scores) {
	signs := []float64{-1, 1}
	if m, ok := recipe.MetricNamed(q.Metric); ok {
		if signs = signs[:1]; m.Higher {
			signs[0] = 1
		}
	}
	for _, sign := range signs {
		var arms [2][]float64
		for side, s := range scores {
			for _, v := range s.Values {
				arms[side] = append(arms[side], sign*v)
			}
		}
		places, _ := collapsed(arms, q.Margin)
		for side, list := range places {
			for _, i := range list {
				c := ScoreCollapse{Of: [...]string{"baseline", "arm"}[side], Value: results.Number(scores[side].Values[i]),
					Median: results.Number(statistics.Median(scores[side].Values))}
				if scores[side].Seeds != nil {
					c.Seed = &scores[side].Seeds[i]
				}
				a.Collapses = append(a.Collapses, c)
			}
		}
	}
	if len(a.Collapses) == 0 {
		return
	}
	reason := a.collapseText()
	if a.Verdict == Different {
		a.Reason += "; " + reason
		return
	}
	a.Withheld = &Withheld{Guard: Collapsed, Verdict: a.Verdict}
	a.Verdict, a.Reason = Inconclusive, reason
}

// collapseText names the scores that collapsed.
func (a *Answer) collapseText() string {
	var list []string
	for _, c := range a.Collapses {
		which := "a score of the " + c.Of
		if c.Seed != nil {
			which = fmt.Sprintf("the %s with seed %d", c.Of, *c.Seed)
		}
		list = append(list, fmt.Sprintf("%s (%.4g, and the median is %.4g)", which, float64(c.Value), float64(c.Median)))
	}
	return spelling.Count(len(list), "run") + " collapsed: " + strings.Join(list, ", ")
}

// pairScores pairs scores by seed.
func pairScores(baseline, arm Scores) (x, y Scores, err error) {
	if baseline.Seeds == nil || arm.Seeds == nil {
		return x, y, ErrNoSeeds
	}
	at := make(map[uint64]float64, len(arm.Seeds))
	for i, s := range arm.Seeds {
		at[s] = arm.Values[i]
	}
	for i, s := range baseline.Seeds {
		if v, ok := at[s]; ok {
			x.Seeds, x.Values = append(x.Seeds, s), append(x.Values, baseline.Values[i])
			y.Seeds, y.Values = append(y.Seeds, s), append(y.Values, v)
		}
	}
	if len(x.Values) == 0 {
		return x, y, errors.New("the two have no seed in common")
	}
	return x, y, nil
}

// follow goes through the looks of the default plan until one decides.
func (q Question) follow(x, y []float64) (Answer, error) {
	plan, err := q.plan(len(x))
	if err != nil {
		return Answer{}, err
	}
	c, p := Comparison{Alpha: q.Alpha, Plan: plan, Arms: make([]ArmSummary, 1)}, Pairing{Seeds: make([]uint64, len(x))}
	for i := range p.Seeds {
		p.Seeds[i] = uint64(i) // by their place: which seeds others took is their business
	}
	s := series{Difference: Difference{Metric: q.Metric, Margin: q.Margin}, x: x, y: y}
	r, n := c.followPlan(&p, &s, 0)
	return q.answer(x[:n], y[:n], r, c.judged(s, p.Seeds[:n], r).Inference), nil
}

// answer judges two samples by a rule, and words the verdict.
func (q Question) answer(x, y []float64, r rule, inf *statistics.Inference) Answer {
	a := Answer{Metric: q.Metric, N: len(x), Baseline: statistics.NewSample(x), Arm: statistics.NewSample(y), Verdict: Inconclusive}
	a.Difference = a.Arm.Mean - a.Baseline.Mean
	if inf == nil {
		nan := results.Number(math.NaN())
		a.PEquivalence, a.PDifference, a.SmallestMargin = nan, nan, nan
		a.Reason = "one value gives no variance: want two or more of each"
		return a
	}
	e := inf.EquivalenceInterval
	a.Interval, a.Level = []results.Number{e.Low, e.High}, e.Level
	a.PEquivalence, a.PDifference = *inf.PEquivalence, inf.PDifference
	a.SmallestMargin = max(-e.Low, e.High)
	d := Difference{Metric: q.Metric, Margin: q.Margin, Difference: a.Difference, Inference: inf, Baseline: a.Baseline,
		SmallestMargin: a.SmallestMargin}
	if d.settle(r); d.Verdict == Inconclusive && r.plan == nil {
		d.Reason = d.undecided(r) // nobody said what a seed costs
	} else {
		d.explain(r)
	}
	if r.plan == nil {
		d.doubt(r)
	}
	a.Verdict, a.Reason = d.Verdict, d.Reason
	return a
}
