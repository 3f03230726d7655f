package machine

import (
	"fmt"
	"math"

	"github.com/goccy/go-yaml"
	"gonum.org/v1/gonum/optimize"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
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
	Optimizer      string            `yaml:"optimizer"`
	Packing        float64           `yaml:"packing"`
	Options        map[string]string `yaml:"options"`
	// AttentionDropout is that of the published configuration.
	AttentionDropout float64 `yaml:"attention_dropout"`
	// SequencesPerSecond that were published.
	SequencesPerSecond float64 `yaml:"sequences_per_second"`
	// HeldOut rows are not fitted.
	HeldOut bool `yaml:"held_out"`
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

// Machine is what it ran on.
func (r *Row) Machine() backend.Machine {
	return backend.Machine{System: r.System, Optimizer: r.Optimizer, Packing: r.Packing}
}

// Fit finds the constants, all positive, for which modelled comes nearest to published throughput: the least sum of squares of the logarithms of their
// ratios, so that 10% too fast weighs as much as 10% too slow, on large systems as on small ones. It begins at start. The same rows give
// the same constants (Nelder, Mead 1965, on the logarithms of the constants).
func Fit(rows []Row, start []float64, modelled func(r *Row, constants []float64) (float64, error)) ([]float64, error) {
	var failed error
	constants := func(logs []float64) []float64 {
		c := make([]float64, len(logs))
		for i, l := range logs {
			c[i] = start[i] * math.Exp(l)
		}
		return c
	}
	loss := func(logs []float64) float64 {
		c, sum := constants(logs), 0.
		for i := range rows {
			v, err := modelled(&rows[i], c)
			if err != nil {
				failed = fmt.Errorf("%s: %w", rows[i].Name, err)
				return math.Inf(1)
			}
			d := math.Log(v / rows[i].SequencesPerSecond)
			sum += d * d
		}
		return sum
	}
	result, err := optimize.Minimize(optimize.Problem{Func: loss}, make([]float64, len(start)), &optimize.Settings{
		Converger: &optimize.FunctionConverge{Absolute: 1e-7, Iterations: 20}, MajorIterations: 200,
	}, &optimize.NelderMead{SimplexSize: 0.2})
	if failed != nil {
		return nil, failed
	}
	if err != nil {
		return nil, fmt.Errorf("fit: %w", err)
	}
	return constants(result.X), nil
}
