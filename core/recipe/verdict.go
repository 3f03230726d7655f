package recipe

import (
	"fmt"
	"maps"
	"slices"
)

// Limits of sequential plans: the error rate that their levels are calibrated for, the number of seeds at the first
// look, and that at the last look of the longest plan. Package statistics has the levels.
const (
	SequentialAlpha = 0.05
	LeastSequential = 6
	MostSequential  = 40
	// DefaultMaxSeeds is the length of a plan where nobody states another one.
	DefaultMaxSeeds = 20
)

func (r *Recipe) settleVerdict() error {
	v := &r.Verdict
	if !(v.Alpha > 0 && v.Alpha < 0.5) {
		return wrong(fmt.Errorf("is %g, want more than 0 and less than 0.5", v.Alpha), "verdict", "alpha")
	}
	for _, name := range slices.Sorted(maps.Keys(v.Margins)) {
		if err := r.measured(name); err != nil {
			return wrong(err, "verdict", "margins", name)
		}
		if m := v.Margins[name]; !(m > 0) {
			return wrong(fmt.Errorf("is %g, want more than 0", m), "verdict", "margins", name)
		}
	}
	if v.Primary != "" {
		if err := r.measured(v.Primary); err != nil {
			return wrong(err, "verdict", "primary")
		}
		if _, ok := v.Margins[v.Primary]; !ok {
			return wrong(fmt.Errorf("is %s, which has no margin", v.Primary), "verdict", "primary")
		}
	}
	return v.settlePlan()
}

// settlePlan chooses the kind of a plan that states none: sequential where it can be.
func (v *Verdict) settlePlan() error {
	p := &v.Plan
	if p.Kind == "" {
		p.Kind = FixedPlan
		if v.Alpha == SequentialAlpha && v.Primary != "" {
			p.Kind = SequentialPlan
		}
	}
	return v.CheckPlan()
}

// CheckPlan returns an error if the plan is not one that the rule can follow.
func (v *Verdict) CheckPlan() error {
	p := v.Plan
	if err := oneOf(p.Kind, planKinds); err != nil {
		return wrong(err, "verdict", "plan", "kind")
	}
	least, most := 1, 1<<20
	if p.Kind == SequentialPlan {
		least, most = LeastSequential, MostSequential
	}
	switch {
	case p.Kind == SequentialPlan && v.Alpha != SequentialAlpha:
		return wrong(fmt.Errorf("is sequential, which keeps to an alpha of %g, and alpha is %g: want fixed", SequentialAlpha, v.Alpha),
			"verdict", "plan", "kind")
	case p.Kind == SequentialPlan && v.Primary == "":
		return wrong(fmt.Errorf("is sequential, which ends when the primary metric is decided, and there is none: want primary, or fixed"),
			"verdict", "plan", "kind")
	case p.MaxSeeds < least || p.MaxSeeds > most:
		return wrong(fmt.Errorf("is %d, want %d to %d in a %s plan", p.MaxSeeds, least, most, p.Kind), "verdict", "plan", "max_seeds")
	}
	return nil
}
