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

// statisticsSheets lays out what verdicts rest on, for a reader who doubts them. For each comparison with several
// seeds it has the intervals and tests of the metrics with a margin, then the way there, then measured times.
// Metrics that do not fit the width go into tables of their own; 0 means any width.
func statisticsSheets(c *verdict.Comparison, width int) []*Sheet {
	var all []*Sheet
	for i := range c.Comparisons {
		p := &c.Comparisons[i]
		var judged []verdict.Difference
		for _, d := range p.Metrics {
			if d.Verdict != "" && d.Inference != nil {
				judged = append(judged, d)
			}
		}
		if len(judged) == 0 {
			continue // one seed, or nothing is judged
		}
		slices.SortStableFunc(judged, primaryFirst)
		for len(judged) > 0 {
			n := len(judged)
			for width > 0 && n > 1 && testsSheet(c, p, judged[:n]).naturalWidth() > width {
				n--
			}
			all, judged = append(all, testsSheet(c, p, judged[:n])), judged[n:]
		}
		for _, s := range []*Sheet{waySheet(p), timesSheet(c, p)} {
			if len(s.Rows) > 0 {
				all = append(all, s)
			}
		}
	}
	return all
}

func (s *Sheet) naturalWidth() int {
	natural, _ := s.natural(words)
	return total(natural)
}

// testsSheet has a column for each metric and a row for each statistic.
func testsSheet(c *verdict.Comparison, p *verdict.Pairing, metrics []verdict.Difference) *Sheet {
	s := &Sheet{Caption: fmt.Sprintf("%s against %s, %d pairs: the tests", p.Arm, p.Baseline, metrics[0].Baseline.N), Columns: []Column{{}}}
	for _, d := range metrics {
		s.Columns = append(s.Columns, Column{Name: FullName(d.Phase, d.Metric), Right: true})
	}
	t := tests{s, c, metrics}
	t.arm(p.Baseline, func(d *verdict.Difference) statistics.Sample { return d.Baseline })
	t.arm(p.Arm, func(d *verdict.Difference) statistics.Sample { return d.Arm })
	t.difference()
	t.noise()
	t.pValues()
	return s
}

// tests fills a sheet of tests.
type tests struct {
	sheet   *Sheet
	c       *verdict.Comparison
	metrics []verdict.Difference
}

// add appends a row with a text for each metric, unless all texts are empty.
func (t tests) add(label string, text func(d *verdict.Difference, digits int) string) {
	row, some := Row{{Text: label}}, false
	for i := range t.metrics {
		v := text(&t.metrics[i], verdict.WordsOf(t.metrics[i].Metric).Digits)
		some = some || v != ""
		if v == "" {
			v = "-"
		}
		row = append(row, Cell{Text: v})
	}
	if some {
		t.sheet.Rows = append(t.sheet.Rows, row)
	}
}

// arm adds mean and intervals of an arm over all its complete runs, as the mean in the main table is; those of the
// pairs alone if the arm has none.
func (t tests) arm(a results.Arm, ofPairs func(*verdict.Difference) statistics.Sample) {
	sample := func(d *verdict.Difference) statistics.Sample {
		i := slices.IndexFunc(t.c.Arms, func(s verdict.ArmSummary) bool { return s.Arm == a })
		if i >= 0 {
			if s, ok := t.c.Arms[i].Metrics[d.Phase+"."+d.Metric]; ok {
				return s
			}
		}
		return ofPairs(d)
	}
	level := levelText(1 - t.c.Alpha)
	t.add(a.String(), func(d *verdict.Difference, digits int) string { return show(sample(d), digits) })
	t.add("  "+level+" t interval", func(d *verdict.Difference, digits int) string {
		return rangeText(sample(d).Interval, digits, decimal)
	})
	t.add("  "+level+" BCa interval", func(d *verdict.Difference, digits int) string {
		return rangeText(sample(d).BootstrapInterval, digits, decimal)
	})
}

// difference adds the difference with its intervals, and the margin.
func (t tests) difference() {
	level := levelText(t.metrics[0].Inference.Interval.Level) // of one look for all metrics
	t.add("difference", func(d *verdict.Difference, digits int) string {
		return signed(float64(d.Difference), digits) + " ± " + decimal(float64(d.Inference.SD), digits)
	})
	t.add("  "+level+" t interval", func(d *verdict.Difference, digits int) string {
		return intervalText(&d.Inference.Interval, digits)
	})
	t.add("  "+level+" BCa interval", func(d *verdict.Difference, digits int) string {
		return intervalText(d.Inference.BootstrapInterval, digits)
	})
	t.add("  "+level+" Multi-Bootstrap", func(d *verdict.Difference, digits int) string {
		if d.MultiBootstrap == nil {
			return ""
		}
		return intervalText(&d.MultiBootstrap.Interval, digits)
	})
	t.add("  "+levelText(t.metrics[0].Inference.EquivalenceInterval.Level)+" t interval", func(d *verdict.Difference, digits int) string {
		return intervalText(&d.Inference.EquivalenceInterval, digits)
	})
	t.add("margin", func(d *verdict.Difference, _ int) string { return strconv.FormatFloat(d.Margin, 'g', -1, 64) })
}

// noise adds the A/A comparison, if there is one.
func (t tests) noise() {
	t.add("A/A difference", func(d *verdict.Difference, digits int) string {
		if d.Noise == nil {
			return ""
		}
		return signed(float64(d.Noise.Difference), digits)
	})
	t.add("A/A noise floor", func(d *verdict.Difference, digits int) string {
		if d.Noise == nil {
			return ""
		}
		return decimal(float64(d.Noise.Floor), digits)
	})
}

func (t tests) pValues() {
	t.add("p, equivalence (TOST)", func(d *verdict.Difference, _ int) string { return pText(*d.Inference.PEquivalence) })
	t.add("p, difference (paired t)", func(d *verdict.Difference, _ int) string { return pText(d.Inference.PDifference) })
	t.add("p, difference (sign flips)", func(d *verdict.Difference, _ int) string { return pText(d.Inference.PPermutation) })
	t.add("p, difference (Multi-Bootstrap)", func(d *verdict.Difference, _ int) string {
		if d.MultiBootstrap == nil {
			return ""
		}
		return pText(d.MultiBootstrap.P)
	})
	holm := func(of func(*statistics.Holm) results.Number) func(*verdict.Difference, int) string {
		return func(d *verdict.Difference, _ int) string {
			if d.Inference.Holm == nil {
				return ""
			}
			return pText(of(d.Inference.Holm))
		}
	}
	t.add("p, equivalence, after Holm", holm(func(h *statistics.Holm) results.Number { return h.PEquivalence }))
	t.add("p, difference, after Holm", holm(func(h *statistics.Holm) results.Number { return h.PDifference }))
}

// waySheet compares the way of two arms: the mean distance between their curves, and what it took them to reach the
// target.
func waySheet(p *verdict.Pairing) *Sheet {
	s := &Sheet{Caption: fmt.Sprintf("%s against %s: the way there", p.Arm, p.Baseline), Columns: []Column{{},
		{Name: "pairs", Right: true}, {Name: "difference", Right: true}, {Name: "t interval", Right: true},
		{Name: "BCa interval", Right: true}, {Name: "p, sign flips", Right: true}}}
	add := func(label string, d *statistics.Paired, digits int) {
		inf := d.Inference
		if inf == nil {
			return
		}
		s.Columns[3].Name, s.Columns[4].Name = levelText(inf.Interval.Level)+" t interval", levelText(inf.Interval.Level)+" BCa interval"
		s.Rows = append(s.Rows, Texts("  "+label, strconv.Itoa(d.Arm.N), signed(float64(d.Difference), digits),
			intervalText(&inf.Interval, digits),
			orDash(intervalText(inf.BootstrapInterval, digits)), pText(inf.PPermutation)))
	}
	section := func(name string, rows func()) {
		n := len(s.Rows)
		s.Rows = append(s.Rows, append(Row{{Text: name, Mark: Strong}}, make(Row, len(s.Columns)-1)...))
		if rows(); len(s.Rows) == n+1 {
			s.Rows = s.Rows[:n]
		}
	}
	curves := func(of func(*verdict.CurveDifference) *statistics.Paired) func() {
		return func() {
			for i := range p.Curves {
				k := &p.Curves[i]
				if d, ok := p.Metric(k.Phase, k.Metric); k.Metric == results.TrainingLoss || ok && d.Margin > 0 {
					add(FullName(k.Phase, k.Metric), of(k), verdict.WordsOf(k.Metric).Digits)
				}
			}
		}
	}
	section("mean distance by steps", curves(func(d *verdict.CurveDifference) *statistics.Paired { return &d.AreaBySteps }))
	section("mean distance by seconds", curves(func(d *verdict.CurveDifference) *statistics.Paired { return &d.AreaBySeconds }))
	for i := range p.Targets {
		t := &p.Targets[i]
		section(fmt.Sprintf("to %s %s %s", t.Phase, verdict.WordsOf(t.Metric).Name, strconv.FormatFloat(t.Value, 'g', -1, 64)), func() {
			add("steps", &t.Steps, 1)
			add("measured seconds", &t.Seconds, 1)
		})
	}
	return s
}

// timesSheet compares measured times as benchstat does: the median, the interval between two runs that contains it,
// the noise of the machine.
func timesSheet(c *verdict.Comparison, p *verdict.Pairing) *Sheet {
	s := &Sheet{Caption: fmt.Sprintf("%s against %s: medians of measured times", p.Arm, p.Baseline), Columns: []Column{{},
		{Name: p.Baseline.Backend, Right: true}, {Name: p.Arm.Backend, Right: true}, {Name: "ratio", Right: true},
		{Name: "p, Mann-Whitney", Right: true}}}
	of := func(a results.Arm, phase string) *verdict.PhaseTimes {
		for i := range c.Arms {
			for j := range c.Arms[i].Times {
				if t := &c.Arms[i].Times[j]; c.Arms[i].Arm == a && t.Phase == phase {
					return t
				}
			}
		}
		return nil
	}
	text := func(t *statistics.Times, unit float64) string {
		out := digits3(float64(t.Median) * unit)
		if i := t.Interval; i != nil {
			out += fmt.Sprintf(" (%s to %s)", digits3(float64(i.Low)*unit), digits3(float64(i.High)*unit))
		}
		if t.Spread != nil {
			out += fmt.Sprintf(" ± %.1f%%", 100*float64(*t.Spread))
		}
		return out
	}
	for i := range p.Times {
		d := &p.Times[i]
		a, b := of(p.Baseline, d.Phase), of(p.Arm, d.Phase)
		if a == nil || b == nil || a.Seconds.N < 2 || b.Seconds.N < 2 {
			continue
		}
		s.Rows = append(s.Rows, Texts(d.Phase+" training, s", text(&a.Seconds, 1), text(&b.Seconds, 1),
			fmt.Sprintf("x %.2f", float64(d.Seconds.Ratio)), pText(d.Seconds.P)))
		if d.StepSeconds != nil && a.StepSeconds != nil && b.StepSeconds != nil {
			s.Rows = append(s.Rows, Texts(d.Phase+" step, ms", text(a.StepSeconds, 1000), text(b.StepSeconds, 1000),
				fmt.Sprintf("x %.2f", float64(d.StepSeconds.Ratio)), pText(d.StepSeconds.P)))
		}
	}
	return s
}

// intervalText formats the interval of a difference, such as "-0.31 to +0.42"; "" for none.
func intervalText(i *statistics.Interval, digits int) string { return rangeText(i, digits, signed) }

func rangeText(i *statistics.Interval, digits int, text func(float64, int) string) string {
	if i == nil {
		return ""
	}
	return text(float64(i.Low), digits) + " to " + text(float64(i.High), digits)
}

func levelText(level float64) string { return strconv.FormatFloat(100*level, 'g', 3, 64) + "%" }

// pText formats a probability with two digits.
func pText(p results.Number) string {
	switch v := float64(p); {
	case math.IsNaN(v):
		return "-"
	case v < 1e-4:
		return "< 0.0001"
	default:
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
}

// digits3 formats three digits, and all before the point.
func digits3(v float64) string {
	switch size := math.Abs(v); {
	case size >= 100:
		return decimal(v, 0)
	case size >= 10:
		return decimal(v, 1)
	case size >= 1:
		return decimal(v, 2)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
