// Package verdict compares runs and says whether they reach the same accuracy.
//
// In flow complete and failed runs of one recipe (results.Run) with the margins that the recipe states; out flows a Comparison: a Decision for each metric and
// pair of arms (EQUIVALENT, DIFFERENT or INCONCLUSIVE) with what it rests on, and how curves, targets and times differ. Runs are paired by seed. This file
// has the decision itself; package statistics has the tests that it reads.
package verdict

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"harness.invalid/core/recipe"
	"harness.invalid/results"
	"harness.invalid/results/statistics"
)

// Decision is the answer of a comparison in one metric.
type Decision string

// The answers, with d̄ the mean difference over n seeds, and Δ the margin.
const (
	// Equivalent: TOST rejects both δ ≤ -Δ and δ ≥ Δ at α; the 1-2α interval of the difference lies between -Δ and Δ. Also when that interval
	// does not hold 0: such a difference is real and does not matter.
	Equivalent Decision = "EQUIVALENT"
	// Different: not Equivalent, and the 1-α interval does not hold 0. The arms differ, in the direction of d̄, by what may matter; when the whole
	// interval lies beyond the margin (Difference.BeyondMargin), by what does.
	Different Decision = "DIFFERENT"
	// Inconclusive: neither. More seeds are needed; it does not say that the arms are alike.
	Inconclusive Decision = "INCONCLUSIVE"
)

// verdictOf decides. The combinations of the two tests are the four of Lakens 2017, Soc. Psychol. Personal. Sci. 8:355, figure 1; where both
// reject, the arms are Equivalent.
func verdictOf(inf statistics.Inference, margin float64) Decision {
	switch e := inf.EquivalenceInterval; {
	case -margin < float64(e.Low) && float64(e.High) < margin:
		return Equivalent
	case !inf.Interval.Contains(0):
		return Different
	}
	return Inconclusive
}

// Pairing holds an arm against the baseline, over the seeds that both have.
type Pairing struct {
	Baseline results.Arm `json:"baseline"`
	Arm      results.Arm `json:"arm"`
	Seeds    []uint64    `json:"seeds"`
	// Verdict and Reason are those of the primary metric, PHASE.NAME; "" where the recipe names none.
	Primary string   `json:"primary,omitempty"`
	Verdict Decision `json:"verdict,omitempty"`
	Reason  string   `json:"reason,omitempty"`
	// Metrics in the order of the phases.
	Metrics []Difference `json:"metrics"`
	// Curves, Targets and Times are of the way there.
	Curves  []CurveDifference      `json:"curves,omitempty"`
	Targets []TargetDifference     `json:"targets,omitempty"`
	Times   []PhaseTimesDifference `json:"times,omitempty"`
}

// Metric finds a metric of a phase.
func (p *Pairing) Metric(phase, metric string) (Difference, bool) {
	i := slices.IndexFunc(p.Metrics, func(d Difference) bool { return d.Phase == phase && d.Metric == metric })
	if i < 0 {
		return Difference{}, false
	}
	return p.Metrics[i], true
}

// Difference is how far an arm is from the baseline in one metric of one phase.
type Difference struct {
	Phase   string `json:"phase"`
	Metric  string `json:"metric"`
	Primary bool   `json:"primary,omitempty"`
	// Margin is the greatest difference that does not matter; 0: the recipe states none, and there is no verdict.
	Margin   float64           `json:"margin,omitempty"`
	Baseline statistics.Sample `json:"baseline"`
	Arm      statistics.Sample `json:"arm"`
	// Difference is the mean of arm - baseline.
	Difference results.Number `json:"difference"`
	// Inference is nil for one seed, and where a value is not finite.
	Inference *statistics.Inference `json:"inference,omitempty"`
	// MultiBootstrap is over seeds and examples; nil where the runs kept no scores of single examples.
	MultiBootstrap *statistics.MultiBootstrap `json:"multi_bootstrap,omitempty"`
	// Noise is what two groups of the baseline's own runs differ by; nil without an A/A comparison.
	Noise *Noise `json:"noise,omitempty"`

	Verdict Decision `json:"verdict,omitempty"`
	// Direction of a verdict DIFFERENT: the arm is better or worse than the baseline.
	Direction    string `json:"direction,omitempty"`
	BeyondMargin bool   `json:"beyond_margin,omitempty"`
	// FurtherSeeds is how many seeds more would settle an INCONCLUSIVE with probability 0.9, if the difference and its spread are what they look
	// like so far; 0: not known.
	FurtherSeeds int `json:"further_seeds,omitempty"`
	// Reason is the verdict in plain words.
	Reason string `json:"reason"`
}

// The directions.
const (
	Better = "better"
	Worse  = "worse"
)

// pair adds the comparison of two arms, metric by metric. A run that failed has its place in the pairs, without values: to leave it out would be
// to choose the good ones.
func (c *Comparison) pair(baseline, arm results.Arm, verdict recipe.Verdict) {
	a, b := c.Ended(baseline), c.Ended(arm)
	c.noteUnpaired(baseline, arm, a, b)
	p := Pairing{Baseline: baseline, Arm: arm, Seeds: []uint64{}, Metrics: []Difference{}}
	var pairs [][2]RunSummary
	for _, r := range a {
		if j := slices.IndexFunc(b, func(s RunSummary) bool { return s.Seed == r.Seed }); j >= 0 {
			p.Seeds = append(p.Seeds, r.Seed)
			pairs = append(pairs, [2]RunSummary{r, b[j]})
		}
	}
	for i, phase := range c.Phases {
		for _, metric := range phase.Metrics {
			// A name without a phase is that of the last phase that measures it.
			last := !slices.ContainsFunc(c.Phases[i+1:], func(p MeasuredPhase) bool { return slices.Contains(p.Metrics, metric) })
			full := phase.Name + "." + metric
			d := Difference{Phase: phase.Name, Metric: metric, Primary: verdict.Primary == full || last && verdict.Primary == metric}
			d.Margin = marginOf(verdict, c.Phases, i, metric)
			d.over(pairs, verdict.Alpha)
			d.Noise = c.noise(d, p.Seeds, verdict.Alpha)
			p.Metrics = append(p.Metrics, d)
		}
	}
	p.decide(verdict.Alpha)
	c.Comparisons = append(c.Comparisons, p)
	different := slices.ContainsFunc(p.Metrics, func(d Difference) bool { return d.Verdict == Different && d.Inference != nil })
	if least := statistics.LeastSignFlip(len(p.Seeds)); different && least > verdict.Alpha {
		c.Notes = append(c.Notes, fmt.Sprintf("%s against %s: with %d seeds DIFFERENT rests on the normal distribution of the differences; the sign-flip test, which does not, can't have p below %.2g", arm, baseline, len(p.Seeds), least))
	}
}

// decide corrects for the number of metrics and gives the verdicts. The primary metric is tested on its own; the others that have a margin are a
// family, in which claims of equivalence and claims of a difference are each corrected by Holm's method.
func (p *Pairing) decide(alpha float64) {
	var family []*Difference
	for i := range p.Metrics {
		if d := &p.Metrics[i]; d.Inference != nil && d.Margin > 0 && !d.Primary {
			family = append(family, d)
		}
	}
	difference, equivalence := make([]float64, len(family)), make([]float64, len(family))
	for i, d := range family {
		difference[i], equivalence[i] = float64(d.Inference.PDifference), float64(*d.Inference.PEquivalence)
	}
	difference, equivalence = statistics.HolmAdjusted(difference), statistics.HolmAdjusted(equivalence)
	for i, d := range family {
		if len(family) > 1 {
			d.Inference.Holm = &statistics.Holm{Metrics: len(family), PDifference: results.Number(difference[i]), PEquivalence: results.Number(equivalence[i])}
		}
	}
	for i := range p.Metrics {
		d := &p.Metrics[i]
		if d.Inference != nil && d.Margin > 0 {
			d.decide(alpha)
		}
		if d.Primary {
			p.Primary, p.Verdict, p.Reason = d.Phase+"."+d.Metric, d.Verdict, d.Reason
		}
	}
}

// over takes the values of pairs of baseline and arm.
func (d *Difference) over(pairs [][2]RunSummary, alpha float64) {
	if len(pairs) == 0 {
		d.Difference = results.Number(math.NaN())
		d.Reason = "the arms have no seed in common"
		if d.Margin > 0 {
			d.Verdict = Inconclusive
		}
		return
	}
	x, y := make([]float64, len(pairs)), make([]float64, len(pairs))
	for i, pair := range pairs {
		x[i], y[i] = pair[0].phaseMetric(d.Phase, d.Metric), pair[1].phaseMetric(d.Phase, d.Metric)
	}
	d.judge(x, y, alpha)
}

// ended lists the runs of an arm that are complete or failed, by seed.
func (c *Comparison) Ended(a results.Arm) []RunSummary {
	var runs []RunSummary
	for _, r := range c.Runs {
		if r.Arm == a && (r.Status == results.Complete || r.Status == results.Failed) {
			runs = append(runs, r)
		}
	}
	return runs
}

// noteUnpaired tells which seeds only one of two arms has.
func (c *Comparison) noteUnpaired(baseline, arm results.Arm, a, b []RunSummary) {
	for _, side := range []struct {
		has, lacks results.Arm
		of, in     []RunSummary
	}{{baseline, arm, a, b}, {arm, baseline, b, a}} {
		var seeds []string
		for _, r := range side.of {
			if !slices.ContainsFunc(side.in, func(s RunSummary) bool { return s.Seed == r.Seed }) && !c.InNoise(r) {
				seeds = append(seeds, fmt.Sprint(r.Seed))
			}
		}
		if len(seeds) > 0 {
			c.Notes = append(c.Notes, fmt.Sprintf("%s with %s %s: not paired, since %s has no run that ended", side.has, plural(len(seeds), "seed"), strings.Join(seeds, ", "), side.lacks))
		}
	}
}

// phaseMetric is NaN where the run did not come to measure it.
func (r RunSummary) phaseMetric(phase, metric string) float64 {
	if p, ok := r.Phase(phase); ok {
		if v, ok := p.Metrics[metric]; ok {
			return v
		}
	}
	return math.NaN()
}

// judge compares the values x of the baseline with those of the arm, in pairs.
func (d *Difference) judge(x, y []float64, alpha float64) {
	d.Baseline, d.Arm = statistics.NewSample(x), statistics.NewSample(y)
	differences := statistics.Differences(x, y)
	sample := statistics.NewSample(differences)
	d.Difference = sample.Mean
	finite := func(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
	if !finite(float64(d.Difference)) {
		d.judgeDiverged(x, y, alpha)
		return
	}
	if d.Margin > 0 {
		d.Verdict = Inconclusive
	}
	if sample.SD == nil {
		d.Reason = "1 seed gives no variance; use --seeds 3 or more"
		return
	}
	inf := statistics.Infer(float64(sample.Mean), float64(*sample.SD), sample.N, d.Margin, alpha)
	inf.PPermutation = results.Number(statistics.SignFlip(differences))
	inf.BootstrapInterval = statistics.BCa(differences, statistics.Mean, 1-alpha)
	d.Inference = &inf
	if d.Margin == 0 {
		d.Reason = "the recipe states no margin"
	}
}

// decide gives the verdict of a metric that has a margin and whose differences were looked at.
func (d *Difference) decide(alpha float64) {
	inf := d.Inference
	raw := verdictOf(*inf, d.Margin)
	d.Verdict = raw
	tests := 1
	if h := inf.Holm; h != nil {
		tests = h.Metrics
		switch {
		case float64(h.PEquivalence) < alpha:
			d.Verdict = Equivalent
		case float64(h.PDifference) < alpha:
			d.Verdict = Different
		default:
			d.Verdict = Inconclusive
		}
	}
	n, mean, sd := d.Baseline.N, float64(d.Difference), float64(inf.SD)
	if d.Verdict == Different && d.Noise != nil && math.Abs(mean) <= float64(d.Noise.Floor) {
		d.Verdict = Inconclusive
		d.Reason = fmt.Sprintf("the %s does not hold 0, but runs of the baseline alone differ by up to %.3g (A/A noise floor), and no claim is made below that", inf.Interval, float64(d.Noise.Floor))
		return
	}
	switch d.Verdict {
	case Equivalent:
		d.Reason = fmt.Sprintf("the %s lies within the margin of %g", inf.EquivalenceInterval, d.Margin)
		if !inf.Interval.Contains(0) {
			d.Reason += "; the difference is real and too small to matter"
		}
	case Different:
		d.Direction = d.direction(mean)
		d.BeyondMargin = float64(inf.Interval.Low) >= d.Margin || float64(inf.Interval.High) <= -d.Margin
		d.Reason = fmt.Sprintf("the %s does not hold 0", inf.Interval)
		if d.BeyondMargin {
			d.Reason += fmt.Sprintf(" and lies beyond the margin of %g", d.Margin)
		} else {
			d.Reason += fmt.Sprintf("; it reaches into the margin of %g, so that the difference may be too small to matter", d.Margin)
		}
	case Inconclusive:
		switch raw {
		case Equivalent:
			d.Reason = fmt.Sprintf("the %s lies within the margin of %g, but p = %.2g among %d metrics after Holm; ", inf.EquivalenceInterval, d.Margin, float64(inf.Holm.PEquivalence), tests)
		case Different:
			d.Reason = fmt.Sprintf("the %s does not hold 0, but p = %.2g among %d metrics after Holm; ", inf.Interval, float64(inf.Holm.PDifference), tests)
		case Inconclusive:
			d.Reason = fmt.Sprintf("the %s holds 0 and the %s reaches beyond the margin of %g; ", inf.Interval, inf.EquivalenceInterval, d.Margin)
		}
		d.FurtherSeeds = furtherPairs(mean, d.Margin, sd, n, alpha/float64(tests))
		if d.FurtherSeeds >= statistics.MaxPairs {
			d.FurtherSeeds = 0
			d.Reason += fmt.Sprintf("%d further seeds would not settle it", statistics.MaxPairs)
		} else {
			d.Reason += fmt.Sprintf("%d further %s would settle it with probability %g if difference and spread stay as they are", d.FurtherSeeds, plural(d.FurtherSeeds, "seed"), statistics.SettlePower)
		}
	}
	if p := float64(inf.PPermutation); d.Verdict == Different && p > alpha && statistics.LeastSignFlip(n) <= alpha {
		d.Reason += fmt.Sprintf("; the sign-flip test, which needs no normal distribution, does not confirm it (p = %.2g)", p)
	}
}

// judgeDiverged decides where values are not finite. Such a run is worse than any with a value, by no distance, so that only the sign test is
// left, which takes 6 seeds at α = 0.05.
func (d *Difference) judgeDiverged(x, y []float64, alpha float64) {
	lost := func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }
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
	d.Verdict = Inconclusive
	if q := statistics.SignTest(better, decided); q <= alpha {
		d.Verdict, d.Direction, d.BeyondMargin = Different, Worse, true
		if 2*better > decided {
			d.Direction = Better
		}
		d.Reason += fmt.Sprintf("; the sign test has p = %.2g", q)
		return
	}
	if better == 0 || better == decided {
		n := decided
		for statistics.SignTest(0, n) > alpha {
			n++
		}
		d.FurtherSeeds = n - decided
		d.Reason += fmt.Sprintf("; %d further %s that end the same way would settle it by the sign test", d.FurtherSeeds, plural(d.FurtherSeeds, "seed"))
	}
}

// direction says what a difference of the metric means for the arm.
func (d *Difference) direction(difference float64) string {
	m, _ := recipe.MetricNamed(d.Metric)
	if m.Higher == (difference > 0) {
		return Better
	}
	return Worse
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}
