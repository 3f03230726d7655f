package machine

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/goccy/go-yaml"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/optimizer"
)

// Row is a published throughput with the program that gave it.
type Row struct {
	Name           string            `yaml:"name"`
	Source         string            `yaml:"source"`
	System         string            `yaml:"system"`
	Framework      string            `yaml:"framework"`
	Model          string            `yaml:"model"`
	Vocab          int               `yaml:"vocab"`
	Task           bert.Task         `yaml:"task"`
	Length         int               `yaml:"length"`
	MaxPredictions int               `yaml:"max_predictions"`
	MicroBatch     int               `yaml:"micro_batch"`
	Accumulation   int               `yaml:"accumulation"`
	Replicas       int               `yaml:"replicas"`
	Precision      string            `yaml:"precision"`
	Optimizer      Rule              `yaml:"optimizer"`
	Packing        float64           `yaml:"packing"`
	Options        map[string]string `yaml:"options"`
	// AttentionDropout is that of the published configuration.
	AttentionDropout float64 `yaml:"attention_dropout"`
	// SequencesPerSecond that were published.
	SequencesPerSecond float64 `yaml:"sequences_per_second"`
	// Times that were published instead: how many times as many sequences a second as the same program has when its batch
	// is cut as in Base.
	Times float64 `yaml:"times"`
	Base  Cut     `yaml:"base"`
	// HeldOut rows are not fitted: they judge the model.
	HeldOut bool `yaml:"held_out"`
	// Unexplained says of a row beyond the goal what the model does not know.
	Unexplained string `yaml:"unexplained"`
}

// Cut is another way to share out a global batch.
type Cut struct {
	Accumulation int `yaml:"accumulation"`
	Replicas     int `yaml:"replicas"`
}

// Rule is the optimizer of a row.
type Rule struct {
	Name    string            `yaml:"name"`
	Options map[string]string `yaml:"options"`
}

// ReadRows reads a list of rows.
func ReadRows(text []byte) ([]Row, error) {
	var rows []Row
	if err := yaml.UnmarshalWithOptions(text, &rows, yaml.Strict()); err != nil {
		return nil, place(err)
	}
	for _, r := range rows {
		if _, err := r.Program(); err != nil {
			return nil, fmt.Errorf("%s: %w", r.Name, err)
		}
		switch {
		case r.Times > 0 && r.SequencesPerSecond == 0:
			if _, err := r.at(r.Base).Program(); err != nil {
				return nil, fmt.Errorf("%s: base: %w", r.Name, err)
			}
		case !(r.SequencesPerSecond > 0) || r.Times != 0:
			return nil, fmt.Errorf("%s: sequences_per_second is %g and times %g, want one of them, positive",
				r.Name, r.SequencesPerSecond, r.Times)
		}
	}
	return rows, nil
}

// at is the row with its batch cut another way.
func (r *Row) at(c Cut) *Row {
	o := *r
	o.Accumulation, o.Replicas = c.Accumulation, c.Replicas
	return &o
}

// Published is the published figure.
func (r *Row) Published() float64 { return cmp.Or(r.Times, r.SequencesPerSecond) }

// Modelled is what a model says in place of the published figure, where rate is the throughput that it gives a row.
func (r *Row) Modelled(rate func(*Row) (sequencesPerSecond float64, err error)) (float64, error) {
	v, err := rate(r)
	if err != nil || r.Times == 0 {
		return v, err
	}
	base, err := rate(r.at(r.Base))
	return v / base, err
}

// Program is what ran.
func (r *Row) Program() (backend.Program, error) {
	c := bert.Defaults()
	c, err := c.Size(r.Model)
	if err != nil {
		return backend.Program{}, err
	}
	c.VocabSize, c.AttentionProbsDropoutProb = r.Vocab, r.AttentionDropout
	p := backend.Program{
		Model: c, Head: bert.Head{Task: r.Task}, Precision: r.Precision, Options: r.Options, Length: r.Length, MaxPredictions: r.MaxPredictions,
		MicroBatch: r.MicroBatch, Accumulation: r.Accumulation, Replicas: r.Replicas,
	}
	return p, p.Validate()
}

// Machine is what it ran on, with an optimizer.
func (r *Row) Machine(update optimizer.Cost) backend.Machine {
	return backend.Machine{System: r.System, Update: update, Packing: r.Packing}
}

// Fit finds the constants, all positive, for which the modelled throughput comes nearest to the published one. It
// minimizes the sum of squared logarithms of their ratios, so that 10% too fast counts as much as 10% too slow, on
// large systems and small ones alike. From start it moves along one constant after another, in steps of 17% at first
// and 1% at the end (a compass search). The same rows always give the same constants, and fits of other rows try the
// same grid of values.
func Fit(rows []Row, start []float64, modelled func(r *Row, constants []float64) (float64, error)) ([]float64, error) {
	steps := make([]int, len(start)) // each constant is start times fitStep to this power
	constants := func(steps []int) []float64 {
		c := make([]float64, len(steps))
		for i, n := range steps {
			c[i] = start[i] * math.Pow(fitStep, float64(n))
		}
		return c
	}
	loss := func(steps []int) (float64, error) {
		c, sum := constants(steps), 0.
		for i := range rows {
			v, err := rows[i].Modelled(func(r *Row) (float64, error) { return modelled(r, c) })
			if err != nil {
				return 0, fmt.Errorf("%s: %w", rows[i].Name, err)
			}
			d := math.Log(v / rows[i].Published())
			sum += d * d
		}
		return sum, nil
	}
	least, err := loss(steps)
	if err != nil {
		return nil, err
	}
	for size, tries := 16, 0; size > 0; tries++ {
		moved := false
		for i := range steps {
			for _, by := range []int{-size, size} {
				next := slices.Clone(steps)
				next[i] += by
				l, err := loss(next)
				if err != nil {
					return nil, err
				}
				if l < least {
					steps, least, moved = next, l, true
					break
				}
			}
		}
		if !moved || tries > maxFitTries {
			size, tries = size/2, 0
		}
	}
	return constants(steps), nil
}

// fitStep is the smallest step of a fit; maxFitTries limits the rounds with one step size.
const (
	fitStep     = 1.01
	maxFitTries = 100
)
