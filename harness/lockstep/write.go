package lockstep

import (
	"fmt"
	"io"
	"strings"

	"harness.invalid/harness/report"
)

// around is how many tensors are shown before and after the first one beyond its tolerance.
const around = 4

// Write prints the record. The formats for people have a line for each step, the tensors around the point of
// divergence, and the verdict. CSV has a line for each tensor of each step. JSON is the record itself.
func (r *Record) Write(w io.Writer, o report.Options) error {
	switch o.Format {
	case report.JSON:
		return r.WriteJSON(w)
	case report.CSV:
		return report.WriteSheet(w, r.tensors(), o)
	}
	if err := report.WriteSheet(w, r.steps(), o); err != nil {
		return err
	}
	fmt.Fprintln(w)
	last := r.nearby()
	last.Notes = append(last.Notes, fmt.Sprintf("Shares of values are those of %s / %s; "+
		"grad means the gradient of the operator result or parameter that follows.", r.Sides[0].Backend, r.Sides[1].Backend))
	last.Notes = append(last.Notes, r.Verdict.Text...)
	last.Notes = append(last.Notes, r.Notes...)
	return report.WriteSheet(w, last, o)
}

// steps has a line for each step, with the tensors that differ most.
func (r *Record) steps() *report.Sheet {
	mode := "each from its own weights"
	if r.Resync {
		mode = fmt.Sprintf("each step from the weights of %s", r.Sides[0].Backend)
	}
	s := &report.Sheet{
		Caption: fmt.Sprintf("Recipe %s (fingerprint %.12s), data %.12s, seed %d: "+
			"%s (%s) in lockstep with %s (%s) over %s of %s, without dropout, %s",
			r.Recipe, r.Fingerprint, r.DataDigest, r.Seed, r.Sides[1].Backend, r.Sides[1].Precision,
			r.Sides[0].Backend, r.Sides[0].Precision, steps(len(r.Steps)), r.Phase, mode),
		Columns: []report.Column{
			{Name: "step", Right: true}, {Name: "loss " + r.Sides[0].Backend, Right: true},
			{Name: "loss " + r.Sides[1].Backend, Right: true}, {Name: "activations", Right: true}, {Name: "gradients", Right: true},
			{Name: "weights", Right: true}, {Name: "closest to its tolerance, or furthest beyond"},
		},
	}
	for i := range r.Steps {
		step := &r.Steps[i]
		line := report.Texts(fmt.Sprint(step.Step), fmt.Sprintf("%.4f", step.Loss[0]), fmt.Sprintf("%.4f", step.Loss[1]))
		for _, kinds := range [][]Kind{{Activation}, {ActivationGradient, Gradient}} {
			most := step.most(kinds...)
			cell := report.Cell{Text: "-"}
			if most != nil {
				cell.Text = number(most.Relative)
				if most.Leaves() {
					cell.Mark = report.Bad
				}
			}
			line = append(line, cell)
		}
		line = append(line, report.Cell{Text: number(step.Weights)}, report.Cell{})
		if most := step.most(Activation, ActivationGradient, Gradient); most != nil {
			line[6].Text = shown(most)
		}
		s.Rows = append(s.Rows, line)
	}
	return s
}

// most is the tensor among some kinds that differs most relative to its tolerance.
func (s *Step) most(kinds ...Kind) *Difference {
	var most *Difference
	for i := range s.Tensors {
		d := &s.Tensors[i]
		for _, k := range kinds {
			if d.Kind == k && (most == nil || float64(d.Relative)/d.Tolerance > float64(most.Relative)/most.Tolerance) {
				most = d
			}
		}
	}
	return most
}

// nearby has the tensors around the verdict's, in the order in which the step computes them.
func (r *Record) nearby() *report.Sheet {
	s := &report.Sheet{Columns: []report.Column{
		{Name: fmt.Sprintf("step %d", r.Verdict.Step)}, {Name: "difference", Right: true}, {Name: "tolerance", Right: true},
		{Name: "bias ± error", Right: true}, {Name: "zero, subnormal", Right: true}, {Name: "overflow", Right: true},
	}}
	if r.Verdict.First == nil {
		return s
	}
	for i := range r.Steps {
		step := &r.Steps[i]
		if step.Step != r.Verdict.Step {
			continue
		}
		at := 0
		for j := range step.Tensors {
			if &step.Tensors[j] == r.Verdict.First {
				at = j
			}
		}
		for j := max(0, at-around); j < min(len(step.Tensors), at+around+1); j++ {
			d := &step.Tensors[j]
			line := report.Texts(shown(d), number(d.Relative), "", fmt.Sprintf("%s ± %s", number(d.Bias), number(d.BiasError)),
				fmt.Sprintf("%s / %s", share(d.Sides[0].Zero+d.Sides[0].Subnormal), share(d.Sides[1].Zero+d.Sides[1].Subnormal)),
				fmt.Sprintf("%s / %s", share(d.Sides[0].Overflow), share(d.Sides[1].Overflow)))
			if d.Tolerance > 0 {
				line[2].Text = number(d.Tolerance)
			}
			if d.Leaves() {
				line[1].Mark = report.Bad
			}
			s.Rows = append(s.Rows, line)
		}
	}
	return s
}

// tensors has a line for each tensor of each step, with numbers in full precision.
func (r *Record) tensors() *report.Sheet {
	s := &report.Sheet{}
	for _, key := range []string{
		"step", "kind", "tensor", "operator", "values", "difference", "tolerance", "leaves",
		"bias", "bias_error", "bias_explains", "against",
	} {
		s.Columns = append(s.Columns, report.Column{Name: key})
	}
	for i := range r.Sides {
		for _, key := range []string{"format", "norm", "zero", "subnormal", "overflow", "underflow_explains", "kept", "lost"} {
			s.Columns = append(s.Columns, report.Column{Name: fmt.Sprintf("%s_%d", key, i+1)})
		}
	}
	for i := range r.Steps {
		for _, d := range r.Steps[i].Tensors {
			line := report.Row{}
			put := func(values ...any) {
				for _, v := range values {
					line = append(line, report.Cell{Value: v})
				}
			}
			tolerance := any(d.Tolerance)
			if d.Tolerance == 0 {
				tolerance = ""
			}
			put(r.Steps[i].Step, d.Kind, d.Tensor, d.Operator, d.Count, float64(d.Relative), tolerance, d.Leaves())
			put(float64(d.Bias), float64(d.BiasError), d.Explained, float64(d.Against))
			for k, v := range d.Sides {
				put(v.Format, float64(v.Norm), v.Zero, v.Subnormal, v.Overflow, v.Underflowed)
				if d.Kept[k] != nil {
					put(float64(d.Kept[k].Part), d.Kept[k].Lost)
				} else {
					put("", "")
				}
			}
			s.Rows = append(s.Rows, line)
		}
	}
	return s
}

// shown names a tensor in a table.
func shown(d *Difference) string {
	switch d.Kind {
	case ActivationGradient, Gradient:
		return "grad " + short(d.Tensor)
	}
	return short(d.Tensor)
}

// short drops the prefixes that the names of a model have in common.
func short(name string) string {
	for _, prefix := range []string{"bert.encoder.", "bert.", "cls."} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			return rest
		}
	}
	return name
}
