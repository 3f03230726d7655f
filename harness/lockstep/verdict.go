package lockstep

import (
	"fmt"
	"math"
	"strings"

	"harness.invalid/core/bert"
	"harness.invalid/results"
)

// Reason is what makes two sides part, as far as the values tell.
type Reason string

// The reasons, in the order in which they are looked for.
const (
	Overflow  Reason = "overflow"  // values that are infinite, not a number, or stopped at the largest number of their format
	Underflow Reason = "underflow" // most of the difference is in values that are zero or subnormal on one side
	Drift     Reason = "drift"     // the weights had come apart, and at equal weights the same tensor was within its tolerance
	Bias      Reason = "bias"      // most of the difference is in one direction, by no more than rounding can do
	Operator  Reason = "operator"  // more than rounding can do to operands that agree: the operator computes something else
	Rounding  Reason = "rounding"  // errors without a direction that added up on the way
)

// Verdict says where two sides part.
type Verdict struct {
	Parted bool `json:"parted"`
	// Step and First are where the first difference beyond its tolerance is; where they did not part, the one that came nearest to it.
	Step   int         `json:"step"`
	First  *Difference `json:"first,omitempty"`
	Reason Reason      `json:"reason,omitempty"`
	// Side is the side that the reason speaks of, as far as one can be told; else empty.
	Side string `json:"side,omitempty"`
	// Text is the verdict in words, a sentence or two each.
	Text []string `json:"text"`
}

// The limits of the reasons. A part of the squared difference that is at least explains explains it; a bias counts from sigmas standard errors on. An
// operator whose difference is more than jumps times that of everything before it in the same pass has made it itself, if it is more than roundings
// unit roundoffs, which the tolerances of outputs allow a whole model.
const (
	explains  = 0.5
	sigmas    = 4
	jumps     = 4
	roundings = 8
)

// Conclude gives the verdict after the last step.
func (r *Record) Conclude() {
	for i := range r.Sides {
		r.Sides[i].Kept = r.updates[i].kept()
	}
	r.Verdict = Verdict{}
	v := &r.Verdict
	nearest := -1.0
	for i := range r.Steps {
		for j := range r.Steps[i].Tensors {
			d := &r.Steps[i].Tensors[j]
			if d.Leaves() {
				v.Parted, v.Step, v.First = true, r.Steps[i].Step, d
				r.explain(i, j)
				return
			}
			if d.Tolerance > 0 && float64(d.Relative)/d.Tolerance > nearest {
				nearest = float64(d.Relative) / d.Tolerance
				v.Step, v.First = r.Steps[i].Step, d
			}
		}
	}
	if v.First == nil {
		return
	}
	v.Text = []string{
		fmt.Sprintf("They don't part in %s.", steps(len(r.Steps))),
		fmt.Sprintf("Nearest to it comes %s in step %d: it differs by %s, tolerance %s.", what(v.First), v.Step, number(v.First.Relative), number(v.First.Tolerance)),
	}
	v.Text = append(v.Text, r.kept()...)
}

func steps(n int) string {
	if n == 1 {
		return "1 step"
	}
	return fmt.Sprintf("%d steps", n)
}

// explain finds the likely reason of a difference, tensor j of step i.
func (r *Record) explain(i, j int) {
	v, s := &r.Verdict, &r.Steps[i]
	d := &s.Tensors[j]
	v.Text = []string{fmt.Sprintf("They part in step %d at %s: %s, tolerance %s.", s.Step, what(d), differs(d), number(d.Tolerance))}
	say := func(reason Reason, side int, format string, args ...any) {
		v.Reason = reason
		if side >= 0 {
			v.Side = r.Sides[side].Backend
		}
		v.Text = append(v.Text, "Likely reason: "+fmt.Sprintf(format, args...))
	}
	before := r.before(i, j)
	unit := max(r.units[0], r.units[1])
	bias := d.Explained >= explains && math.Abs(float64(d.Bias)) > sigmas*float64(d.BiasError)
	small := unit == 0 || math.Abs(float64(d.Bias)) <= 2*unit
	switch side, other := worse(d, func(v Values) float64 { return v.Overflow }), worse(d, func(v Values) float64 { return v.Underflowed }); {
	case side >= 0:
		say(Overflow, side, "overflow. %s of the values of %s%s are infinite, not a number, or at the end of their range%s.",
			share(d.Sides[side].Overflow), r.Sides[side].Backend, inFormat(d.Sides[side].Format), r.scaled(s, side, d.Kind))
	case other >= 0 && d.Sides[other].Underflowed >= explains:
		u := d.Sides[other]
		say(Underflow, other, "underflow. In %s %s of the values%s are zero where the other side's are not, and %s subnormal; %s of the squared difference is in those%s.",
			r.Sides[other].Backend, share(u.Zero), inFormat(u.Format), share(u.Subnormal), share(u.Underflowed), r.scaled(s, other, d.Kind))
	case s.Before > 0 && !r.Resync && r.atEqualWeights(d):
		say(Drift, -1, "drift. At equal weights, in step 1, it differed by %s; since then the weights have come apart by %s. See with --resync whether a step of its own differs.",
			number(r.Steps[0].find(d).Relative), number(s.Before))
	case bias && small:
		say(Bias, -1, "biased rounding. The values of %s are %s by a part of %s ± %s (standard error), which is %s of the squared difference; no more than rounding can do.",
			r.Sides[1].Backend, direction(d.Bias), number(math.Abs(float64(d.Bias))), number(d.BiasError), share(d.Explained))
	case bias:
		say(Operator, -1, "a constant. The values of %s are %s by a part of %s ± %s (standard error), which is %s of the squared difference%s: too much and too even for rounding.",
			r.Sides[1].Backend, direction(d.Bias), number(math.Abs(float64(d.Bias))), number(d.BiasError), share(d.Explained), inUnits(math.Abs(float64(d.Bias)), unit))
	case float64(d.Relative) > jumps*before && (unit == 0 || float64(d.Relative) > roundings*unit):
		say(Operator, -1, "the operator itself. What it computes from agrees within %s, and there is neither overflow nor underflow; its difference has no direction (bias %s ± %s)%s: the two sides compute something else there.",
			number(before), number(d.Bias), number(d.BiasError), inUnits(float64(d.Relative), unit))
	default:
		say(Rounding, -1, "rounding that added up. The operators before it differ by up to %s already, and the difference has no direction (bias %s ± %s, %s of the squared difference).",
			number(before), number(d.Bias), number(d.BiasError), share(d.Explained))
	}
	v.Text = append(v.Text, r.kept()...)
}

// before is the largest difference of what the step computed up to tensor j in the same pass, and of the weights that it began with.
func (r *Record) before(i, j int) float64 {
	var largest float64
	backward := func(k Kind) bool { return k != Activation }
	for _, d := range r.Steps[i].Tensors[:j] {
		if backward(d.Kind) == backward(r.Steps[i].Tensors[j].Kind) {
			largest = max(largest, float64(d.Relative))
		}
	}
	return max(largest, float64(r.Steps[i].Before))
}

// atEqualWeights reports whether a tensor was well within its tolerance in the first step, and is far from that.
func (r *Record) atEqualWeights(d *Difference) bool {
	first := r.Steps[0].find(d)
	return first != nil && float64(first.Relative) < float64(d.Relative)/2
}

func (s *Step) find(d *Difference) *Difference {
	for i := range s.Tensors {
		if t := &s.Tensors[i]; t.Kind == d.Kind && t.Tensor == d.Tensor {
			return t
		}
	}
	return nil
}

// worse is the side with more of something, -1 where neither has any.
func worse(d *Difference, of func(Values) float64) int {
	a, b := of(d.Sides[0]), of(d.Sides[1])
	switch {
	case a == 0 && b == 0:
		return -1
	case a > b:
		return 0
	}
	return 1
}

// scaled tells the loss scale that gradients were stored at.
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

// kept tells how the sides stored updates, where one did not keep them whole.
func (r *Record) kept() []string {
	var said []string
	for i := range r.Sides {
		k := r.Sides[i].Kept
		if k == nil || k.Lost == 0 && math.Abs(float64(k.Part)-1) <= sigmas*float64(k.Error) {
			continue
		}
		said = append(said, fmt.Sprintf("%s keeps %.4f ± %s of its updates of weights (1 is all); %s of the weights that the optimizer moved were rounded back to where they were.",
			r.Sides[i].Backend, k.Part, number(k.Error), share(k.Lost)))
	}
	return said
}

// differs says by how much a tensor differs.
func differs(d *Difference) string {
	if math.IsInf(float64(d.Relative), 0) {
		return "not all of its values are finite"
	}
	return "it differs by " + number(d.Relative)
}

// what names a tensor in a sentence.
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
		return "nearer to zero"
	}
	return "larger"
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
	return fmt.Sprintf("; it is %s unit roundoffs of the coarser format", number(x/unit))
}

// number prints three digits.
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

// share prints a part as a percentage.
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
