package regression

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"harness.invalid/results"
	"harness.invalid/results/statistics"
)

// question is how a sampled fact is tested.
type question struct {
	tolerance float64
	relative  bool // tolerance and change are relative, values are compared on a log scale
	higher    bool // higher is better
	alpha     float64
	same      bool // the runs have the bits of the baseline's: nothing is left to chance
	ranks     bool // a seed says nothing about the value, and values are seldom normal: some are far from the others
}

// test asks whether values by seed have become worse by more than the tolerance. With w the change for the worse
// and [l, h] its interval at level 1-2α,
//
//	holds:      h ≤ tolerance            (no worse than that, at α)
//	regressed:  w > tolerance and l > 0
//	undecided:  neither
//
// so that a fact never holds because there were too few runs to see anything. A single run decides nothing: a small
// model can be late by hundreds of steps with one seed, which the spread of a few others does not tell. Times
// (ranks) are not compared if they are too few for the test, and hold if they equal those of the baseline to the
// last bit, since then they are of its runs. w is taken over pairs of the same seed if there are two or more,
// otherwise between two groups of equal variance. The interval is Student's, for times that of the Mann-Whitney
// test.
func test(name string, was, is map[uint64]float64, q question) Fact {
	f := Fact{Name: name, Tolerance: new(results.Number(q.tolerance)), Relative: q.relative}
	x, y, pairs := valuesOf(was), valuesOf(is), []float64{}
	f.Baseline, f.Now = q.summary(x), q.summary(y)
	worse := func(a, b float64) float64 {
		switch {
		case q.relative:
			return math.Log(b / a)
		case q.higher:
			return a - b
		}
		return b - a
	}
	if q.same {
		f.Standing, f.Reason, f.Baseline = Holds, "the runs have the same bits as the baseline's", f.Now
		return f
	}
	if len(x) == 0 || len(y) == 0 {
		f.Standing, f.Reason = NotCompared, "only one side has it"
		return f
	}
	if len(y) == 1 && !q.ranks {
		f.Standing = NotCompared
		f.Reason = "one run cannot decide what varies from seed to seed: train 3 seeds or more"
		return f
	}
	lost := func(v []float64) int {
		return count(v, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
	}
	if a, b := lost(x), lost(y); a > 0 || b > 0 {
		f.Standing, f.Reason = Undecided, fmt.Sprintf("not reached, or not finite, in %d of %d runs of the baseline and %d of %d now", a,
			len(x), b, len(y))
		if a == 0 && b == len(y) {
			f.Standing = Regressed
		} else if a == len(x) {
			f.Standing, f.Reason = NotCompared, f.Reason+": there is nothing to lose"
		}
		return f
	}
	for _, seed := range slices.Sorted(maps.Keys(is)) {
		if v, ok := was[seed]; ok {
			pairs = append(pairs, worse(v, is[seed]))
		}
	}
	if q.ranks && len(pairs) == len(y) && !slices.ContainsFunc(pairs, func(d float64) bool { return d != 0 }) {
		f.Standing, f.Reason, f.Change = Holds, "the times are those of the baseline's runs", new(results.Number(0))
		return f
	}
	if e, ok := q.estimate(x, y, pairs); ok {
		q.judge(&f, e)
	} else {
		q.few(&f, e, len(x), len(y))
	}
	return f
}

// change is a change of the fact in its units, or relative to the baseline.
func (q question) change(v float64) *results.Number {
	if q.relative {
		v = math.Expm1(v)
	}
	return new(results.Number(v))
}

// setChange sets the change of a fact from one for the worse.
func (q question) setChange(f *Fact, worse float64) {
	f.Change = q.change(worse)
	if q.higher && worse != 0 {
		f.Change = new(results.Number(-worse))
	}
}

// few says that a test needs more runs, of the baseline or now.
func (q question) few(f *Fact, e estimate, was, is int) {
	q.setChange(f, e.worse)
	if q.ranks {
		f.Standing, f.Reason = NotCompared, fmt.Sprintf("too few runs to compare times: %d now and %d of the baseline, want 3 or more of each",
			is, was)
		return
	}
	f.Standing, f.Reason = Undecided, "one run on each side has no variance: more seeds are needed"
}

// judge sets what an estimate says about a fact.
func (q question) judge(f *Fact, e estimate) {
	q.setChange(f, e.worse)
	limit := q.tolerance
	if q.relative {
		limit = math.Log1p(q.tolerance)
	}
	noise := (e.high - e.low) / 2
	df, share := e.further(0)
	// The upper limit of the standard error: a few runs tell little of it (see statistics.GreatestSD).
	se := statistics.GreatestSD(df) * noise / distuv.StudentsT{Sigma: 1, Nu: df}.Quantile(1-q.alpha)
	f.Test, f.Noise, f.Power = e.test, q.change(noise), new(results.Number(powerRegressed(2*limit, limit, se, df, q.alpha)))
	switch f.Standing = e.standing(limit); f.Standing {
	case Holds:
		f.Reason = "no worse than the tolerance"
	case Regressed:
		f.Reason = "worse by more than the tolerance, and by more than chance"
	default:
		f.Reason = "the noise reaches beyond the tolerance: more seeds are needed"
		f.FurtherSeeds = statistics.FurtherRuns(func(k int) float64 {
			df, rest := e.further(k)
			return powerDecided(e.worse, limit, se*math.Sqrt(rest/share), df, q.alpha)
		})
		if f.FurtherSeeds >= statistics.MaxPairs {
			f.FurtherSeeds = 0
			f.Reason += fmt.Sprintf(", and even %d would not be enough if the change stays as it is", statistics.MaxPairs)
		} else {
			f.Reason += fmt.Sprintf(", %d on each side if the change stays as it is", f.FurtherSeeds)
		}
	}
}

// estimate is how much worse values have become, with the ends of its interval at level 1-2α.
type estimate struct {
	worse, low, high float64
	test             string
	// further says what so many further runs on each side would leave of the interval: its degrees of freedom, and
	// its square relative to that of a difference with one run on each side.
	further func(runs int) (df, share float64)
}

// standing is what the estimate says about a tolerance (see test).
func (e estimate) standing(limit float64) Standing {
	switch {
	case e.high <= limit:
		return Holds
	case e.worse > limit && e.low > 0:
		return Regressed
	}
	return Undecided
}

// The names of the tests.
const (
	pairedT    = "paired t"
	twoSampleT = "t"
	rankSum    = "rank sum"
)

// estimate uses pairs if all of y is paired and there are two pairs or more, otherwise two groups; false if there
// is no variance to estimate, or too few values for ranks. Times always form two groups, even if the runs of a seed
// took turns: one disturbed run costs pairs more than it costs groups.
func (q question) estimate(x, y, pairs []float64) (estimate, bool) {
	if n := float64(len(pairs)); !q.ranks && n >= 2 && len(pairs) == len(y) {
		e := estimate{test: pairedT, further: func(k int) (float64, float64) { return n + float64(k) - 1, 1 / (n + float64(k)) }}
		mean, sd := stat.MeanStdDev(pairs, nil)
		e.around(mean, sd/math.Sqrt(n), n-1, q.alpha)
		return e, true
	}
	n, m := float64(len(x)), float64(len(y))
	e := estimate{test: twoSampleT, further: func(k int) (float64, float64) {
		return n + m + 2*float64(k) - 2, 1/(n+float64(k)) + 1/(m+float64(k))
	}}
	if q.relative {
		x, y = logs(x), logs(y)
	}
	if q.ranks {
		e.test = rankSum
		e.worse, e.low, e.high = statistics.RankSums(x, y, q.alpha)
		return e, !math.IsInf(e.high, 0)
	}
	e.worse = worseOf(stat.Mean(x, nil), stat.Mean(y, nil), q)
	df, share := e.further(0)
	if df <= 0 {
		return e, false
	}
	e.around(e.worse, math.Sqrt((spread(x)+spread(y))/df*share), df, q.alpha)
	return e, true
}

// around sets Student's interval.
func (e *estimate) around(worse, se, df, alpha float64) {
	noise := distuv.StudentsT{Sigma: 1, Nu: df}.Quantile(1-alpha) * se
	e.worse, e.low, e.high = worse, worse-noise, worse+noise
}

// worseOf is the change of means for the worse; relative values are logarithms already.
func worseOf(a, b float64, q question) float64 {
	if q.higher && !q.relative {
		return a - b
	}
	return b - a
}

func valuesOf(m map[uint64]float64) []float64 {
	var v []float64
	for _, seed := range slices.Sorted(maps.Keys(m)) {
		v = append(v, m[seed])
	}
	return v
}

func logs(v []float64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = math.Log(v[i])
	}
	return out
}

// spread is the sum of squared distances from the mean.
func spread(v []float64) float64 {
	mean, sum := stat.Mean(v, nil), 0.0
	for _, x := range v {
		sum += (x - mean) * (x - mean)
	}
	return sum
}

func count(v []float64, is func(float64) bool) int {
	n := 0
	for _, x := range v {
		if is(x) {
			n++
		}
	}
	return n
}

// summary is mean ± standard deviation (number of runs); for ranks the median ± the median distance from it.
func (q question) summary(v []float64) string {
	if len(v) == 0 {
		return ""
	}
	reached := slices.DeleteFunc(slices.Clone(v), func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) })
	if len(reached) < len(v) {
		return fmt.Sprintf("reached in %d of %d", len(reached), len(v))
	}
	mean, sd := stat.MeanStdDev(v, nil)
	if q.ranks {
		mean = statistics.Median(v)
		sd = statistics.MedianDistance(v, mean)
	}
	text := fmt.Sprintf("%.4g", mean)
	if len(v) > 1 {
		text += fmt.Sprintf(" ± %.2g", sd)
	}
	return text + fmt.Sprintf(" (%d)", len(v))
}
