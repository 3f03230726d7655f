package verdict

import (
	"math"
	"strconv"
	"strings"

	"harness.invalid/core/recipe"
)

// Words are how people call a metric.
type Words struct {
	Name, Unit string
	Digits     int // decimals
}

var words = map[string]Words{
	"loss":                   {"loss", "nats", 4},
	"masked_lm_loss":         {"masked LM loss", "nats", 4},
	"masked_lm_accuracy":     {"masked LM accuracy", "%", 2},
	"next_sentence_loss":     {"next sentence loss", "nats", 4},
	"next_sentence_accuracy": {"next sentence accuracy", "%", 2},
	"exact_match":            {"exact match", "%", 2},
	"f1":                     {"F1", "%", 2},
	"answer_nll":             {"answers' NLL", "nats", 4},
	"accuracy":               {"accuracy", "%", 2},
	"precision":              {"precision", "%", 2},
	"recall":                 {"recall", "%", 2},
}

// WordsOf are the words for a metric.
func WordsOf(metric string) Words {
	if w, ok := words[metric]; ok {
		return w
	}
	return Words{strings.ReplaceAll(metric, "_", " "), "", 4}
}

// number is a value with the decimals of its metric.
func (w Words) number(v float64) string {
	text := strconv.FormatFloat(v, 'f', w.Digits, 64)
	if zero := "-" + strconv.FormatFloat(0, 'f', w.Digits, 64); text == zero {
		return zero[1:]
	}
	return text
}

// resolving is w with as many decimals as show half of an interval of this width, at most three more than usual: arms
// that differ by rounding alone differ by less than the last usual decimal.
func (w Words) resolving(width float64) Words {
	if half := width / 2; half > 0 {
		w.Digits = min(max(w.Digits, -int(math.Floor(math.Log10(half)))), w.Digits+3)
	}
	return w
}

// signed is a difference with its sign.
func (w Words) signed(v float64) string {
	text := w.number(v)
	if v > 0 && text != w.number(0) {
		return "+" + text
	}
	return text
}

// NameOf is what a sentence calls an arm: its backend with the precision that it ran in, and its optimizer where the
// arms have several.
func (c *Comparison) NameOf(a ArmSummary) string {
	name := a.Backend
	if spec, err := recipe.ParseSpec(a.Backend); err == nil && spec.Precision == "" {
		spec.Precision = a.Precision
		name = spec.String()
	}
	for _, other := range c.Arms {
		if other.Optimizer != a.Optimizer {
			return name + "/" + a.Optimizer
		}
	}
	return name
}
