// Package lockstep finds where two backends that train in lockstep diverge: in which step, at which operator, and
// why, as far as the values tell.
//
// harness/train provides the steps, with what both sides stored: activations and their gradients, gradients of
// parameters, and weights. Each pair of tensors becomes a Difference, which is compared with the tolerances that
// both backends declare for their number formats (those that `harness plugin verify` tests). The backends diverge
// at the first difference beyond its tolerance, in the order in which a step computes.
package lockstep

import (
	"encoding/json"
	"io"
	"math"
	"slices"

	"harness.invalid/core/bert"
	"harness.invalid/core/numerics"
	"harness.invalid/harness/train"
	"harness.invalid/results"
)

// Record is the record of a lockstep with its verdict.
type Record struct {
	Recipe      string `json:"recipe"`
	Fingerprint string `json:"fingerprint"`
	DataDigest  string `json:"data_digest"`
	Start       string `json:"start,omitempty"` // digest of the model that both sides start from
	Seed        uint64 `json:"seed"`
	Phase       string `json:"phase"`
	Optimizer   string `json:"optimizer"`
	// Resync: the second side started each step from the weights and the optimizer's state of the first.
	Resync  bool              `json:"resync"`
	Sides   [2]Side           `json:"sides"` // the second is compared with the first
	Plugins []results.Plugin  `json:"plugins,omitempty"`
	Steps   []Step            `json:"steps"`
	Verdict Verdict           `json:"verdict"`
	Notes   []string          `json:"notes,omitempty"`
	updates [2]updateRounding // over all steps
	units   [2]float64        // unit roundoff of the coarsest format in which a side stored values
}

// Side is one of the two backends.
type Side struct {
	Backend   string `json:"backend"` // as the user named it
	Precision string `json:"precision"`
	// The tolerances of the precision relative to exact results. The two sides may differ by the sum of theirs.
	OutputTolerance   float64 `json:"output_tolerance"`
	GradientTolerance float64 `json:"gradient_tolerance"`
	// Kept says how much of all updates survived when the side stored the weights; nil without updates.
	Kept *Kept `json:"kept,omitempty"`
}

// Step is a step on both sides.
type Step struct {
	Step         int               `json:"step"`
	LearningRate float64           `json:"learning_rate"`
	Loss         [2]results.Number `json:"loss"`
	LossScale    [2]results.Number `json:"loss_scale"`
	Finite       [2]bool           `json:"finite"` // gradients; otherwise the side skipped the step
	// Before and Weights are the relative differences of all weights, before and after the step.
	Before  results.Number `json:"weights_before"`
	Weights results.Number `json:"weights"`
	// Quantised says what narrow formats did to the operands of products, on each side.
	Quantised [2][]results.Quantised `json:"quantised,omitzero"`
	Tensors   []Difference           `json:"tensors"` // in the order in which the step computes them
}

// Kind is the role of a tensor in a step.
type Kind string

// The kinds, in the order of a step.
const (
	Activation         Kind = "activation"          // the result of an operator
	ActivationGradient Kind = "activation gradient" // the gradient of that result
	Gradient           Kind = "gradient"            // of a parameter
	Weight             Kind = "weight"              // a parameter after the step
)

// Difference is the difference of a tensor of the second side from that of the first.
type Difference struct {
	Kind     Kind   `json:"kind"`
	Tensor   string `json:"tensor"`   // operator or parameter, under Hugging Face's name
	Operator string `json:"operator"` // the operator that computed it, forward or backward
	Count    int    `json:"count"`    // of values
	// Relative is the norm of the difference divided by Against; infinite if a value is not finite. Against is the
	// norm of the first side's values. For gradients of parameters and for weights it includes all parameters of their
	// operator, because some gradients, such as that of a key's bias, are zero apart from rounding. For sums whose
	// terms cancel it is the norm of the terms.
	Relative  results.Number `json:"relative"`
	Against   results.Number `json:"against"`
	Tolerance float64        `json:"tolerance,omitempty"` // 0: there is none
	// Bias is the slope of the difference over the mean of both values: the fraction by which the second side's values
	// are larger (above 0) or smaller in magnitude. BiasError is its standard error, robust to heteroscedasticity.
	// Explained is the share of the squared difference that the bias explains.
	Bias      results.Number `json:"bias"`
	BiasError results.Number `json:"bias_error"`
	Explained float64        `json:"bias_explains"`
	Sides     [2]Values      `json:"sides"`
	// Kept says how much of the step's update of a weight survived on each side when it was stored; nil without an update.
	Kept [2]*Kept `json:"kept,omitzero"`
}

// Leaves reports whether the difference is beyond its tolerance.
func (d *Difference) Leaves() bool { return d.Tolerance > 0 && !(float64(d.Relative) <= d.Tolerance) }

// Values summarizes a tensor on one side. Shares are fractions of its values.
type Values struct {
	Format    string         `json:"format,omitempty"` // in which they are stored; "": unknown, and treated as FP32
	Norm      results.Number `json:"norm"`             // of gradients: without the loss scale
	Zero      float64        `json:"zero"`             // zero, and not on the other side
	Subnormal float64        `json:"subnormal"`        // nonzero, below the normal range of the format
	Overflow  float64        `json:"overflow"`         // infinite, not a number, or the largest number of a narrow format
	// Underflowed is the share of the squared difference in values that are zero or subnormal on this side.
	Underflowed float64 `json:"underflow_explains"`
}

// Kept says how much of an update survived when weights were stored: rounding may cancel out on average or lose it.
type Kept struct {
	Part  results.Number `json:"part"`  // slope of the stored change over the optimizer's; 1: all of it on average
	Error results.Number `json:"error"` // its standard error
	Lost  float64        `json:"lost"`  // share of the changed weights that were rounded back to their old values
}

// Add adds a step.
func (r *Record) Add(l *train.LockedStep) {
	s := Step{Step: l.Step, LearningRate: l.LearningRate}
	r.Phase = l.Phase.Name
	for i, side := range l.Sides {
		s.Loss[i], s.LossScale[i] = results.Number(side.Result.Losses.Total()), results.Number(side.Result.LossScale)
		s.Finite[i] = side.Result.Finite
		for _, q := range side.Result.Quantised {
			s.Quantised[i] = append(s.Quantised[i], results.Quantised(q))
		}
	}
	s.Tensors = r.differences(l)
	s.Before = results.Number(distance(l.Sides[0].Before, l.Sides[1].Before))
	s.Weights = results.Number(distance(l.Sides[0].Kept, l.Sides[1].Kept))
	r.Steps = append(r.Steps, s)
}

// distance is the norm of b - a over that of a.
func distance(a, b []float32) float64 {
	var difference, norm float64
	for i, v := range a {
		d := float64(b[i]) - float64(v)
		difference += d * d
		norm += float64(v) * float64(v)
	}
	if difference == 0 {
		return 0
	}
	return math.Sqrt(difference / norm)
}

// differences compares all tensors of a step in the order in which it computes them: forward, backward, update.
func (r *Record) differences(l *train.LockedStep) []Difference {
	outputs := r.Sides[0].OutputTolerance + r.Sides[1].OutputTolerance
	gradients := r.Sides[0].GradientTolerance + r.Sides[1].GradientTolerance
	operators := bert.Operators(l.Program.Model, l.Program.Head)
	traced := r.traced(l, operators)
	sums := terms{l, traced}
	var all []Difference
	add := func(kind Kind, tensor, operator string, t float64, pair [2]values, least float64) {
		d := compare(pair, least)
		d.Kind, d.Tensor, d.Operator, d.Tolerance = kind, tensor, operator, t
		all = append(all, d)
	}
	for _, o := range operators {
		if pair, ok := traced[tracedKey{o.Name, false}]; ok {
			add(Activation, o.Name, o.Name, outputs, pair, sums.result(o))
		}
	}
	for i := len(operators) - 1; i >= 0; i-- {
		o := operators[i]
		if pair, ok := traced[tracedKey{o.Name, true}]; ok {
			add(ActivationGradient, o.Name, o.From, gradients, pair, 0)
		}
		terms := sums.gradient(o)
		stored := func(s *train.LockedSide) []float32 { return s.Gradients }
		r.parameters(l, o.Name, stored, func(name string, pair [2]values, all float64) {
			add(Gradient, name, o.Name, gradients, pair, max(all, terms))
		})
	}
	for _, o := range operators {
		first := len(all)
		stored := func(s *train.LockedSide) []float32 { return s.Kept }
		r.parameters(l, o.Name, stored, func(name string, pair [2]values, all float64) {
			add(Weight, name, o.Name, 0, pair, all)
		})
		for i := first; i < len(all); i++ {
			t, _ := l.Layout.Lookup(all[i].Tensor)
			for k := range l.Sides {
				var u updateRounding
				u.add(t.Of(l.Sides[k].Before), t.Of(l.Sides[k].Updated), t.Of(l.Sides[k].Kept))
				all[i].Kept[k] = u.kept()
				r.updates[k].sum(u)
			}
		}
	}
	return all
}

// parameters calls add for each parameter of an operator, with the norm of all of them on the first side.
func (r *Record) parameters(
	l *train.LockedStep, operator string, of func(*train.LockedSide) []float32,
	add func(name string, pair [2]values, all float64),
) {
	var squares float64
	for _, t := range l.Layout.Tensors() {
		if bert.OperatorOf(t.Name) == operator {
			for _, v := range t.Of(of(&l.Sides[0])) {
				squares += float64(v) * float64(v)
			}
		}
	}
	for _, t := range l.Layout.Tensors() {
		if bert.OperatorOf(t.Name) == operator {
			pair := [2]values{{of: t.Of(of(&l.Sides[0])), scale: 1}, {of: t.Of(of(&l.Sides[1])), scale: 1}}
			add(t.Name, pair, math.Sqrt(squares))
		}
	}
}

type tracedKey struct {
	operator string
	gradient bool
}

// traced pairs the tensors that both sides traced. If their micro-batches differ in size, the pairs hold the
// sequences that both have. Rows on which the loss does not depend are left out, see bert.Operator.Relevant.
func (r *Record) traced(l *train.LockedStep, operators []bert.Operator) map[tracedKey][2]values {
	pairs := map[tracedKey][2]values{}
	count := map[tracedKey]int{}
	for i := range l.Sides {
		for _, t := range l.Sides[i].Traced {
			k := tracedKey{t.Operator, t.Gradient}
			v := values{of: t.Values, scale: t.Scale, name: t.Format}
			if f, err := numerics.ParseFormat(t.Format); err == nil {
				v.format = f
				r.units[i] = max(r.units[i], math.Ldexp(1, -f.MantissaBits()-1))
			}
			pair := pairs[k]
			pair[i] = v
			pairs[k] = pair
			count[k]++
		}
	}
	for k, pair := range pairs {
		if count[k] < len(pair) {
			delete(pairs, k)
			continue
		}
		n := min(len(pair[0].of), len(pair[1].of))
		pair[0].of, pair[1].of = pair[0].of[:n], pair[1].of[:n]
		pairs[k] = pair
	}
	for _, o := range operators {
		for _, gradient := range []bool{false, true} {
			k := tracedKey{o.Name, gradient}
			if pair, ok := pairs[k]; ok {
				for i := range pair {
					pair[i].of = o.Relevant(pair[i].of, l.Program.Head, l.Traced)
				}
				pairs[k] = pair
			}
		}
	}
	for i := range l.Sides {
		if l.Sides[i].Traced == nil {
			r.Note(r.Sides[i].Backend + " does not trace its operators: only gradients of parameters and weights are compared.")
		}
	}
	return pairs
}

// Note adds a doubt, once.
func (r *Record) Note(text string) {
	if !slices.Contains(r.Notes, text) {
		r.Notes = append(r.Notes, text)
	}
}

// WriteJSON writes the record in full.
func (r *Record) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}
