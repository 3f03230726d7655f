package regression

import (
	"fmt"
	"maps"
	"slices"

	"harness.invalid/core/recipe"
	"harness.invalid/results"
)

// sampled adds the facts that are tested over seeds.
func (b *Baseline) sampled(c *Check, a BaselineArm, now []*BaselineRun, machine Machine, same bool) {
	tested := func(f Fact) { c.Facts = append(c.Facts, f) }
	if was, is := a.Runs[0], now[0]; was.Start != is.Start {
		c.note("the runs start from model %.12s, trained on kernels %s, and the baseline from %.12s on %s: changes include what the models "+
			"differ in", is.Start, is.Kernels, was.Start, was.Kernels)
		tested = func(f Fact) {
			if f.Standing == Regressed {
				f.Standing, f.Reason = Undecided, f.Reason+"; but the runs start from another model than the baseline"
			}
			c.Facts = append(c.Facts, f)
		}
	}
	for i, p := range a.Runs[0].Phases {
		of := func(value func(BaselinePhase) (float64, bool)) (was, is map[uint64]float64) {
			was, is = map[uint64]float64{}, map[uint64]float64{}
			for _, r := range a.Runs {
				if i < len(r.Phases) {
					if v, ok := value(r.Phases[i]); ok {
						was[r.Seed] = v
					}
				}
			}
			for _, r := range now {
				if i < len(r.Phases) {
					if v, ok := value(r.Phases[i]); ok {
						is[r.Seed] = v
					}
				}
			}
			return was, is
		}
		for _, name := range slices.Sorted(maps.Keys(p.Metrics)) {
			full := p.Name + "." + name
			tolerance, ok := b.Tolerances.Metrics[full]
			if !ok {
				continue
			}
			m, _ := recipe.MetricNamed(name)
			was, is := of(func(p BaselinePhase) (float64, bool) { v, ok := p.Metrics[name]; return v, ok })
			tested(test(a.String()+" "+full, was, is, question{tolerance: tolerance, higher: m.Higher, alpha: b.Alpha, same: same}))
		}
		number := func(get func(BaselinePhase) *results.Number) func(BaselinePhase) (float64, bool) {
			return func(p BaselinePhase) (float64, bool) {
				v := get(p)
				if v == nil {
					return 0, false
				}
				return float64(*v), true
			}
		}
		if p.StepsToTarget != nil {
			was, is := of(number(func(p BaselinePhase) *results.Number { return p.StepsToTarget }))
			tested(test(a.String()+" "+p.Name+".steps_to_target", was, is,
				question{tolerance: b.Tolerances.StepsToTarget, relative: true, alpha: b.Alpha, same: same}))
		}
		if p.FastestStepSeconds == nil {
			reason := "the baseline holds no times"
			if p.MedianStepSeconds != nil {
				reason = "the baseline holds medians of steps, as earlier versions saved them, not the fastest step"
				c.note("times are not compared: the baseline was saved by an earlier version, which kept another statistic of them; " +
					"save it again from its runs")
			}
			c.Facts = append(c.Facts, Fact{Name: a.String() + " " + p.Name + ".step_seconds", Standing: NotCompared, Reason: reason})
			continue
		}
		was, is := of(number(func(p BaselinePhase) *results.Number { return p.FastestStepSeconds }))
		f := b.times(a, p.Name, now, machine, was, is)
		if f.Standing == NotCompared && f.Change != nil {
			c.note("%s: %s", a, f.Reason)
		}
		c.Facts = append(c.Facts, f)
	}
}

// times is the fact about the fastest steps of a phase, in seconds by seed.
func (b *Baseline) times(a BaselineArm, phase string, now []*BaselineRun, machine Machine, was, is map[uint64]float64) Fact {
	f := Fact{Name: a.String() + " " + phase + ".step_seconds", Standing: NotCompared}
	switch {
	case machine != b.Machine:
		f.Reason = fmt.Sprintf("times were measured on %s with %d threads, and this is %s with %d", b.Machine.CPU, b.Machine.Threads,
			machine.CPU, machine.Threads)
	case now[0].Kernels != a.Runs[0].Kernels:
		f.Reason = fmt.Sprintf("times were measured on kernels %s, and these are %s", a.Runs[0].Kernels, now[0].Kernels)
	default:
		f = test(f.Name, was, is, question{tolerance: b.Tolerances.StepSeconds, relative: true, alpha: b.Alpha, ranks: true})
	}
	return f
}
