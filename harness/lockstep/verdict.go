package lockstep

import (
	"fmt"
	"math"
)

// Reason is why two sides diverge, as far as the values tell.
type Reason string

// The reasons, in the order in which Conclude looks for them.
const (
	Overflow Reason = "overflow" // values are infinite, not a number, or saturated at the largest number of their format
	// The next four are about an operand of the product that computed the tensor, where its error explains the difference.
	ScaleLag   Reason = "scale lag"  // its scale, from the steps before, does not fit it
	Saturation Reason = "saturation" // it is too large for its format
	Flush      Reason = "flush"      // much of it became zero
	Format     Reason = "format"     // its format has few digits

	Underflow Reason = "underflow" // most of the difference is in values that are zero or subnormal on one side
	Drift     Reason = "drift"     // the weights have drifted apart; from equal weights, the tensor was within its tolerance
	Bias      Reason = "bias"      // most of the difference has one direction, and rounding can explain its size
	Operator  Reason = "operator"  // the inputs agree and rounding cannot explain the difference: another function is computed
	Rounding  Reason = "rounding"  // errors without a direction that accumulated
)

// Verdict says where two sides diverge.
type Verdict struct {
	Parted bool `json:"parted"` // they diverge
	// Step and First are the first difference beyond its tolerance, or the one closest to its tolerance if none is
	// beyond it.
	Step   int         `json:"step"`
	First  *Difference `json:"first,omitempty"`
	Reason Reason      `json:"reason,omitempty"`
	// Side is the side to which the reason applies; empty if the values do not tell.
	Side string `json:"side,omitempty"`
	// Text is the verdict in words, one or two sentences per element.
	Text []string `json:"text"`
}

// The thresholds of the reasons.
const (
	// explains is the share of the squared difference from which on something explains the difference.
	explains = 0.5
	// sigmas is the number of standard errors from which on a bias counts.
	sigmas = 4
	// An operator causes a difference itself if the difference is more than jumps times as large as all before it in
	// the same pass, and larger than roundings unit roundoffs, the tolerance for the outputs of a whole model.
	jumps     = 4
	roundings = 8
)

// Conclude sets the verdict after the last step.
func (r *Record) Conclude() {
	for i := range r.Sides {
		r.Sides[i].Kept = r.updates[i].kept()
	}
	r.Verdict = Verdict{}
	v := &r.Verdict
	closest := -1.0
	for i := range r.Steps {
		for j := range r.Steps[i].Tensors {
			d := &r.Steps[i].Tensors[j]
			if d.Leaves() {
				v.Parted, v.Step, v.First = true, r.Steps[i].Step, d
				r.explain(i, j)
				return
			}
			if d.Tolerance > 0 && float64(d.Relative)/d.Tolerance > closest {
				closest = float64(d.Relative) / d.Tolerance
				v.Step, v.First = r.Steps[i].Step, d
			}
		}
	}
	if v.First == nil {
		return
	}
	v.Text = []string{
		fmt.Sprintf("They do not diverge in %s.", steps(len(r.Steps))),
		fmt.Sprintf("Closest to its tolerance is %s in step %d: it differs by %s, tolerance %s.",
			what(v.First), v.Step, number(v.First.Relative), number(v.First.Tolerance)),
	}
	v.Text = append(v.Text, r.kept()...)
}

// explain finds the likely reason of a difference, tensor j of step i.
func (r *Record) explain(i, j int) {
	v, s := &r.Verdict, &r.Steps[i]
	d := &s.Tensors[j]
	v.Text = []string{fmt.Sprintf("They diverge in step %d at %s: %s, tolerance %s.", s.Step, what(d), differs(d), number(d.Tolerance))}
	var side int
	var text string
	v.Reason, side, text = r.reason(i, j)
	if side >= 0 {
		v.Side = r.Sides[side].Backend
	}
	v.Text = append(v.Text, "Likely reason: "+text)
	v.Text = append(v.Text, r.kept()...)
}

// reason returns the likely reason of a difference, the side to which it applies or -1, and an explanation.
func (r *Record) reason(i, j int) (reason Reason, side int, text string) {
	s := &r.Steps[i]
	d := &s.Tensors[j]
	before := r.before(i, j)
	unit := max(r.units[0], r.units[1])
	if k := worse(d, func(v Values) float64 { return v.Overflow }); k >= 0 {
		return Overflow, k, fmt.Sprintf("overflow. %s of the values of %s%s are infinite, not a number, or saturated%s.",
			share(d.Sides[k].Overflow), r.Sides[k].Backend, inFormat(d.Sides[k].Format), r.scaled(s, k, d.Kind))
	}
	if k, q := s.narrowed(d); q != nil {
		reason, text := r.operandReason(k, q)
		return reason, k, text
	}
	if k := worse(d, func(v Values) float64 { return v.Underflowed }); k >= 0 && d.Sides[k].Underflowed >= explains {
		u := d.Sides[k]
		return Underflow, k, fmt.Sprintf("underflow. In %s, %s of the values%s are zero and the other side's are not, and %s are subnormal; "+
			"%s of the squared difference is in these%s.",
			r.Sides[k].Backend, share(u.Zero), inFormat(u.Format), share(u.Subnormal), share(u.Underflowed), r.scaled(s, k, d.Kind))
	}
	if s.Before > 0 && !r.Resync && r.atEqualWeights(d) {
		return Drift, -1, fmt.Sprintf("drift. In step 1, from equal weights, it differed by %s; since then the weights have drifted "+
			"apart by %s. Use --resync to see the difference that a single step makes.",
			number(r.Steps[0].find(d).Relative), number(s.Before))
	}
	if bias := math.Abs(float64(d.Bias)); d.Explained >= explains && bias > sigmas*float64(d.BiasError) {
		text := fmt.Sprintf("The values of %s are %s by a fraction of %s ± %s (standard error), which explains %s of the squared difference",
			r.Sides[1].Backend, direction(d.Bias), number(bias), number(d.BiasError), share(d.Explained))
		if unit == 0 || bias <= 2*unit {
			return Bias, -1, "biased rounding. " + text + "; rounding alone can do this."
		}
		return Operator, -1, "a constant factor. " + text + inUnits(bias, unit) + ": too large and too uniform for rounding."
	}
	if x := float64(d.Relative); x > jumps*before && (unit == 0 || x > roundings*unit) {
		return Operator, -1, fmt.Sprintf("the operator itself. Its inputs agree within %s, and nothing overflows or underflows; "+
			"the difference has no direction (bias %s ± %s)%s. The two sides compute different functions here.",
			number(before), number(d.Bias), number(d.BiasError), inUnits(x, unit))
	}
	return Rounding, -1, fmt.Sprintf("accumulated rounding. The operators before it already differ by up to %s, "+
		"and the difference has no direction (bias %s ± %s, %s of the squared difference).",
		number(before), number(d.Bias), number(d.BiasError), share(d.Explained))
}

// before is the largest difference among the tensors that step i computed before tensor j in the same pass, and the
// weights that it started from.
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

// atEqualWeights reports whether a tensor differed by less than half as much in the first step.
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

// worse is the side for which a share is larger, or -1 if it is 0 on both.
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
