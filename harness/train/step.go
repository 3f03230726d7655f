package train

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/optimizer"
	"harness.invalid/results"
)

// step trains on one global batch: next batch, gradient, update, commit, record. A signal does not cut it short: a step is
// done completely or not begun.
func (p *phase) step(ctx context.Context, batches <-chan loaded) error {
	r := p.newStepRecord()
	next, err := nextBatch(ctx, batches, r)
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	g, err := p.gradient(ctx, next.batch, r)
	if err != nil {
		return err
	}
	if g.Finite {
		if err := p.update(ctx, g.GradientNorm, r); err != nil {
			return err
		}
		if err := p.commit(ctx, r); err != nil {
			return err
		}
	}
	return p.complete(ctx, next, r)
}

// nextBatch waits for a batch. The channel is closed before the last step only because ctx is done.
func nextBatch(ctx context.Context, batches <-chan loaded, r *stepRecord) (loaded, error) {
	next, ok := <-batches
	if !ok {
		return loaded{}, context.Cause(ctx)
	}
	r.lap(partData)
	return next, next.err
}

// gradient leaves the gradient of a batch in memory: the second one if the optimizer asks for two.
func (p *phase) gradient(ctx context.Context, b *bert.Batch, r *stepRecord) (backend.StepResult, error) {
	g, err := p.compute(ctx, b)
	if err != nil {
		return g, err
	}
	r.lap(partBackend)
	if g.Finite && p.prober != nil {
		if err := p.secondGradient(ctx, b, &g, r); err != nil {
			return g, err
		}
	}
	r.describe(p.recipe.Task, b, g)
	return g, nil
}

// compute has the backend compute the gradient of a batch at the committed parameters.
func (p *phase) compute(ctx context.Context, b *bert.Batch) (backend.StepResult, error) {
	step := p.backendStep(b)
	g, err := p.check.gradient(step, microBatches(b, p.program.MicroBatch),
		func(batches iter.Seq2[*bert.Batch, error]) (backend.StepResult, error) {
			return p.session.Step(ctx, step, batches)
		})
	if errors.Is(err, ErrContract) {
		err = fmt.Errorf("backend %s: %w", p.Backend, err)
	}
	return g, err
}

// backendStep tells the backend about the step that comes next.
func (p *phase) backendStep(b *bert.Batch) backend.Step {
	s := backend.Step{
		Step: p.done + 1, Sequences: b.Size, MaskedWeight: b.MaskedWeight(), NextSentenceWeight: b.NextSentenceWeight(),
	}
	if p.recipe.Task == bert.TokenClassification {
		s.LabelWeight = b.LabelWeight()
	}
	return s
}

// update has the optimizer change the parameters in memory. norm is that of the gradient.
func (p *phase) update(ctx context.Context, norm float64, r *stepRecord) error {
	p.between = false
	step := p.optimizerStep(norm)
	err := p.check.update(step.LR, norm, func() (float64, error) {
		u, err := p.optimizer.Step(ctx, step)
		r.line.GradientNorm = results.Number(u.GradientNorm)
		return u.GradientNorm, err
	})
	if errors.Is(err, ErrContract) {
		err = fmt.Errorf("optimizer %s: %w", p.rule.Name, err)
	}
	if err != nil {
		return err
	}
	r.lap(partOptimizer)
	return nil
}

// optimizerStep tells the optimizer about the step that comes next. It counts its own steps: skipped ones are none.
func (p *phase) optimizerStep(norm float64) optimizer.Step {
	return optimizer.Step{Step: p.Updates + 1, LR: p.learningRate(), GradientNorm: norm}
}

// learningRate is that of the step that comes next. The schedule goes on when a step is skipped.
func (p *phase) learningRate() float64 { return p.schedule.LR(p.Step+1, p.steps) }

// commit hands the parameters in memory to the device, which may round them.
func (p *phase) commit(ctx context.Context, r *stepRecord) error {
	if err := p.session.Commit(ctx, p.done+1); err != nil {
		return err
	}
	r.lap(partCommit)
	return nil
}

// complete counts a step that is done, and records it. From here on a checkpoint includes it.
func (p *phase) complete(ctx context.Context, trained loaded, r *stepRecord) error {
	if err := p.keepState(ctx); err != nil {
		return err
	}
	p.digest.add(trained.batch)
	p.position = trained.after
	p.Step++
	p.done++
	p.Sequences += int64(sequences(trained.batch))
	if r.line.Finite {
		p.Updates++
	}
	p.between = true
	return p.write(r)
}

// sequences counts the sequences of a batch, packed ones one by one.
func sequences(b *bert.Batch) int {
	if packed := b.NextSentenceWeight(); packed > 0 {
		return int(packed)
	}
	return b.Size
}

// stepRecord is the record of the step under way: it times the parts of the step, adds them to the totals of the
// phase, and ends as a line of steps.jsonl.
type stepRecord struct {
	line     results.Step
	parts    []backend.Phase   // of the backend's time, as the backend measured them
	schedule *backend.Schedule // nil unless the backend tells
	totals   map[string]float64
	start    time.Time // of the step
	last     time.Time // end of the part before
}

// newStepRecord starts the clock of the step that comes next.
func (p *phase) newStepRecord() *stepRecord {
	now := time.Now()
	return &stepRecord{
		line: results.Step{
			Phase: p.recipe.Name, Step: p.Step + 1, TotalStep: p.done + 1, LearningRate: results.Number(p.learningRate()),
			MeasuredSeconds: map[string]float64{partOptimizer: 0, partCommit: 0}, // also of a step that is skipped
			ModelledSeconds: p.clock.step, ModelledPhaseSeconds: p.clock.seconds(p.Step + 1),
			ModelledTotalSeconds: p.modelledSeconds(p.Step + 1),
		},
		totals: p.Seconds, start: now, last: now,
	}
}

// lap adds the time since the last lap to a part of the step and of the phase.
func (r *stepRecord) lap(part string) {
	now := time.Now()
	r.add(part, now.Sub(r.last).Seconds())
	r.last = now
}

func (r *stepRecord) add(part string, seconds float64) {
	r.line.MeasuredSeconds[part] += seconds
	r.totals[part] += seconds
}

// describe takes over what the backend says of a gradient.
func (r *stepRecord) describe(t bert.Task, b *bert.Batch, g backend.StepResult) {
	l := &r.line
	l.Metrics, l.LossScale, l.Sequences = lossMetrics(t, g.Losses), results.Number(g.LossScale), sequences(b)
	l.Finite, l.Overflows, l.Invalid = g.Finite, g.Overflows, g.Invalid
	for _, q := range g.Quantised {
		l.Quantised = append(l.Quantised, results.Quantised(q))
	}
	r.parts, r.schedule = g.Phases, g.Schedule
}

// write ends the record of a step that is done and tells the observer.
func (p *phase) write(r *stepRecord) error {
	r.line.MeasuredSeconds["total"] = time.Since(r.start).Seconds()
	for _, part := range r.parts {
		r.add("backend."+part.Name, part.Seconds)
	}
	if err := p.saveSchedule(r.line.TotalStep, r.schedule); err != nil {
		return err
	}
	p.noteFormats(&r.line)
	throughput, share, left := p.work.step(p.recipe, r.line.Sequences)
	p.Observe(Event{
		Phase: p.recipe.Name, Step: p.Step, Steps: p.steps, Loss: r.line.Metrics["loss"], Skipped: p.Step - p.Updates,
		Throughput: throughput, Done: share, Left: left,
	})
	return p.record.Step(r.line)
}
