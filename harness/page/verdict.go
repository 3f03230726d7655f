package page

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"harness.invalid/core/recipe"
	"harness.invalid/harness/report"
	"harness.invalid/results"
	"harness.invalid/results/verdict"
)

// answer is the sentence about one arm compared with the first.
type answer struct {
	Sentence string
	Class    string // of its colour
}

// mostAnswers is how many sentences stand at the head of a page. Where there are more arms, the picture comes first.
const mostAnswers = 2

// answersOf are the sentences of all comparisons, and one that counts their verdicts if they are more than mostAnswers.
func answersOf(c *verdict.Comparison) (count string, all []answer) {
	counts := map[string]int{}
	var order []string
	for _, p := range c.Comparisons {
		a := answer{Sentence: p.Sentence, Class: "doubt"}
		text := "without a verdict"
		for _, d := range p.Metrics {
			if d.Primary && d.Verdict != "" && d.Baseline.N > 0 {
				text, a.Class = verdictText(d)
			}
		}
		if counts[text]++; counts[text] == 1 {
			order = append(order, text)
		}
		all = append(all, a)
	}
	if len(all) <= mostAnswers {
		return "", all
	}
	for i, text := range order {
		order[i] = fmt.Sprintf("%d %s", counts[text], text)
	}
	count = fmt.Sprintf("%d arms against %s", len(all), c.NameOf(c.Arms[0]))
	if c.Primary != "" {
		phase, metric := splitMetric(c.Primary)
		count += " in " + strings.TrimSpace(phase+" "+verdict.WordsOf(metric).Name)
	}
	return count + ": " + strings.Join(order, ", ") + ".", all
}

// picture shows a metric with a margin: where the difference of each arm lies on a line that has the margins at -1 and 1.
type picture struct {
	Metric              string
	Baseline            string
	Left, Right         string // what the margins are
	LeftSays, RightSays string // which side is better
	Rows                []strip
}

// strip is the line of an arm.
type strip struct {
	Arm            string
	Verdict, Class string
	Difference     string // with its interval, in words
	Reason         string
	// In percent of the picture's width. Low and Width are of the interval, cut off if it is open.
	At, Low, Width    string
	HasPoint, HasBand bool
	OpenLow, OpenHigh bool
	Off               string // class of a point beyond the picture
}

// stripRange is how many margins a strip shows on each side of 0.
const stripRange = 2.5

// pictures has one for each metric with a margin, the primary one first.
func pictures(c *verdict.Comparison) []picture {
	type key struct{ phase, metric string }
	var keys []key
	for _, p := range c.Comparisons {
		for _, d := range p.Metrics {
			k := key{d.Phase, d.Metric}
			switch {
			case d.Verdict == "" || slices.Contains(keys, k):
			case d.Primary:
				keys = slices.Insert(keys, 0, k)
			default:
				keys = append(keys, k)
			}
		}
	}
	var all []picture
	for _, k := range keys {
		pic := picture{Metric: strings.TrimSpace(k.phase + " " + report.Label(k.metric)), Baseline: c.Arms[0].Arm.String(),
			LeftSays: "better", RightSays: "worse"}
		if higher(k.metric) {
			pic.LeftSays, pic.RightSays = pic.RightSays, pic.LeftSays
		}
		for _, p := range c.Comparisons {
			if d, ok := p.Metric(k.phase, k.metric); ok && d.Verdict != "" {
				pic.Left, pic.Right = fmt.Sprintf("-%g", d.Margin), fmt.Sprintf("+%g", d.Margin)
				pic.Rows = append(pic.Rows, newStrip(p.Arm, d))
			}
		}
		all = append(all, pic)
	}
	return all
}

// verdictText is a decision in words, and the class of its colour.
func verdictText(d verdict.Difference) (text, class string) {
	switch d.Verdict {
	case verdict.Equivalent:
		return string(d.Verdict), "good"
	case verdict.Different:
		if d.Direction == verdict.Better {
			return string(d.Verdict) + ", " + d.Direction, "good"
		}
		return string(d.Verdict) + ", " + d.Direction, "bad"
	}
	return string(d.Verdict), "doubt"
}

func newStrip(arm results.Arm, d verdict.Difference) strip {
	s := strip{Arm: arm.String()}
	if !d.Primary && d.Verdict != verdict.Equivalent {
		s.Reason = d.Reason // the sentence has that of the primary metric
	}
	s.Verdict, s.Class = verdictText(d)
	if d.Baseline.N == 0 {
		s.Verdict, s.Difference, s.Reason = "NO VERDICT YET", "no seed is complete in both arms", ""
		return s
	}
	place := func(v float64) (percent float64, off bool) {
		x := v / d.Margin
		off = x < -stripRange || x > stripRange
		return 50 + 50*max(-stripRange, min(stripRange, x))/stripRange, off
	}
	diff := float64(d.Difference)
	if d.Margin <= 0 || math.IsNaN(diff) || math.IsInf(diff, 0) {
		s.Difference = "no difference: a value is not finite"
		return s
	}
	number := func(v results.Number) string { return signed(float64(v), verdict.WordsOf(d.Metric).Digits) }
	at, off := place(diff)
	s.At, s.HasPoint, s.Difference = percent(at), true, number(d.Difference)
	switch {
	case off && diff < 0:
		s.Off = " off low"
	case off:
		s.Off = " off"
	}
	if inf := d.Inference; inf != nil {
		i := inf.EquivalenceInterval
		low, offLow := place(float64(i.Low))
		high, offHigh := place(float64(i.High))
		s.Low, s.Width, s.HasBand, s.OpenLow, s.OpenHigh = percent(low), percent(high-low), true, offLow, offHigh
		s.Difference += fmt.Sprintf(", %.3g%% interval %s to %s", 100*i.Level, number(i.Low), number(i.High))
	}
	return s
}

// Reasons reports whether there is room for a reason beside each arm; the table has them all.
func (p picture) Reasons() bool { return len(p.Rows) <= mostAnswers }

func percent(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

// signed formats a difference with its sign; one that rounds to 0 has none.
func signed(v float64, digits int) string {
	text := strconv.FormatFloat(v, 'f', digits, 64)
	if zero := strconv.FormatFloat(0, 'f', digits, 64); text == "-"+zero || text == zero {
		return zero
	}
	if v > 0 {
		return "+" + text
	}
	return text
}

// splitMetric cuts PHASE.NAME.
func splitMetric(metric string) (phase, name string) {
	if i := strings.LastIndex(metric, "."); i >= 0 {
		return metric[:i], metric[i+1:]
	}
	return "", metric
}

// higher reports whether more of a metric is better.
func higher(metric string) bool {
	m, _ := recipe.MetricNamed(metric)
	return m.Higher
}
