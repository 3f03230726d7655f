package page

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"harness.invalid/results"
	"harness.invalid/results/verdict"
)

// phaseTimes says where the time of a phase went, arm by arm.
type phaseTimes struct {
	Phase string
	Parts []part // all that any arm has, in the order of a step; names and colours alone
	Arms  []armTimes
}

// armTimes is the mean over the complete runs of an arm.
type armTimes struct {
	Arm   string
	Total string // measured seconds
	Parts []part
}

// part is a share of the time of a phase.
type part struct {
	Name    string
	Class   int // of its colour
	Seconds string
	Share   string // of the phase, %
	Width   string // of the longest arm's phase, %
}

// partOrder is the order within a step, then what is done besides. Parts that a backend names itself come after the
// forward and backward pass.
var partOrder = []string{"data", "forward", "backward", "backend", "optimizer", "commit", "evaluation", "checkpoint", "setup", "other"}

// times lays out the measured seconds of each phase. Parts that a backend reports replace the whole that the host
// saw; what they leave is called backend.
func times(c *verdict.Comparison) []phaseTimes {
	means := make([]map[string]map[string]float64, len(c.Arms)) // by arm, phase and part
	var names []string
	for i, a := range c.Arms {
		means[i] = map[string]map[string]float64{}
		runs := c.RunsOf(a.Arm)
		for _, r := range runs {
			for _, p := range r.Phases {
				sum := means[i][p.Name]
				if sum == nil {
					sum = map[string]float64{}
					means[i][p.Name] = sum
				}
				for name, s := range split(p.MeasuredSeconds) {
					sum[name] += s / float64(len(runs))
					if !slices.Contains(names, name) {
						names = append(names, name)
					}
				}
			}
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a, b)) })
	var all []phaseTimes
	for _, phase := range c.Phases {
		t := phaseTimes{Phase: phase.Name}
		longest := 0.0
		for i := range c.Arms {
			longest = max(longest, total(means[i][phase.Name]))
		}
		if longest == 0 {
			continue
		}
		for class, name := range names {
			if slices.ContainsFunc(means, func(m map[string]map[string]float64) bool { _, ok := m[phase.Name][name]; return ok }) {
				t.Parts = append(t.Parts, part{Name: name, Class: class})
			}
		}
		for i, a := range c.Arms {
			sum := means[i][phase.Name]
			if len(sum) == 0 {
				continue
			}
			whole := total(sum)
			arm := armTimes{Arm: a.Arm.String(), Total: strconv.FormatFloat(whole, 'f', 1, 64)}
			for class, name := range names {
				if s, ok := sum[name]; ok {
					arm.Parts = append(arm.Parts, part{name, class, strconv.FormatFloat(s, 'f', digits(s), 64), fmt.Sprintf("%.1f", 100*s/whole),
						percent(100 * s / longest)})
				}
			}
			t.Arms = append(t.Arms, arm)
		}
		all = append(all, t)
	}
	return all
}

// place orders the parts.
func place(name string) int {
	if i := slices.Index(partOrder, name); i >= 0 {
		return 2 * i
	}
	return 2*slices.Index(partOrder, "backward") + 1
}

// total adds up in a fixed order, so that the same runs give the same page.
func total(parts map[string]float64) float64 {
	sum := 0.0
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		sum += parts[name]
	}
	return sum
}

// digits is the number of decimals to show for a time in seconds.
func digits(s float64) int {
	if s < 10 {
		return 2
	}
	return 1
}

// split cuts the time of a phase into parts that add up to its total.
func split(measured map[string]float64) map[string]float64 {
	parts := map[string]float64{}
	told := 0.0
	for _, name := range slices.Sorted(maps.Keys(measured)) {
		s := measured[name]
		inner, ok := strings.CutPrefix(name, "backend.")
		switch {
		case ok:
			if inner == "data" {
				inner = "data in the backend"
			}
			parts[inner] += s
			told += s
		case name == "backend":
			parts[name] += s
		case name != results.TotalSeconds && name != results.TrainingSeconds:
			parts[name] += s
		}
	}
	if rest := parts["backend"] - told; told > 0 && rest > 0.001*parts["backend"] {
		parts["backend"] = rest // neither of its parts
	} else if told > 0 {
		delete(parts, "backend")
	}
	if rest := measured[results.TotalSeconds] - total(parts); rest > 0.001*measured[results.TotalSeconds] {
		parts["other"] = rest
	}
	return parts
}

// Of finds a part of an arm; nil: it has none.
func (a armTimes) Of(name string) *part {
	if i := slices.IndexFunc(a.Parts, func(p part) bool { return p.Name == name }); i >= 0 {
		return &a.Parts[i]
	}
	return nil
}
