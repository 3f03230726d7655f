package machine

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"harness.invalid/core/backend"
)

// Checked is what a machine model was held against: published rows, and how far a model that was fitted without a row's
// program was off.
type Checked struct {
	Rows   []Row
	Errors []float64                     // of the rows, modelled/published - 1
	Chips  []string                      // that the rows ran on
	Format func(precision string) string // in which the model computes; nil: the precision itself
	Kind   string                        // of the rows; "": published
}

// ConfidenceLevel is the share of published rows that intervals are made to contain. Some ten rows support no higher
// one.
const ConfidenceLevel = 0.8

// Confidence says how sure a modelled throughput of a program on a chip is.
//
// The interval is the jackknife's, on logarithms: the ⌈(n+1)·level⌉-th smallest of the n errors of rows that were not in
// the fit, to either side (Barber et al. 2021, arXiv:1905.02928, section 1.2; rows of the same program leave the fit
// together). It speaks for programs like the published ones. Whether this is one is Inside.
func (c *Checked) Confidence(p *backend.Program, chip string, sequencesPerSecond float64) *backend.Confidence {
	width := c.width()
	outside := c.outside(p, chip)
	why := fmt.Sprintf("leave-one-out errors of %d %s rows (%s)", len(c.Rows), c.kind(), strings.Join(c.software(), ", "))
	if len(outside) > 0 {
		why = strings.Join(outside, "; ")
	}
	return &backend.Confidence{
		Low: sequencesPerSecond * math.Exp(-width), High: sequencesPerSecond * math.Exp(width), Level: ConfidenceLevel,
		Inside: len(outside) == 0, Why: why,
	}
}

// width is half the interval of a logarithm; infinite for too few rows.
func (c *Checked) width() float64 {
	var errors []float64
	for _, e := range c.Errors {
		errors = append(errors, math.Abs(math.Log1p(e)))
	}
	slices.Sort(errors)
	k := int(math.Ceil(float64(len(errors)+1) * ConfidenceLevel))
	if k > len(errors) {
		return math.Inf(1)
	}
	return errors[k-1]
}

// Covered reports of each row whether the interval from the errors of all others contains it.
func (c *Checked) Covered() (covered []bool) {
	for i, e := range c.Errors {
		others := Checked{Errors: slices.Delete(slices.Clone(c.Errors), i, i+1)}
		covered = append(covered, math.Abs(math.Log1p(e)) <= others.width())
	}
	return covered
}

func (c *Checked) kind() string { return cmp.Or(c.Kind, "published") }

func (c *Checked) software() []string {
	var names []string
	for i := range c.Rows {
		if f := c.Rows[i].Framework; !slices.Contains(names, f) {
			names = append(names, f)
		}
	}
	return names
}

// outside lists in what the program leaves the published ones: size of the model, length, tokens of a micro-batch and of
// a step, replicas, chip and format.
func (c *Checked) outside(p *backend.Program, chip string) []string {
	type measure struct {
		one, many string
		of        func(*backend.Program) int
	}
	var list []string
	programs := make([]backend.Program, len(c.Rows))
	for i := range c.Rows {
		programs[i], _ = c.Rows[i].Program() // ReadRows has checked it
	}
	for _, m := range []measure{
		{"layer", "layers", func(p *backend.Program) int { return p.Model.NumHiddenLayers }},
		{"hidden unit", "hidden units", func(p *backend.Program) int { return p.Model.HiddenSize }},
		{"token a sequence", "tokens a sequence", func(p *backend.Program) int { return p.Length }},
		{"token a micro-batch", "tokens a micro-batch", func(p *backend.Program) int { return p.Length * p.MicroBatch }},
		{"token a step of a replica", "tokens a step of a replica",
			func(p *backend.Program) int { return p.Length * p.MicroBatch * p.Accumulation }},
		{"replica", "replicas", func(p *backend.Program) int { return p.Replicas }},
	} {
		low, high := math.MaxInt, 0
		for i := range programs {
			low, high = min(low, m.of(&programs[i])), max(high, m.of(&programs[i]))
		}
		if v := m.of(p); v < low || v > high {
			published := fmt.Sprint(low)
			if high > low {
				published = fmt.Sprintf("%d to %d", low, high)
			}
			what := m.many
			if v == 1 {
				what = m.one
			}
			list = append(list, fmt.Sprintf("%d %s, %s: %s", v, what, c.kind(), published))
		}
	}
	format := func(precision string) string {
		if c.Format == nil {
			return precision
		}
		return c.Format(precision)
	}
	of := func(chip, precision string) string { return chip + " in " + format(precision) }
	var published []string
	for i := range c.Rows {
		published = append(published, of(c.Chips[i], programs[i].Precision))
	}
	slices.SortFunc(published, cmp.Compare)
	if published = slices.Compact(published); !slices.Contains(published, of(chip, p.Precision)) {
		list = append(list, fmt.Sprintf("%s, %s: %s", of(chip, p.Precision), c.kind(), strings.Join(published, ", ")))
	}
	return list
}
