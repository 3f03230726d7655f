package verdict

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"harness.invalid/core/recipe"
	"harness.invalid/core/spelling"
	"harness.invalid/results"
	"harness.invalid/results/statistics"
)

// Pairing compares an arm with the baseline, over the seeds that both have.
type Pairing struct {
	Baseline results.Arm `json:"baseline"`
	Arm      results.Arm `json:"arm"`
	Seeds    []uint64    `json:"seeds"`
	// Look is the look of the plan that the verdicts are of; nil before the first. Seeds after it change nothing. Looks
	// are those of the primary metric up to there; a fixed plan has none.
	Look  *statistics.Look `json:"look,omitempty"`
	Looks []Looked         `json:"looks,omitempty"`
	// Verdict and Reason are those of the primary metric, PHASE.NAME; "" if the recipe names none.
	Primary string   `json:"primary,omitempty"`
	Verdict Decision `json:"verdict,omitempty"`
	Reason  string   `json:"reason,omitempty"`
	// Sentence is the answer in words, with the estimate and what it cost.
	Sentence string `json:"sentence"`
	// Metrics are in the order of the phases.
	Metrics []Difference `json:"metrics"`
	// Curves, Targets and Times compare the way there.
	Curves  []CurveDifference      `json:"curves,omitempty"`
	Targets []TargetDifference     `json:"targets,omitempty"`
	Times   []PhaseTimesDifference `json:"times,omitempty"`
}

// Metric finds the difference in a metric of a phase.
func (p *Pairing) Metric(phase, metric string) (Difference, bool) {
	i := slices.IndexFunc(p.Metrics, func(d Difference) bool { return d.Phase == phase && d.Metric == metric })
	if i < 0 {
		return Difference{}, false
	}
	return p.Metrics[i], true
}

// pair compares two arms metric by metric. A run that failed keeps its place among the pairs, without values: to
// leave it out would select the good ones.
func (c *Comparison) pair(baseline, arm results.Arm, verdict recipe.Verdict) {
	a, b := c.Ended(baseline), c.Ended(arm)
	c.noteUnpaired(baseline, arm, a, b)
	p := Pairing{Baseline: baseline, Arm: arm, Seeds: []uint64{}, Metrics: []Difference{}}
	var pairs [][2]*RunSummary
	places := placesBySeed(b)
	for i := range a {
		if j, ok := places[a[i].Seed]; ok {
			p.Seeds = append(p.Seeds, a[i].Seed)
			pairs = append(pairs, [2]*RunSummary{&a[i], &b[j]})
		}
	}
	r, n := c.judgePairs(&p, pairs, verdict)
	p.Sentence = c.sentence(&p)
	c.Comparisons = append(c.Comparisons, p)
	c.noteUnjudged(&p)
	c.noteFloors(&p)
	c.noteFewSeeds(p, n, r)
}

// judgePairs judges every metric over the pairs, at the look at which the plan decides the primary one.
func (c *Comparison) judgePairs(p *Pairing, pairs [][2]*RunSummary, verdict recipe.Verdict) (rule, int) {
	var all []series
	var primary *series
	for i, phase := range c.Phases {
		for _, metric := range phase.Metrics {
			d := Difference{Phase: phase.Name, Metric: metric, Primary: isPrimary(verdict, c.Phases, i, metric), pairs: pairs}
			d.Margin = marginOf(verdict, c.Phases, i, metric)
			all = append(all, series{Difference: d, x: d.values(0), y: d.values(1)})
		}
	}
	if i := slices.IndexFunc(all, func(s series) bool { return s.Primary }); i >= 0 {
		primary = &all[i]
	}
	r, n := c.followPlan(p, primary, meanSeconds(pairs))
	if !r.ahead {
		p.Look = &r.Look
	}
	for _, s := range all {
		d := c.judged(s, p.Seeds[:n], r)
		if d.Inference != nil {
			d.Inference.Resample(statistics.Differences(s.x[:n], s.y[:n]))
		}
		p.Metrics = append(p.Metrics, d)
	}
	p.conclude(r)
	return r, n
}

// meanSeconds is the measured time of a pair: of two runs, one after the other.
func meanSeconds(pairs [][2]*RunSummary) float64 {
	sum := 0.0
	for _, p := range pairs {
		sum += p[0].MeasuredSeconds[results.TotalSeconds] + p[1].MeasuredSeconds[results.TotalSeconds]
	}
	return sum / float64(max(1, len(pairs)))
}

// conclude corrects for the number of metrics and gives the verdicts. The primary metric is tested on its own. All
// others that have a margin form a family, in which Holm's method corrects claims of equivalence and claims of a
// difference separately.
func (p *Pairing) conclude(r rule) {
	var family []*Difference
	for i := range p.Metrics {
		if d := &p.Metrics[i]; d.Inference != nil && d.Margin > 0 && !d.Primary {
			family = append(family, d)
		}
	}
	correct(family)
	for i := range p.Metrics {
		d := &p.Metrics[i]
		if d.Inference != nil && d.Margin > 0 {
			d.conclude(r)
			d.doubt(r)
		}
		d.heed(r)
		if d.Primary {
			p.Primary, p.Verdict, p.Reason = d.Phase+"."+d.Metric, d.Verdict, d.Reason
		}
	}
}

// Decided reports whether the primary metric has a verdict, so that no further seed is needed.
func (p *Pairing) Decided() bool { return p.Verdict == Equivalent || p.Verdict == Different }

// correct sets the corrected p values of a family of two or more.
func correct(family []*Difference) {
	if len(family) < 2 {
		return
	}
	difference, equivalence := make([]float64, len(family)), make([]float64, len(family))
	for i, d := range family {
		difference[i], equivalence[i] = float64(d.Inference.PDifference), float64(*d.Inference.PEquivalence)
	}
	difference, equivalence = statistics.AdjustHolm(difference), statistics.AdjustHolm(equivalence)
	for i, d := range family {
		d.Inference.Holm = &statistics.Holm{
			Metrics: len(family), PDifference: results.Number(difference[i]), PEquivalence: results.Number(equivalence[i]),
		}
	}
}

// noteUnpaired tells which seeds only one of two arms has.
func (c *Comparison) noteUnpaired(baseline, arm results.Arm, a, b []RunSummary) {
	for _, side := range []struct {
		has, lacks results.Arm
		of, in     []RunSummary
	}{{baseline, arm, a, b}, {arm, baseline, b, a}} {
		var seeds []string
		in := placesBySeed(side.in)
		for i := range side.of {
			seed := side.of[i].Seed
			if _, ok := in[seed]; !ok && !c.InNoise(side.has, seed) {
				seeds = append(seeds, fmt.Sprint(seed))
			}
		}
		if len(seeds) > 0 {
			c.Notes = append(c.Notes, fmt.Sprintf("%s with %s %s: not paired, since %s has no run that ended",
				side.has, spelling.Plural(len(seeds), "seed"), strings.Join(seeds, ", "), side.lacks))
		}
	}
}

// placesBySeed are the places of an arm's runs by seed.
func placesBySeed(runs []RunSummary) map[uint64]int {
	places := make(map[uint64]int, len(runs))
	for i := range runs {
		places[runs[i].Seed] = i
	}
	return places
}

// noteFewSeeds warns where DIFFERENT rests on normality alone.
func (c *Comparison) noteFewSeeds(p Pairing, n int, r rule) {
	different := slices.ContainsFunc(p.Metrics, func(d Difference) bool { return d.Verdict == Different && d.Inference != nil })
	if least := statistics.LeastSignFlip(n); different && least > r.Difference {
		c.Notes = append(c.Notes, fmt.Sprintf("%s against %s: with %d seeds DIFFERENT assumes that differences are normally distributed; "+
			"the sign-flip test, which does not, cannot give p below %.2g", p.Arm, p.Baseline, n, least))
	}
}

// phaseMetric is NaN if the run did not get to measure it.
func (r *RunSummary) phaseMetric(phase, metric string) float64 {
	if p, ok := r.Phase(phase); ok {
		if v, ok := p.Metrics[metric]; ok {
			return v
		}
	}
	return math.NaN()
}
