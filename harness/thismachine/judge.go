package thismachine

import (
	"slices"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/machine"
	"harness.invalid/core/optimizer"
)

// fewest steps with which an interval of machine.ConfidenceLevel exists.
const fewest = 4

const predictions = 20 // of a sequence of 128 tokens

// confidence comes from the measured steps; nothing was fitted to any of them.
func (s *System) confidence(p *backend.Program, sequencesPerSecond float64) *backend.Confidence {
	if len(s.Steps) < fewest {
		return nil
	}
	c := machine.Checked{Kind: "measured"}
	for _, t := range s.Steps {
		modelled, err := s.modelled(t)
		if err != nil {
			return nil
		}
		c.Rows, c.Chips, c.Errors = append(c.Rows, t.row()), append(c.Chips, s.CPU), append(c.Errors, t.Seconds/modelled-1)
	}
	q := *p
	q.Precision = precision
	return c.Confidence(&q, s.CPU, sequencesPerSecond)
}

const precision = "fp32" // the only precision that was measured

// row is a measured step as a row that judges the model.
func (t Step) row() machine.Row {
	return machine.Row{
		Name: t.Model, Framework: "steps on this machine", Model: t.Model, Vocab: bert.Defaults().VocabSize, Task: bert.Pretraining,
		Length: t.Length, MaxPredictions: predictions, MicroBatch: t.Batch, Accumulation: 1, Replicas: 1, Precision: precision,
		AttentionDropout: 0.1, SequencesPerSecond: float64(t.Batch) / t.Seconds,
	}
}

// modelled is what the model says of a measured step, in seconds.
func (s *System) modelled(t Step) (seconds float64, err error) {
	row := t.row()
	p, err := row.Program()
	if err != nil {
		return 0, err
	}
	update, err := adamW(&p)
	if err != nil {
		return 0, err
	}
	e, err := s.step(p, update)
	return e.StepSeconds, err
}

// adamW reads parameters, gradients and two moments, and writes parameters and moments; its arithmetic is hidden behind
// that.
func adamW(p *backend.Program) (optimizer.Cost, error) {
	l, err := bert.Parameters(p.Model, p.Head)
	c := optimizer.Cost{Slots: optimizer.FP32Slots("m", "v")}
	if err == nil {
		c.Tensors = slices.Repeat([]optimizer.TensorCost{{Params: 2, Grads: 1}}, len(l.Tensors()))
	}
	return c, err
}

// Judged is a measured step beside the model's.
type Judged struct {
	Step
	Modelled  float64 // seconds
	Low, High float64 // interval of the modelled seconds from the errors of all other steps; 0: there are too few
}

// Judge holds the model against every measured step.
func (s *System) Judge() ([]Judged, error) {
	var list []Judged
	for i, t := range s.Steps {
		modelled, err := s.modelled(t)
		if err != nil {
			return nil, err
		}
		j := Judged{Step: t, Modelled: modelled}
		others := *s
		others.Steps = slices.Delete(slices.Clone(s.Steps), i, i+1)
		row := t.row()
		p, err := row.Program()
		if err != nil {
			return nil, err
		}
		if c := others.confidence(&p, float64(t.Batch)/modelled); c != nil {
			j.Low, j.High = float64(t.Batch)/c.High, float64(t.Batch)/c.Low
		}
		list = append(list, j)
	}
	return list, nil
}
