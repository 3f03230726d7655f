package lockstep

import (
	"fmt"
	"math"
	"strings"

	"harness.invalid/core/format"
	"harness.invalid/results"
)

// operandsExplain is how many times the relative error of a product's operands a difference may be that comes from them:
// independent errors of both factors add up to the root of the sum of their squares.
const operandsExplain = 2

// lag is how far a scale may be from what the tensor's own largest magnitude calls for. A power of two is within 2.
const lag = 4

// narrowed finds the product that computed tensor d of a step, where the formats of its operands explain the difference: the
// side that loses more, and the operand that it loses most of; nil if they do not.
func (s *Step) narrowed(d *Difference) (side int, worst *results.Quantised) {
	most := 0.0
	for k := range s.Quantised {
		products := map[string]float64{} // squared errors of both operands
		for i := range s.Quantised[k] {
			if q := &s.Quantised[k][i]; computes(q, d) {
				products[q.Operator] += q.RelError * q.RelError
			}
		}
		for i := range s.Quantised[k] {
			q := &s.Quantised[k][i]
			if !computes(q, d) {
				continue
			}
			if e := math.Sqrt(products[q.Operator]); e > most || e == most && side == k && q.RelError > worst.RelError {
				most, side, worst = e, k, q
			}
		}
	}
	if most == 0 || float64(d.Relative) > operandsExplain*most {
		return 0, nil
	}
	return side, worst
}

// computes reports whether an operand belongs to the product that computed a tensor.
func computes(q *results.Quantised, d *Difference) bool {
	product, _, _ := strings.Cut(q.Operand, ".")
	switch d.Kind {
	case Activation:
		return product == "forward" && q.Operator == d.Operator
	case Gradient:
		return product == "parameter_gradient" && q.Operator == d.Operator
	case ActivationGradient:
		if product != "input_gradient" {
			return false
		}
		for name := range strings.SplitSeq(d.Operator, ", ") { // see bert.Operator.From
			if q.Operator == name || strings.HasPrefix(q.Operator, name+".self.") {
				return true
			}
		}
	}
	return false
}

// operandReason says what a format did to an operand of a side.
func (r *Record) operandReason(side int, q *results.Quantised) (Reason, string) {
	of := fmt.Sprintf("%s of %s in %s (%s)", q.Operand, q.Operator, r.Sides[side].Backend, q.Format)
	lost := fmt.Sprintf("%s of its values saturated, %s became zero, and %s have fewer digits; its relative error is %s",
		share(q.Saturated), share(q.Flushed), share(q.Subnormal), number(q.RelError))
	f := described(q)
	if f != nil && q.RelError <= math.Ldexp(1, -f.Element.Mantissa-1) { // rounding of its digits alone can do this
		return Format, "a narrow format. Of " + of + ", " + lost + "."
	}
	if own := ownScale(q, f); own > 0 && (q.Saturated > 0 && q.Scale > own*(1+1e-6) || q.Flushed > 0 && q.Scale < own/lag) {
		return ScaleLag, fmt.Sprintf("a scale that lags. That of %s is %s and not of this step: its own largest magnitude, %s, "+
			"calls for %s. %s.", of, number(q.Scale), number(q.Largest), number(own), lost)
	}
	switch {
	case q.Saturated > results.MostSaturated:
		return Saturation, "saturation. Of " + of + ", " + lost + "."
	case q.Flushed > results.MostFlushed:
		return Flush, "values below the format. Of " + of + ", " + lost + "."
	}
	return Format, "a narrow format. Of " + of + ", " + lost + "."
}

// described is the format of an operand where it comes with the program; else nil.
func described(q *results.Quantised) *format.Format {
	text, err := format.Text(q.Format)
	if err != nil {
		return nil
	}
	f, err := format.Parse(q.Format, text)
	if err != nil {
		return nil
	}
	return f
}

// ownScale is the scale that a tensor's own largest magnitude calls for, where it has one scale; else 0.
func ownScale(q *results.Quantised, f *format.Format) float64 {
	if q.Scale == 0 || q.Largest <= 0 || f == nil || f.Scale == nil {
		return 0
	}
	return f.Element.Max() / q.Largest
}
