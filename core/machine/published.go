package machine

import (
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
	// HeldOut rows are not fitted.
	HeldOut bool `yaml:"held_out"`
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
		if !(r.SequencesPerSecond > 0) {
			return nil, fmt.Errorf("%s: sequences_per_second is %g, want a positive number", r.Name, r.SequencesPerSecond)
		}
	}
	return rows, nil
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
			v, err := modelled(&rows[i], c)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", rows[i].Name, err)
			}
			d := math.Log(v / rows[i].SequencesPerSecond)
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
