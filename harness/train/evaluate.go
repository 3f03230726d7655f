package train

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"harness.invalid/core/bert"
	"harness.invalid/core/recipe"
	"harness.invalid/results"
)

// lossParts are the mean losses that make up the loss of a task, in nats, by the names of recipe.Metrics.
func lossParts(t bert.Task, l bert.Losses) map[string]float64 {
	if t == bert.Pretraining {
		return map[string]float64{"masked_lm_loss": l.MaskedLM.Mean(), "next_sentence_loss": l.NextSentence.Mean()}
	}
	return nil
}

// lossMetrics are what the losses of an evaluation say: losses in nats, accuracies in %.
func lossMetrics(t bert.Task, l bert.Losses) map[string]float64 {
	m := map[string]float64{"loss": l.Total()}
	maps.Copy(m, lossParts(t, l))
	switch t {
	case bert.Pretraining:
		m["masked_lm_accuracy"] = 100 * l.MaskedLM.Accuracy()
		m["next_sentence_accuracy"] = 100 * l.NextSentence.Accuracy()
	case bert.Classification:
		m["accuracy"] = 100 * l.Labels.Accuracy()
	}
	return m
}

// evaluate measures the model as it is, records it and looks whether the target is reached. final also writes what the data set keeps, such as
// predictions.
func (p *phase) evaluate(ctx context.Context, final bool) (metrics map[string]float64, err error) {
	start := time.Now()
	back, err := p.showModel(ctx)
	if err != nil {
		return nil, fmt.Errorf("evaluation after step %d: %w", p.Step, err)
	}
	defer func() { err = errors.Join(err, back()) }()
	metrics, err = p.set.evaluate(ctx, p.session, final, p.record.Path, p.recipe.Name)
	if err != nil {
		return nil, fmt.Errorf("evaluation after step %d: %w", p.Step, err)
	}
	p.lap(partEvaluation, start)
	p.Evaluated = p.Step
	p.reach(metrics)
	if err := p.judge(metrics); err != nil {
		return nil, err
	}
	p.Observe(Event{Phase: p.recipe.Name, Step: p.Step, Steps: p.steps, Metrics: metrics, Skipped: p.Step - p.Updates, Done: p.work.done / p.work.total})
	return metrics, p.record.Evaluation(results.Evaluation{
		Phase: p.recipe.Name, Step: p.Step, TotalStep: p.done, Metrics: metrics, Sequences: p.set.evaluated(),
		MeasuredSeconds: time.Since(start).Seconds(), TrainingSeconds: p.trainingSeconds(),
	})
}

// reach notes the first evaluation that reaches the target. Its time is that of training: evaluations and checkpoints are not counted.
func (p *phase) reach(metrics map[string]float64) {
	t := p.recipe.Target
	if t == nil || p.Target != nil && p.Target.Step > 0 {
		return
	}
	p.Target = &results.Reached{Metric: t.Metric, Value: t.Value}
	m, _ := recipe.MetricNamed(t.Metric)
	v, ok := metrics[t.Metric]
	if ok && (m.Higher && v >= t.Value || !m.Higher && v <= t.Value) {
		p.Target.Step, p.Target.MeasuredSeconds, p.Target.ModelledSeconds = p.Step, p.trainingSeconds(), p.clock.seconds(p.Step)
	}
}

// trainingSeconds is the measured time of the steps.
func (p *phase) trainingSeconds() float64 {
	return p.Seconds[partData] + p.Seconds[partBackend] + p.Seconds[partOptimizer] + p.Seconds[partCommit]
}

// finish adds the phase to the result of the run.
func (p *phase) finish(metrics map[string]float64) {
	p.Seconds["training"] = p.trainingSeconds()
	p.Seconds["total"] = p.Seconds["training"] + p.Seconds[partSetup] + p.Seconds[partEvaluation] + p.Seconds[partCheckpoint]
	skipped := p.Step - p.Updates
	p.outcome.AddPhase(results.PhaseResult{
		Name: p.recipe.Name, Steps: p.Step, Skipped: skipped, Sequences: p.Sequences,
		Metrics: metrics, MeasuredSeconds: p.Seconds, PeakMemoryBytes: p.peakMemory(), Target: p.Target, Best: p.Best,
		System: p.clock.system, ModelledSeconds: p.clock.seconds(p.Step),
	})
	if p.Stopped && p.Step < p.steps {
		p.note("phase %s: stopped after step %d of %d, since %d evaluations in a row were no better in %s", p.recipe.Name, p.Step, p.steps, p.Stale, p.recipe.Judge().Name)
	}
	if skipped*2 > p.Step {
		p.note("phase %s: %d of %d steps were skipped because a gradient was not finite; a smaller loss scale may help", p.recipe.Name, skipped, p.Step)
	}
	for _, n := range p.set.notes() {
		p.note("phase %s: %s", p.recipe.Name, n)
	}
}

// peakMemory is what the processes have taken so far, if the plugins can tell.
func (p *phase) peakMemory() map[string]int64 {
	if m, ok := p.Plugins.(interface{ PeakMemory() map[string]int64 }); ok {
		return m.PeakMemory()
	}
	return nil
}
