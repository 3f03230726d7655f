package verdict

import (
	"fmt"
	"slices"
	"strings"

	"harness.invalid/core/spelling"
	"harness.invalid/results"
	"harness.invalid/results/statistics"
)

// sentence is the answer of a pairing in words: what was compared, the verdict on the primary metric, the difference
// with its interval and the margin, seeds and minutes; then other metrics that differ or have no verdict.
func (c *Comparison) sentence(p *Pairing) string {
	head := fmt.Sprintf("%s against %s, %s: ", c.nameOf(p.Arm), c.nameOf(p.Baseline), c.Recipe)
	i := slices.IndexFunc(p.Metrics, func(d Difference) bool { return d.Primary })
	if i < 0 || p.Metrics[i].Verdict == "" {
		return head + "no verdict, since the recipe names no primary metric with a margin" + c.others(p, "; ") + "."
	}
	d := &p.Metrics[i]
	if d.Baseline.N == 0 && c.unfinished(p) {
		return head + "no verdict yet, since no seed is complete in both arms."
	}
	cost := spelling.Count(d.Baseline.N, "seed") + d.minutes()
	text := head + c.headline(d)
	switch {
	case d.Baseline.N == 0:
		return text + ": " + d.Reason + "."
	case d.Withheld != nil && d.Withheld.Guard == Collapsed:
		text += fmt.Sprintf(", since %s; %s, %s", d.Reason, d.estimate(&d.Inference.EquivalenceInterval), cost)
	case d.Withheld != nil:
		text += fmt.Sprintf(", since %s; %s", d.Reason, cost)
	case d.Inference == nil:
		text += fmt.Sprintf(": %s, %s; %s", d.estimate(nil), cost, d.Reason)
	case d.Verdict == Equivalent:
		text += fmt.Sprintf(": %s, %s; no run of %d collapsed: rate below %.2g%% at %g%%", d.estimate(&d.Inference.EquivalenceInterval),
			cost, d.Baseline.N, 100*d.CollapseRateBelow, 100*(1-c.Alpha))
	case d.Verdict == Different:
		text += fmt.Sprintf(": %s, %s", d.estimate(&d.Inference.Interval), cost)
		if len(d.Collapses) > 0 {
			text += "; " + d.collapseText()
		}
	default:
		text += fmt.Sprintf(": %s, %s; equivalent within a margin of %s", d.estimate(&d.Inference.EquivalenceInterval), cost,
			WordsOf(d.Metric).number(float64(d.SmallestMargin)))
		if d.prospect != "" {
			text += "; " + d.prospect
		}
	}
	but := "; but "
	if d.Verdict == Different {
		but = "; and "
	}
	return text + c.others(p, but) + "."
}

// unfinished reports whether a run of either arm may still come to its end.
func (c *Comparison) unfinished(p *Pairing) bool {
	return slices.ContainsFunc(c.Runs, func(r RunSummary) bool {
		return (r.Arm == p.Arm || r.Arm == p.Baseline) && (r.Status == results.Unfinished || r.Status == results.Stopped)
	})
}

// headline is the verdict and the metric, such as "DIFFERENT in F1, worse". It names the phase if others measure the same.
func (c *Comparison) headline(d *Difference) string {
	text := string(d.Verdict) + " in " + WordsOf(d.Metric).Name
	if slices.ContainsFunc(c.Phases, func(p MeasuredPhase) bool { return p.Name != d.Phase && slices.Contains(p.Metrics, d.Metric) }) {
		text += " of " + d.Phase
	}
	if d.Direction != "" {
		text += ", " + d.Direction
	}
	return text
}

// estimate is the difference with an interval, unless that is nil, and the margin.
func (d *Difference) estimate(i *statistics.Interval) string {
	w := WordsOf(d.Metric)
	if lost(float64(d.Difference)) {
		return fmt.Sprintf("margin %g", d.Margin)
	}
	if i != nil {
		w = w.resolving(float64(i.High - i.Low))
	}
	text := w.signed(float64(d.Difference)) + " ("
	if i != nil {
		text += fmt.Sprintf("%.3g%% interval %s to %s, ", 100*i.Level, w.number(float64(i.Low)), w.number(float64(i.High)))
	}
	return text + fmt.Sprintf("margin %g)", d.Margin)
}

// others tells which other metrics differ, and on which there is no verdict because nothing was learned.
func (c *Comparison) others(p *Pairing, but string) string {
	var differ, nothing []string
	for i := range p.Metrics {
		d := &p.Metrics[i]
		name := WordsOf(d.Metric).Name + " of " + d.Phase
		switch {
		case d.Primary:
		case d.Verdict == Different && d.Inference != nil:
			differ = append(differ, fmt.Sprintf("%s is %s, %s: %s", name, d.Verdict, d.Direction, d.estimate(&d.Inference.Interval)))
		case d.Verdict == Different:
			differ = append(differ, fmt.Sprintf("%s is %s, %s: %s", name, d.Verdict, d.Direction, d.Reason))
		case d.Withheld != nil && d.Withheld.Guard != TargetMissed:
			nothing = append(nothing, fmt.Sprintf("no verdict on %s: %s", name, d.Withheld.Guard))
		}
	}
	text := ""
	if len(differ) > 0 {
		text = but + strings.Join(differ, ", and ")
	}
	if len(nothing) > 0 {
		text += "; " + strings.Join(nothing, ", ")
	}
	return text
}

// nameOf is NameOf by arm.
func (c *Comparison) nameOf(a results.Arm) string {
	i := slices.IndexFunc(c.Arms, func(s ArmSummary) bool { return s.Arm == a })
	return c.NameOf(c.Arms[i])
}

// minutes are those of the paired runs, measured, one after the other, or seconds if it is less; "" where none were.
func (d *Difference) minutes() string {
	seconds := 0.0
	for _, pair := range d.pairs {
		for _, r := range pair {
			seconds += r.MeasuredSeconds[results.TotalSeconds]
		}
	}
	if seconds == 0 {
		return ""
	}
	if seconds < 60 {
		return fmt.Sprintf(", %.1f seconds", seconds)
	}
	return fmt.Sprintf(", %.1f minutes", seconds/60)
}
