package lockstep

import (
	"fmt"
	"math"
	"strings"

	"harness.invalid/core/bert"
	"harness.invalid/results"
)

func steps(n int) string {
	if n == 1 {
		return "1 step"
	}
	return fmt.Sprintf("%d steps", n)
}

// scaled gives the loss scale with which gradients were stored.
func (r *Record) scaled(s *Step, side int, k Kind) string {
	if k == Activation || k == Weight {
		return ""
	}
	text := fmt.Sprintf("; its loss scale is %s", number(s.LossScale[side]))
	if !s.Finite[side] {
		text += ", and it skipped the step"
	}
	return text
}

// kept says how much of their updates the sides kept, for those that lost some.
func (r *Record) kept() []string {
	var said []string
	for i := range r.Sides {
		k := r.Sides[i].Kept
		if k == nil || k.Lost == 0 && math.Abs(float64(k.Part)-1) <= sigmas*float64(k.Error) {
			continue
		}
		said = append(said, fmt.Sprintf("%s keeps %.4f ± %s of its weight updates (1 is all); "+
			"%s of the weights that the optimizer changed were rounded back to their old values.",
			r.Sides[i].Backend, k.Part, number(k.Error), share(k.Lost)))
	}
	return said
}

// differs says how much a tensor differs.
func differs(d *Difference) string {
	if math.IsInf(float64(d.Relative), 0) {
		return "not all of its values are finite"
	}
	return "it differs by " + number(d.Relative)
}

// what describes a tensor in a sentence.
func what(d *Difference) string {
	switch d.Kind {
	case Activation:
		return "the result of " + d.Tensor
	case ActivationGradient:
		computed := "the backward pass of " + d.Operator + " computes"
		if d.Operator == bert.LossName {
			computed = "the loss computes"
		}
		return fmt.Sprintf("the gradient of the result of %s, which %s", d.Tensor, computed)
	case Gradient:
		return fmt.Sprintf("the gradient of %s", d.Tensor)
	}
	return d.Tensor
}

func direction(bias results.Number) string {
	if bias < 0 {
		return "smaller in magnitude"
	}
	return "larger in magnitude"
}

func inFormat(format string) string {
	if format == "" {
		return ""
	}
	return " (" + format + ")"
}

func inUnits(x, unit float64) string {
	if unit == 0 {
		return ""
	}
	return fmt.Sprintf("; this is %s times the unit roundoff of the coarser format", number(x/unit))
}

// number prints three significant digits.
func number[T ~float64](x T) string {
	switch v := float64(x); {
	case math.IsInf(v, 0) || v == 0:
		return strings.TrimPrefix(fmt.Sprint(v), "+")
	case math.Abs(v) >= 1e-3 && math.Abs(v) < 1e6:
		return fmt.Sprintf("%.3g", v)
	default:
		return fmt.Sprintf("%.1e", v)
	}
}

// share prints a fraction as a percentage.
func share(x float64) string {
	switch p := 100 * x; {
	case p == 0:
		return "0%"
	case p < 0.01:
		return fmt.Sprintf("%.0e%%", p)
	case p < 10:
		return fmt.Sprintf("%.2g%%", p)
	default:
		return fmt.Sprintf("%.0f%%", p)
	}
}
