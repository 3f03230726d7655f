package train

import (
	"context"
	"fmt"
	"math"

	"harness.invalid/core/checkpoint/safetensors"
	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/results"
)

// judge compares an evaluation with the best one so far. It keeps the parameters if the evaluation is better, and
// stops the phase early if none has been better for too long.
func (p *phase) judge(metrics map[string]float64) error {
	e := &p.recipe.Evaluation
	if e.Patience == 0 && !e.KeepBest {
		return nil
	}
	m := p.recipe.Judge()
	v, ok := metrics[m.Name]
	if !ok {
		return fmt.Errorf("the evaluation has no metric %s", m.Name)
	}
	better := p.Best == nil || m.Higher && v > p.Best.Value || !m.Higher && v < p.Best.Value
	if math.IsNaN(v) || !better {
		p.Stale++
		p.Stopped = e.Patience > 0 && p.Stale >= e.Patience
		return nil
	}
	p.Best, p.Stale = &results.Best{Metric: m.Name, Value: v, Step: p.Step}, 0
	if !e.KeepBest {
		return nil
	}
	return p.saveBest()
}

// bestFile holds the parameters of the best evaluation. A resumed run may find those of an evaluation that is still
// to come: it writes them again, with the same bits, before it needs them.
func (p *phase) bestFile() string { return p.record.Path(p.recipe.Name + ".best.safetensors") }

func (p *phase) saveBest() error {
	var contents []weights.Content
	for _, t := range p.memory.Layout.Tensors() {
		contents = append(contents, weights.Of(t.Name, t.Shape, t.Of(p.memory.Params)))
	}
	return safetensors.Write(p.bestFile(), contents, nil)
}

// conclude evaluates the model at the end of a phase, as the phase hands it on: an optimizer's average takes the
// place of the parameters that were trained. With KeepBest the parameters of the best evaluation come back, and are
// evaluated once more for the files that go into the run's folder. If no evaluation could be judged because all
// diverged, the last parameters stay.
func (p *phase) conclude(ctx context.Context) (map[string]float64, error) {
	if _, err := p.useAverage(ctx); err != nil {
		return nil, err
	}
	if !p.Stopped { // otherwise an evaluation has just stopped the phase at this step
		metrics, err := p.evaluate(ctx, true)
		if err != nil || !p.hasBetter() {
			return metrics, err
		}
	}
	if p.hasBetter() {
		if err := p.readBest(); err != nil {
			return nil, err
		}
		// The values are in the device's format already, so it changes none of them.
		if err := p.session.Commit(ctx, p.done); err != nil {
			return nil, err
		}
	}
	return p.set.evaluate(ctx, p.session, true, p.record.Path, p.recipe.Name)
}

// hasBetter reports whether the phase keeps other parameters than the last ones.
func (p *phase) hasBetter() bool {
	return p.recipe.Evaluation.KeepBest && p.Best != nil && p.Best.Step != p.Step
}

func (p *phase) readBest() error {
	f, err := safetensors.Open(p.bestFile())
	if err != nil {
		return err
	}
	defer f.Close()
	for _, t := range p.memory.Layout.Tensors() {
		if err := f.ReadFloat32s(t.Name, t.Of(p.memory.Params)); err != nil {
			return err
		}
	}
	return nil
}
