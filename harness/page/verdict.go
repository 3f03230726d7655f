package page

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"harness.invalid/harness/report"
	"harness.invalid/results/verdict"
)

// card is what the page says about one arm compared with the first.
type card struct {
	Sentence      string // verdict.Pairing's
	Arm, Baseline string
	Verdict       string // of the primary metric; "": none
	Class         string // of its colour
	Metric        string // the primary one, in words
	Reason        string
	Seeds         int
	Strips        []strip
}

// strip is a metric with a margin: where the difference lies on a line that has the margins at -1 and 1.
type strip struct {
	Metric, Verdict, Class, Reason string
	Difference                     string
	Primary                        bool // its reason is shown above
	// In percent of the picture's width. Low and High are the ends of the interval, cut off if Open.
	At, Low, Width    string
	HasPoint, HasBand bool
	OpenLow, OpenHigh bool
	Left, Right       string // what the margins are
	LeftSays          string // which side is better
	RightSays         string
}

// stripRange is how many margins a strip shows on each side of 0.
const stripRange = 2.5

// cards puts the comparisons into words and pictures.
func cards(c *verdict.Comparison) []card {
	var all []card
	for _, p := range c.Comparisons {
		k := card{Sentence: p.Sentence, Arm: p.Arm.String(), Baseline: p.Baseline.String(), Verdict: string(p.Verdict), Reason: p.Reason,
			Seeds: len(p.Seeds)}
		for _, d := range p.Metrics {
			if d.Primary {
				k.Metric = d.Phase + " " + report.Label(d.Metric)
				k.Verdict, k.Class = verdictText(d)
			}
			switch {
			case d.Verdict == "":
			case d.Primary:
				k.Strips = slices.Insert(k.Strips, 0, newStrip(d))
			default:
				k.Strips = append(k.Strips, newStrip(d))
			}
		}
		if k.Verdict == "" {
			k.Verdict, k.Class, k.Reason = "NO VERDICT", "doubt", "the recipe names no primary metric with a margin"
		}
		all = append(all, k)
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

func newStrip(d verdict.Difference) strip {
	s := strip{Metric: d.Phase + " " + report.Label(d.Metric), Reason: d.Reason, Primary: d.Primary, Left: signed(-d.Margin),
		Right: signed(d.Margin), LeftSays: "better", RightSays: "worse"}
	s.Verdict, s.Class = verdictText(d)
	if higher(d.Metric) {
		s.LeftSays, s.RightSays = s.RightSays, s.LeftSays
	}
	place := func(v float64) (percent float64, off bool) {
		x := v / d.Margin
		off = x < -stripRange || x > stripRange
		return 50 + 50*max(-stripRange, min(stripRange, x))/stripRange, off
	}
	diff := float64(d.Difference)
	if d.Margin <= 0 || math.IsNaN(diff) || math.IsInf(diff, 0) {
		s.Difference = fmt.Sprint(diff)
		return s
	}
	at, _ := place(diff)
	s.At, s.HasPoint, s.Difference = percent(at), true, signed(diff)
	if inf := d.Inference; inf != nil {
		i := inf.EquivalenceInterval
		low, offLow := place(float64(i.Low))
		high, offHigh := place(float64(i.High))
		s.Low, s.Width, s.HasBand, s.OpenLow, s.OpenHigh = percent(low), percent(high-low), true, offLow, offHigh
		s.Difference += fmt.Sprintf(", %.3g%% interval %s to %s", 100*i.Level, signed(float64(i.Low)), signed(float64(i.High)))
	}
	return s
}

func percent(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

// signed formats a difference with its sign and three significant digits.
func signed(v float64) string {
	text := strconv.FormatFloat(v, 'g', 3, 64)
	if v > 0 {
		return "+" + text
	}
	return text
}
