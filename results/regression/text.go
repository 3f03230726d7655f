package regression

import (
	"cmp"
	"fmt"
	"strings"

	"harness.invalid/results"
)

// ChangeText is the change with its sign, in the units of the fact or in %; "" if there is none.
func (f Fact) ChangeText() string { return f.text(f.Change, "%+.2g%%", "%+.3g") }

// ToleranceText is the tolerance in the same units.
func (f Fact) ToleranceText() string { return f.text(f.Tolerance, "%.2g%%", "%.3g") }

// NoiseText is the noise in the same units.
func (f Fact) NoiseText() string { return f.text(f.Noise, "%.2g%%", "%.3g") }

func (f Fact) text(v *results.Number, percent, plain string) string {
	switch {
	case v == nil:
		return ""
	case f.Relative:
		return fmt.Sprintf(percent, 100*float64(*v))
	}
	return fmt.Sprintf(plain, float64(*v))
}

// PowerText is the power; "" if it is not known.
func (f Fact) PowerText() string {
	if f.Power == nil {
		return ""
	}
	return fmt.Sprintf("%.2f", float64(*f.Power))
}

// ShortText cuts a value of an exact fact to what people compare: a digest to its first 12 digits.
func (f Fact) ShortText(value string) string {
	if f.Exact && len(value) >= 32 {
		return value[:12]
	}
	return value
}

// Explained is why a fact stands as it does, with its numbers, such as "the data differ (was 1, is 2)".
func (f Fact) Explained() string {
	words := []string{"was " + cmp.Or(f.Baseline, "-"), "is " + cmp.Or(f.Now, "-")}
	for _, x := range []struct{ name, text string }{
		{"change", f.ChangeText()}, {"tolerance", f.ToleranceText()}, {"noise", f.NoiseText()}, {"power", f.PowerText()},
	} {
		if x.text != "" {
			words = append(words, x.name+" "+x.text)
		}
	}
	return fmt.Sprintf("%s (%s)", f.Reason, strings.Join(words, ", "))
}
