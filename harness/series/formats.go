package series

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"harness.invalid/core/spelling"
	"harness.invalid/results"
)

// Effect is a column of results.Quantised: what a number format did to an operand in a step.
type Effect struct {
	Name, Label string
	// Share is between 0 and 1; other columns are magnitudes, for a logarithmic scale.
	Share bool
	// One is set where operands have nothing in common, so that one must be chosen. Of other columns the worst operand of
	// an operator counts: the largest value, or the least where Least is set.
	One, Least bool
	of         func(*results.Quantised) float64
}

// Effects are the columns that a picture can show.
var Effects = []Effect{
	{Name: "saturated", Label: "share saturated", Share: true, of: func(q *results.Quantised) float64 { return q.Saturated }},
	{Name: "flushed", Label: "share that became zero", Share: true, of: func(q *results.Quantised) float64 { return q.Flushed }},
	{Name: "subnormal", Label: "share with fewer digits", Share: true, of: func(q *results.Quantised) float64 { return q.Subnormal }},
	{Name: "rel_error", Label: "relative error", Share: true, of: func(q *results.Quantised) float64 { return q.RelError }},
	{Name: "cosine", Label: "cosine", Share: true, Least: true, of: func(q *results.Quantised) float64 { return q.Cosine }},
	{Name: "largest", Label: "largest magnitude", One: true, of: func(q *results.Quantised) float64 { return magnitude(q.Largest) }},
	{Name: "scale", Label: "scale", One: true, Least: true, of: func(q *results.Quantised) float64 { return magnitude(q.Scale) }},
}

// magnitude is NaN where a column has none.
func magnitude(v float64) float64 {
	if v <= 0 {
		return math.NaN()
	}
	return v
}

// EffectNamed finds a column.
func EffectNamed(name string) (Effect, bool) {
	i := slices.IndexFunc(Effects, func(e Effect) bool { return e.Name == name })
	if i < 0 {
		return Effect{}, false
	}
	return Effects[i], true
}

// Map is an effect over a run: a row for each operator of the encoder, a column for each step that has a record.
type Map struct {
	Operators []string // under Hugging Face's names, in the order of the model
	Columns   []MapColumn
}

// MapColumn is a step with a record.
type MapColumn struct {
	Phase    string
	From, To int                // steps of the run since the last one with a record: From < step <= To
	Values   map[string]float64 // by operator; absent or NaN: there is none
}

// ReadMap reads what a run recorded of an operand, or of all where that is empty, in a phase, or in all.
func ReadMap(run *results.Run, e Effect, operand, phase string) (Map, error) {
	var m Map
	var operands []string
	err := run.Trace(func(s *results.Step) {
		if len(s.Quantised) == 0 || phase != "" && s.Phase != phase {
			return
		}
		c := MapColumn{Phase: s.Phase, From: s.TotalStep - s.Step, To: s.TotalStep, Values: map[string]float64{}}
		if n := len(m.Columns); n > 0 && m.Columns[n-1].Phase == s.Phase {
			c.From = m.Columns[n-1].To
		}
		for i := range s.Quantised {
			q := &s.Quantised[i]
			if !slices.Contains(operands, q.Operand) {
				operands = append(operands, q.Operand)
			}
			if operand != "" && q.Operand != operand {
				continue
			}
			if !slices.Contains(m.Operators, q.Operator) {
				m.Operators = append(m.Operators, q.Operator)
			}
			v := e.of(q)
			if before, ok := c.Values[q.Operator]; ok && (e.Least && before < v || !e.Least && before > v) {
				v = before
			}
			c.Values[q.Operator] = v
		}
		m.Columns = append(m.Columns, c)
	})
	switch {
	case err != nil:
		return m, fmt.Errorf("run %s: %w", run.Dir, err)
	case operand != "" && len(operands) > 0 && !slices.Contains(operands, operand):
		return m, fmt.Errorf("run %s has no record of the operand %q%s (there are: %s)", run.Dir, operand, spelling.Hint(operand, operands),
			strings.Join(operands, ", "))
	case operand == "" && e.One && len(operands) > 1:
		return m, fmt.Errorf("%s is of one operand: choose among %s", e.Name, strings.Join(operands, ", "))
	}
	return m, nil
}

// MeanMap is the mean of at least one map, over runs: of the steps and operators that all have.
func MeanMap(maps []Map) Map {
	mean := Map{Operators: maps[0].Operators}
	for _, c := range maps[0].Columns {
		sum := MapColumn{Phase: c.Phase, From: c.From, To: c.To, Values: map[string]float64{}}
		in := 0
		for _, m := range maps {
			i := slices.IndexFunc(m.Columns, func(d MapColumn) bool { return d.Phase == c.Phase && d.From == c.From && d.To == c.To })
			if i < 0 {
				break
			}
			in++
			for operator := range c.Values {
				v, ok := m.Columns[i].Values[operator]
				if !ok {
					v = math.NaN()
				}
				sum.Values[operator] += v / float64(len(maps))
			}
		}
		if in == len(maps) {
			mean.Columns = append(mean.Columns, sum)
		}
	}
	return mean
}
