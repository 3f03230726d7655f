package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"harness.invalid/results"
	"harness.invalid/results/statistics"
	"harness.invalid/results/verdict"
)

// row is a quantity of all arms.
type row struct {
	phase    string // "": of the run as a whole
	quantity string // name in CSV
	label    string // in tables
	cells    []cell // by arm
}

// cell is the quantity of one arm.
type cell struct {
	text   string             // in tables; "": the arm has no such quantity
	sample *statistics.Sample // nil: the quantity is not a number
	// Compared with the first arm:
	difference string              // in tables
	change     *float64            // of the means; nil: not known
	paired     *verdict.Difference // statistics, where there are any
}

// Label names a metric for people, with its unit.
func Label(metric string) string {
	w := verdict.WordsOf(metric)
	if w.Unit != "" {
		return w.Name + ", " + w.Unit
	}
	return w.Name
}

// table collects the rows of a comparison.
type table struct {
	*verdict.Comparison
	runs        [][]verdict.RunSummary // complete ones, by arm
	anyModelled bool                   // modelled figures that were never checked, too
	rows        []row
}

func newTable(c *verdict.Comparison, o Options) *table {
	t := &table{Comparison: c, anyModelled: o.Modelled}
	for _, a := range c.Arms {
		t.runs = append(t.runs, c.RunsOf(a.Arm))
	}
	t.words("format", func(i int) string { return t.Arms[i].Precision })
	t.words("optimizer", func(i int) string { return t.Arms[i].Optimizer })
	t.words("runs", func(i int) string {
		all, noise := 0, 0
		for _, r := range c.Runs {
			switch {
			case r.Arm != c.Arms[i].Arm:
			case c.InNoise(r.Arm, r.Seed):
				noise++
			default:
				all++
			}
		}
		text := strconv.Itoa(all)
		if done := len(t.runs[i]); done < all {
			text = fmt.Sprintf("%d of %d complete", done, all)
		}
		if noise > 0 {
			text += fmt.Sprintf(" (and %d A/A)", noise)
		}
		return text
	})
	for _, p := range c.Phases {
		for _, metric := range p.Metrics {
			t.metric(p.Name, metric)
		}
		t.speed(p.Name)
		t.target(p.Name)
	}
	t.count("", "steps", "steps", func(r verdict.RunSummary) (float64, bool) { return float64(r.Steps), true })
	t.count("", "skipped_steps", "skipped steps", func(r verdict.RunSummary) (float64, bool) { return float64(r.Skipped), true })
	t.times("", "measured_seconds", "measured seconds", func(r verdict.RunSummary) (float64, bool) {
		s, ok := r.MeasuredSeconds[results.TotalSeconds]
		return s, ok
	})
	t.fullSize()
	return t
}

// add appends a row, unless it is empty for all arms.
func (t *table) add(r row) {
	if slices.ContainsFunc(r.cells, func(c cell) bool { return c.text != "" }) {
		t.rows = append(t.rows, r)
	}
}

// words adds a row of text.
func (t *table) words(quantity string, text func(arm int) string) {
	r := row{quantity: quantity, label: quantity, cells: make([]cell, len(t.Arms))}
	for i := range r.cells {
		r.cells[i].text = text(i)
	}
	t.add(r)
}

// metric adds the row of a phase's metric, with what the comparison says about it.
func (t *table) metric(phase, metric string) {
	digits := verdict.WordsOf(metric).Digits
	r := row{phase: phase, quantity: metric, label: Label(metric), cells: make([]cell, len(t.Arms))}
	for i, a := range t.Arms {
		c := &r.cells[i]
		if s, ok := a.Metrics[phase+"."+metric]; ok {
			c.sample, c.text = &s, show(s, digits)
		}
		if i == 0 {
			continue
		}
		d, ok := t.Comparisons[i-1].Metric(phase, metric)
		if !ok || d.Arm.N == 0 || math.IsNaN(float64(d.Difference)) && d.Verdict == "" {
			continue
		}
		change := float64(d.Difference)
		c.paired, c.change, c.difference = &d, &change, signed(change, digits)
	}
	t.add(r)
}

// measure takes a quantity from the complete runs of each arm.
func (t *table) measure(of func(verdict.RunSummary) (float64, bool)) []cell {
	cells := make([]cell, len(t.Arms))
	for i, runs := range t.runs {
		var values []float64
		for _, r := range runs {
			if v, ok := of(r); ok {
				values = append(values, v)
			}
		}
		if len(values) == 0 {
			continue
		}
		s := statistics.NewSample(values)
		cells[i].sample = &s
		if first := cells[0].sample; i > 0 && first != nil {
			change := float64(s.Mean - first.Mean)
			cells[i].change = &change
		}
	}
	return cells
}

// count adds a row of whole numbers.
func (t *table) count(phase, quantity, label string, of func(verdict.RunSummary) (float64, bool)) {
	r := row{phase, quantity, label, t.measure(of)}
	for i := range r.cells {
		c := &r.cells[i]
		if c.sample == nil {
			continue
		}
		digits := 0
		if c.sample.Mean != results.Number(math.Trunc(float64(c.sample.Mean))) {
			digits = 1
		}
		c.text = show(*c.sample, digits)
		if c.sample.SD != nil && *c.sample.SD == 0 {
			c.text = decimal(float64(c.sample.Mean), digits) // the same in all runs, as counts often are
		}
		if c.change != nil {
			c.difference = signed(*c.change, digits)
		}
	}
	t.add(r)
}

// times adds a row of times or rates. Their difference is a ratio.
func (t *table) times(phase, quantity, label string, of func(verdict.RunSummary) (float64, bool)) {
	r := row{phase, quantity, label, t.measure(of)}
	for i := range r.cells {
		c := &r.cells[i]
		if c.sample == nil {
			continue
		}
		digits := 1
		if c.sample.Mean >= 1000 {
			digits = 0
		}
		c.text = show(*c.sample, digits)
		if c.sample.SD != nil && *c.sample.SD == 0 {
			c.text = decimal(float64(c.sample.Mean), digits)
		}
		if first := r.cells[0].sample; i > 0 && first != nil && first.Mean > 0 {
			c.difference = fmt.Sprintf("x %.2f", float64(c.sample.Mean/first.Mean))
		}
	}
	t.add(r)
}

// speed adds the times and rates of a phase.
func (t *table) speed(phase string) {
	of := func(f func(p results.PhaseResult) float64) func(verdict.RunSummary) (float64, bool) {
		return func(r verdict.RunSummary) (float64, bool) {
			p, ok := r.Phase(phase)
			return f(p), ok
		}
	}
	t.count(phase, "skipped_steps", "skipped steps", of(func(p results.PhaseResult) float64 { return float64(p.Skipped) }))
	t.times(phase, "measured_sequences_per_second", "measured sequences/s", of(results.PhaseResult.SequencesPerSecond))
	t.times(phase, "measured_seconds", "measured seconds",
		of(func(p results.PhaseResult) float64 { return p.MeasuredSeconds[results.TotalSeconds] }))
	t.modelled(phase, "modelled_sequences_per_second", "modelled sequences/s",
		func(p results.PhaseResult) float64 { return float64(p.Sequences) / p.ModelledSeconds })
	t.modelled(phase, "modelled_seconds", "modelled seconds", func(p results.PhaseResult) float64 { return p.ModelledSeconds })
}

// target adds steps and time to the target of a phase, if it has one. Both count training alone.
func (t *table) target(phase string) {
	var target *results.Reached
	for _, runs := range t.runs {
		for _, r := range runs {
			if p, ok := r.Phase(phase); ok && p.Target != nil {
				target = p.Target
			}
		}
	}
	if target == nil {
		return
	}
	reached := func(value func(results.Reached) float64) func(verdict.RunSummary) (float64, bool) {
		return func(r verdict.RunSummary) (float64, bool) {
			p, ok := r.Phase(phase)
			if !ok || p.Target == nil || p.Target.Step == 0 {
				return 0, false
			}
			return value(*p.Target), true
		}
	}
	to := fmt.Sprintf("to %s %s", verdict.WordsOf(target.Metric).Name, strconv.FormatFloat(target.Value, 'g', -1, 64))
	from := len(t.rows)
	t.count(phase, "steps_to_target", "steps "+to, reached(func(r results.Reached) float64 { return float64(r.Step) }))
	t.times(phase, "measured_seconds_to_target", "measured seconds "+to, reached(func(r results.Reached) float64 { return r.MeasuredSeconds }))
	if from == len(t.rows) {
		// No run got there, which is a result as well.
		t.rows = append(t.rows, row{phase, "steps_to_target", "steps " + to, make([]cell, len(t.Arms))})
	}
	for i := range t.rows[from:] {
		for arm, c := range t.rows[from+i].cells {
			n, all := 0, len(t.runs[arm])
			if c.sample != nil {
				n = c.sample.N
			}
			switch {
			case all > 0 && n == 0:
				c.text = "not reached"
			case n < all:
				c.text += fmt.Sprintf(" (%d of %d)", n, all)
			}
			if first := t.rows[from+i].cells[0].sample; n < all || first == nil || first.N < len(t.runs[0]) {
				c.difference, c.change = "", nil // means over other seeds have no difference
			}
			t.rows[from+i].cells[arm] = c
		}
	}
	t.modelled(phase, "modelled_seconds_to_target", "modelled seconds "+to, func(p results.PhaseResult) float64 {
		if p.Target == nil {
			return 0
		}
		return p.Target.ModelledSeconds
	})
}

// show formats mean ± standard deviation.
func show(s statistics.Sample, digits int) string {
	text := decimal(float64(s.Mean), digits)
	if s.SD != nil && !math.IsNaN(float64(*s.SD)) {
		text += " ± " + decimal(float64(*s.SD), digits)
	}
	return text
}

func decimal(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }

// signed formats a difference with its sign; a difference that rounds to 0 has none.
func signed(v float64, digits int) string {
	text := decimal(v, digits)
	if zero := decimal(0, digits); text == "-"+zero || text == zero {
		return zero
	}
	if v > 0 {
		return "+" + text
	}
	return text
}

// verdictText is a verdict as a cell of a table.
func verdictText(d *verdict.Difference) string {
	switch {
	case d == nil:
		return ""
	case d.Verdict == verdict.Different:
		return string(d.Verdict) + ", " + d.Direction
	}
	return string(d.Verdict)
}

// FullName names a metric and its phase, in words.
func FullName(phase, metric string) string { return phase + " " + verdict.WordsOf(metric).Name }
