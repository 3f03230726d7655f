package verdict

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"harness.invalid/core/recipe"
	"harness.invalid/core/spelling"
	"harness.invalid/results"
	"harness.invalid/results/statistics"
)

// Plan is the plan of a comparison: after how many pairs it looks, and at which levels.
type Plan struct {
	Kind     string `json:"kind"`      // sequential or fixed, see recipe.Plan
	MaxSeeds int    `json:"max_seeds"` // of the last look
	statistics.Plan
}

// PlanOf is the plan of a recipe's rule. A rule without a plan has a fixed one.
func PlanOf(v recipe.Verdict) (Plan, error) {
	p := Plan{Kind: recipe.FixedPlan, MaxSeeds: v.Plan.MaxSeeds, Plan: statistics.Fixed(v.Plan.MaxSeeds, v.Alpha)}
	if v.Plan.Kind != recipe.SequentialPlan {
		return p, nil
	}
	s, err := statistics.Sequential(v.Plan.MaxSeeds, v.Alpha)
	return Plan{Kind: recipe.SequentialPlan, MaxSeeds: v.Plan.MaxSeeds, Plan: s}, err
}

func (p *Plan) sequential() bool { return p.Kind == recipe.SequentialPlan }

// Looked is what the primary metric showed at a look: its repeated confidence intervals, see statistics.Sequential.
type Looked struct {
	statistics.Look
	Difference results.Number `json:"mean_difference"`
	// EquivalenceInterval and Interval are nil where a value is not finite, Interval also where it is too early for
	// DIFFERENT.
	EquivalenceInterval *statistics.Interval `json:"equivalence_interval,omitempty"`
	Interval            *statistics.Interval `json:"interval,omitempty"`
	Verdict             Decision             `json:"verdict"`
}

// rule is how a metric is judged: at the levels of a look.
type rule struct {
	statistics.Look
	alpha float64          // of the comparison
	plan  *statistics.Plan // that the look is of; nil: a fixed one
	// ahead: the first look is still to come, and its levels only serve to show intervals. ended: the primary metric is
	// decided, and no further look will come.
	ahead, ended bool
	pairSeconds  float64 // measured time of a pair; 0: unknown
	unpaired     bool    // the look is of so many values in each of two independent samples
}

// fixedRule judges all n pairs that there are, once.
func fixedRule(n int, alpha float64) rule {
	return rule{Look: statistics.Fixed(n, alpha).Looks[0], alpha: alpha}
}

// early reports whether the look can't bring DIFFERENT.
func (r *rule) early() bool { return r.Difference == 0 }

// suffix names the look that a verdict is of.
func (r *rule) suffix() string {
	if r.plan == nil {
		return ""
	}
	return fmt.Sprintf(" (sequential plan, after %s)", r.count(r.Pairs))
}

// count is how much has been measured, in words.
func (r *rule) count(n int) string {
	if r.unpaired {
		return spelling.Count(n, "value") + " of each"
	}
	return spelling.Count(n, "pair")
}

// waiting says when the plan will look first.
func (r *rule) waiting(n int) string {
	k := r.Pairs - n
	return fmt.Sprintf("%s, and the plan looks first after %d: %d further %s%s", r.count(n), r.Pairs, k,
		spelling.Plural(k, "seed"), strings.TrimSuffix(r.time(k), ","))
}

// time is what so many pairs take, in words.
func (r *rule) time(pairs int) string {
	if r.pairSeconds == 0 {
		return ""
	}
	return ", about " + Rounded(time.Duration(float64(pairs)*r.pairSeconds*float64(time.Second))) + ","
}

// Rounded is a time to be spent as --budget takes it, without what is too small to matter: 40s, 7m, 4h10m.
func Rounded(d time.Duration) string {
	unit := time.Minute
	if d < 2*time.Minute {
		unit = time.Second
	}
	text := max(d, time.Second).Round(unit).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// series are the values of a metric over the pairs, in the order of their seeds.
type series struct {
	Difference // still to be judged
	x, y       []float64
}

// judged is the difference over the first pairs, at the levels of a rule. Its verdict is final for a metric that is
// in no family; its reason is still to come.
func (c *Comparison) judged(s series, seeds []uint64, r rule) Difference {
	d, n := s.Difference, len(seeds)
	d.pairs = d.pairs[:min(n, len(d.pairs))]
	d.judge(s.x[:n], s.y[:n], r)
	d.Noise = c.noise(d, seeds, c.Plan.sequential())
	if d.Inference != nil && d.Margin > 0 {
		d.settle(r)
	}
	d.heed(r)
	return d
}

// followPlan goes through the looks of the plan in order, until one decides the primary metric, and returns the rule that
// the verdicts are reached by, with the number of pairs. What comes after that look changes nothing.
func (c *Comparison) followPlan(p *Pairing, primary *series, seconds float64) (rule, int) {
	n := len(p.Seeds)
	if !c.Plan.sequential() {
		r := fixedRule(n, c.Alpha)
		r.pairSeconds = seconds
		return r, n
	}
	n = consecutive(p.Seeds)
	l, some := c.Plan.For(n)
	r := rule{Look: l, alpha: c.Alpha, plan: &c.Plan.Plan, ahead: !some, pairSeconds: seconds}
	if !some {
		return r, n
	}
	for _, l := range c.Plan.Looks {
		if l.Pairs > n || primary == nil {
			break
		}
		r.Look = l
		d := c.judged(*primary, p.Seeds[:l.Pairs], r)
		p.Looks = append(p.Looks, looked(d, l))
		if d.Verdict != Inconclusive {
			r.ended = true
			break
		}
	}
	return r, r.Pairs
}

func looked(d Difference, l statistics.Look) Looked {
	s := Looked{Look: l, Difference: d.Difference, Verdict: d.Verdict}
	if d.Inference != nil {
		s.EquivalenceInterval = &d.Inference.EquivalenceInterval
		if l.Difference > 0 {
			s.Interval = &d.Inference.Interval
		}
	}
	return s
}

// consecutive is how many seeds follow each other from the first on. A sequential plan judges no others: to leave one
// out would select.
func consecutive(seeds []uint64) int {
	for i := range seeds {
		if seeds[i] != seeds[0]+uint64(i) {
			return i
		}
	}
	return len(seeds)
}

// noteUnjudged tells which pairs a sequential plan leaves out.
func (c *Comparison) noteUnjudged(p *Pairing) {
	n := consecutive(p.Seeds)
	if !c.Plan.sequential() || n == len(p.Seeds) {
		return
	}
	c.Notes = append(c.Notes, fmt.Sprintf("%s against %s: seed %d is missing; a sequential plan takes seeds in their order, and does not "+
		"judge the %d %s after it", p.Arm, p.Baseline, p.Seeds[0]+uint64(n), len(p.Seeds)-n, spelling.Plural(len(p.Seeds)-n, "pair")))
}

// notePlans tells when runs were made under several plans.
func (c *Comparison) notePlans(runs []*results.Run) {
	var plans []string
	for _, r := range runs {
		if p := r.Recipe.Verdict.Plan; p.Kind != "" && !slices.Contains(plans, p.String()) {
			plans = append(plans, p.String())
		}
	}
	if len(plans) > 1 {
		c.Notes = append(c.Notes, fmt.Sprintf("the runs were made under several plans (%s); the first one judges them",
			strings.Join(plans, "; ")))
	}
}
