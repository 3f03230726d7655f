// Package verdict compares runs and says whether they reach the same accuracy.
//
// In flow runs of one recipe (results.Run), complete or failed, with the margins that the recipe states. Out flows
// a Comparison: for each arm against the first one, and for each metric, a Decision (EQUIVALENT, DIFFERENT or
// INCONCLUSIVE) with the numbers it rests on, and how curves, targets and times differ on the way.
//
//	Compare        checks that the runs belong together, sorts them by arm and seed     comparison.go, comparable.go
//	pair           pairs two arms by seed, corrects for the number of metrics           pairing.go
//	followPlan     finds the look of the plan at which the primary metric is decided    plan.go
//	Difference     judges the paired values of one metric: the verdict                  this file
//	guard          withholds a verdict that says nothing: nothing learned, a collapse   guard.go, collapse.go
//	sentence       says it all in one sentence                                          sentence.go, words.go
//	follow         compares what was recorded on the way: curves, targets, times        history.go and its neighbours
//
// The tests themselves are functions of numbers in results/statistics. "No significant difference" is never taken
// for "equal": equivalence has a test of its own, against a margin.
package verdict

import (
	"fmt"
	"math"

	"harness.invalid/core/recipe"
	"harness.invalid/core/spelling"
	"harness.invalid/results"
	"harness.invalid/results/statistics"
)

// Decision is the answer of a comparison in one metric.
type Decision string

// The answers, with d̄ the mean difference over n seeds, and Δ the margin.
const (
	// Equivalent: TOST rejects both δ ≤ -Δ and δ ≥ Δ at α, so the 1-2α interval of the difference lies between -Δ
	// and Δ. It may exclude 0: such a difference is real and too small to matter.
	Equivalent Decision = "EQUIVALENT"
	// Different: the 1-α interval excludes 0, and d̄ reaches the margin. The arms differ in the direction of d̄, by
	// what matters as far as the estimate tells; it does for sure if the whole interval lies beyond the margin
	// (Difference.BeyondMargin).
	Different Decision = "DIFFERENT"
	// Inconclusive: neither. It takes more seeds to tell; it does not say that the arms are alike. A difference can be
	// shown to be real and still be inconclusive, if its estimate is smaller than the margin.
	Inconclusive Decision = "INCONCLUSIVE"
)

// decide draws the conclusion about a mean difference from two tests at the levels that inf was made with. Their
// combinations are the four of Lakens 2017, Soc. Psychol. Personal. Sci. 8:355, figure 1; where both tests reject,
// the arms are Equivalent, and where only the test against 0 does, the estimate must reach the margin besides.
func decide(mean float64, inf statistics.Inference, margin float64) Decision {
	switch e := inf.EquivalenceInterval; {
	case -margin < float64(e.Low) && float64(e.High) < margin:
		return Equivalent
	case !inf.Interval.Contains(0) && math.Abs(mean) >= margin:
		return Different
	}
	return Inconclusive
}

// decideCorrected is decide by p values that were corrected for a family of metrics.
func decideCorrected(mean float64, h statistics.Holm, margin float64, l statistics.Look) Decision {
	switch {
	case float64(h.PEquivalence) < l.Equivalence:
		return Equivalent
	case float64(h.PDifference) < l.Difference && math.Abs(mean) >= margin:
		return Different
	}
	return Inconclusive
}

// Difference is how far an arm is from the baseline in one metric of one phase, and the verdict on it.
type Difference struct {
	Phase   string `json:"phase"`
	Metric  string `json:"metric"`
	Primary bool   `json:"primary,omitempty"`
	// Margin is the greatest difference that does not matter. 0: the recipe states none, and there is no verdict.
	Margin   float64           `json:"margin,omitempty"`
	Baseline statistics.Sample `json:"baseline"`
	Arm      statistics.Sample `json:"arm"`
	// Difference is the mean of arm - baseline.
	Difference results.Number `json:"difference"`
	// Inference is nil for one seed, and where a value is not finite.
	Inference *statistics.Inference `json:"inference,omitempty"`
	// MultiBootstrap resamples seeds and examples; nil unless the runs kept the scores of single examples.
	MultiBootstrap *statistics.MultiBootstrap `json:"multi_bootstrap,omitempty"`
	// Floor is what a model that ignores its input gets, as the runs recorded it; nil if they did not.
	Floor *results.Number `json:"floor,omitempty"`
	// Noise is the difference between two groups of the baseline's own runs; nil without an A/A comparison.
	Noise *Noise `json:"noise,omitempty"`

	Verdict Decision `json:"verdict,omitempty"`
	// Direction of a verdict DIFFERENT: whether the arm is better or worse than the baseline.
	Direction    string `json:"direction,omitempty"`
	BeyondMargin bool   `json:"beyond_margin,omitempty"`
	// SmallestMargin is the smallest margin within which the arms are equivalent at the level of the look.
	SmallestMargin results.Number `json:"smallest_margin,omitempty"`
	// FurtherSeeds is how many more seeds would settle an INCONCLUSIVE with probability 0.9, if the difference equals
	// the estimate so far and the standard deviation its upper confidence limit; 0: unknown, or more than the plan has.
	FurtherSeeds int `json:"further_seeds,omitempty"`
	// FurtherSeconds is what they take at the measured time of a pair.
	FurtherSeconds results.Number `json:"further_seconds,omitempty"`
	// Withheld says which guard keeps the metric from a verdict; nil: none does.
	Withheld *Withheld `json:"withheld,omitempty"`
	// Collapses are the runs that are far worse than the others of their arm. CollapseRateBelow is how often an arm that
	// is EQUIVALENT collapses at most, with a confidence of 1-α, considering that no run did.
	Collapses         []Collapse `json:"collapses,omitempty"`
	CollapseRateBelow float64    `json:"collapse_rate_below,omitempty"`
	// Reason is the verdict in plain words.
	Reason string `json:"reason"`

	pairs    [][2]*RunSummary // that are compared, of the baseline and of the arm
	prospect string           // what would settle an INCONCLUSIVE; part of Reason
}

// The directions.
const (
	Better = "better"
	Worse  = "worse"
)

// judge compares the arm's values y with the baseline's values x, pair by pair. It leaves the verdict of a metric
// with a margin at INCONCLUSIVE: conclude has the last word, once all metrics of the pairing are known.
func (d *Difference) judge(x, y []float64, r rule) {
	if d.Margin > 0 {
		d.Verdict = Inconclusive
	}
	if len(x) == 0 {
		d.Difference = results.Number(math.NaN())
		d.Reason = "the arms have no seed in common"
		return
	}
	d.Baseline, d.Arm = statistics.NewSample(x), statistics.NewSample(y)
	s := statistics.NewSample(statistics.Differences(x, y))
	d.Difference = s.Mean
	if lost(float64(d.Difference)) {
		d.judgeDiverged(x, y, r)
		return
	}
	if s.N < 2 {
		d.Reason = "1 seed gives no variance; use --seeds 3 or more"
		if r.plan != nil {
			d.Reason = r.waiting(1)
		}
		return
	}
	d.Inference = new(statistics.InferAt(float64(s.Mean), float64(*s.SD), s.N, d.Margin, r.Look))
	if d.Margin == 0 {
		d.Reason = "the recipe states no margin"
		return
	}
	e := d.Inference.EquivalenceInterval
	d.SmallestMargin = max(-e.Low, e.High)
}

// conclude gives the verdict on a metric that has a margin and an inference, corrected for its family if it is in one,
// and its reason.
func (d *Difference) conclude(r rule) {
	d.settle(r)
	d.explain(r)
}

// shown is what the data show at the levels of the look, before the guards.
func (d *Difference) shown(r rule) Decision {
	if h := d.Inference.Holm; h != nil {
		return decideCorrected(float64(d.Difference), *h, d.Margin, r.Look)
	}
	return decide(float64(d.Difference), *d.Inference, d.Margin)
}

// settle gives the verdict.
func (d *Difference) settle(r rule) {
	d.Verdict = d.shown(r)
	if r.ahead || d.Verdict == Different && (r.early() || d.belowNoise()) {
		d.Verdict = Inconclusive
	}
}

// belowNoise reports whether runs of the baseline alone differ as much.
func (d *Difference) belowNoise() bool {
	return d.Noise != nil && math.Abs(float64(d.Difference)) <= float64(d.Noise.Floor)
}

// explain says why the verdict is what it is.
func (d *Difference) explain(r rule) {
	inf := d.Inference
	switch {
	case r.ahead:
		d.prospect = r.waiting(d.Baseline.N)
		d.Reason = d.prospect
		d.further(r, r.Pairs-d.Baseline.N)
	case d.Verdict == Equivalent:
		d.Reason = fmt.Sprintf("the %s lies within the margin of %g", inf.EquivalenceInterval, d.Margin)
		if !r.early() && !inf.Interval.Contains(0) {
			d.Reason += "; different, and by less than the margin"
		}
		d.Reason += r.suffix()
	case d.Verdict == Different:
		d.explainDifferent(r)
	case d.shown(r) != Different:
		d.explainInconclusive(r)
	case r.early():
		d.Reason = fmt.Sprintf("the %s reaches beyond the margin of %g, and the plan calls arms different after %s at the earliest",
			inf.EquivalenceInterval, d.Margin, r.count(statistics.LeastPairsDifference))
		d.further(r, statistics.LeastPairsDifference-r.Pairs)
	default:
		d.Reason = fmt.Sprintf("the %s excludes 0, but runs of the baseline alone differ by up to %.3g (A/A noise floor), "+
			"and no claim is made below that", inf.Interval, float64(d.Noise.Floor))
	}
}

// explainDifferent says in which direction and how far the arms differ.
func (d *Difference) explainDifferent(r rule) {
	inf := d.Inference
	d.Direction = d.direction(float64(d.Difference))
	d.BeyondMargin = float64(inf.Interval.Low) >= d.Margin || float64(inf.Interval.High) <= -d.Margin
	d.Reason = fmt.Sprintf("the %s excludes 0", inf.Interval)
	if d.BeyondMargin {
		d.Reason += fmt.Sprintf(" and lies beyond the margin of %g", d.Margin)
	} else {
		d.Reason += fmt.Sprintf(", and the difference reaches the margin of %g", d.Margin)
	}
	d.Reason += r.suffix()
}

// doubt adds what the sign-flip test says against a verdict, once the inference has its p.
func (d *Difference) doubt(r rule) {
	if d.Verdict != Different || d.Inference == nil {
		return
	}
	if p := float64(d.Inference.PPermutation); p > r.Look.Difference && statistics.LeastSignFlip(d.Baseline.N) <= r.Look.Difference {
		d.Reason += fmt.Sprintf("; the sign-flip test, which does not assume normality, does not confirm it (p = %.2g)", p)
	}
}

// explainInconclusive says what was missing, and how many seeds would help.
func (d *Difference) explainInconclusive(r rule) {
	inf, tests := d.Inference, 1
	if inf.Holm != nil {
		tests = inf.Holm.Metrics
	}
	switch mean := float64(d.Difference); decide(mean, *inf, d.Margin) {
	case Equivalent:
		d.Reason = fmt.Sprintf("the %s lies within the margin of %g, but p = %.2g among %d metrics after Holm",
			inf.EquivalenceInterval, d.Margin, float64(inf.Holm.PEquivalence), tests)
	case Different:
		d.Reason = fmt.Sprintf("the %s excludes 0, but p = %.2g among %d metrics after Holm",
			inf.Interval, float64(inf.Holm.PDifference), tests)
	case Inconclusive:
		d.Reason = d.undecided(r)
	}
	d.prospect = d.settling(r, tests)
	d.Reason += "; " + d.prospect
}

// settling says what would settle the metric.
func (d *Difference) settling(r rule, tests int) string {
	if r.ended {
		return "the plan ended when the primary metric was decided"
	}
	n := d.Baseline.N
	further, beyond := r.furtherPairs(float64(d.Difference), d.Margin, float64(d.Inference.SD), n, tests)
	switch {
	case beyond && further < statistics.MaxPairs:
		return fmt.Sprintf("the plan ends after %d pairs: a new comparison of up to %d%s would settle it with probability %g if the "+
			"difference stays as it is", r.plan.Last(), n+further, r.time(n+further), statistics.SettlePower)
	case beyond:
		return fmt.Sprintf("the plan ends after %d pairs, and the longest one, of %d, would not settle it", r.plan.Last(),
			statistics.MostPairs)
	case further >= statistics.MaxPairs:
		return fmt.Sprintf("%d further seeds would not settle it", statistics.MaxPairs)
	}
	d.further(r, further)
	return fmt.Sprintf("%d further %s%s would settle it with probability %g if the difference stays as it is",
		further, spelling.Plural(further, "seed"), r.time(further), statistics.SettlePower)
}

// undecided says what the intervals of a metric leave open.
func (d *Difference) undecided(r rule) string {
	inf := d.Inference
	text := fmt.Sprintf("the %s contains 0 and the %s reaches beyond the margin of %g", inf.Interval, inf.EquivalenceInterval, d.Margin)
	switch {
	case r.early():
		text = fmt.Sprintf("the %s reaches beyond the margin of %g", inf.EquivalenceInterval, d.Margin)
	case !inf.Interval.Contains(0):
		text = fmt.Sprintf("different, by an estimate smaller than the margin of %g, beyond which the %s reaches",
			d.Margin, inf.EquivalenceInterval)
	}
	return text + fmt.Sprintf("; the smallest margin within which they are equivalent is %.3g", float64(d.SmallestMargin))
}

// further records what deciding would cost.
func (d *Difference) further(r rule, seeds int) {
	d.FurtherSeeds, d.FurtherSeconds = seeds, results.Number(float64(seeds)*r.pairSeconds)
}

// judgeDiverged decides where values are not finite. Such a run is worse than any with a value, by no particular
// distance. This leaves the sign test, which takes 6 seeds at α = 0.05.
func (d *Difference) judgeDiverged(x, y []float64, r rule) {
	var lostX, lostY, better, decided int
	for i := range x {
		if lost(x[i]) {
			lostX++
		}
		if lost(y[i]) {
			lostY++
		}
		switch {
		case lost(x[i]) && lost(y[i]):
			continue
		case lost(x[i]), !lost(y[i]) && d.direction(y[i]-x[i]) == Better:
			better++
		case !lost(y[i]) && x[i] == y[i]:
			continue
		}
		decided++
	}
	d.Reason = fmt.Sprintf("not finite in %d of %d runs of the baseline and %d of %d of the arm", lostX, len(x), lostY, len(y))
	if d.Margin == 0 {
		return
	}
	if r.ahead {
		d.Reason += "; " + r.waiting(len(x))
		return
	}
	if q := statistics.SignTest(better, decided); q <= r.Look.Difference {
		d.Verdict, d.Direction, d.BeyondMargin = Different, Worse, true
		if 2*better > decided {
			d.Direction = Better
		}
		d.Reason += fmt.Sprintf("; the sign test has p = %.2g%s", q, r.suffix())
		return
	}
	if better == 0 || better == decided {
		if k := r.furtherSigns(len(x), decided); k > 0 {
			d.further(r, k)
			d.Reason += fmt.Sprintf("; %d further %s that end the same way would settle it by the sign test", k, spelling.Plural(k, "seed"))
		}
	}
}

// lost reports whether a value tells nothing but that the run diverged, or failed.
func lost(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }

// direction says whether a difference, arm - baseline, is for better or worse in this metric.
func (d *Difference) direction(difference float64) string {
	m, _ := recipe.MetricNamed(d.Metric)
	if m.Higher == (difference > 0) {
		return Better
	}
	return Worse
}
