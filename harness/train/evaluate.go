package train

import (
	"context"
	"errors"
	"fmt"
	"time"

	"harness.invalid/core/bert"
	"harness.invalid/core/recipe"
	"harness.invalid/results"
)

// lossMetrics are the metrics that follow from the losses of a batch or an evaluation, by the names of
// recipe.Metrics: losses in nats, accuracies in %.
func lossMetrics(t bert.Task, l bert.Losses) map[string]float64 {
	m := map[string]float64{"loss": l.Total()}
	switch t {
	case bert.Pretraining:
		m["masked_lm_loss"] = l.MaskedLM.Mean()
		m["next_sentence_loss"] = l.NextSentence.Mean()
		m["masked_lm_accuracy"] = 100 * l.MaskedLM.Accuracy()
		m["next_sentence_accuracy"] = 100 * l.NextSentence.Accuracy()
	case bert.Classification, bert.TokenClassification:
		m["accuracy"] = 100 * l.Labels.Accuracy()
	}
	return m
}

// evaluate measures the model as it is and records the metrics, the target if it is reached, and the best
// evaluation. If final is set, the data set also saves what it keeps, such as predictions.
func (p *phase) evaluate(ctx context.Context, final bool) (metrics map[string]float64, err error) {
	start := time.Now()
	back, err := p.useAverage(ctx)
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
	p.Observe(Event{
		Phase: p.recipe.Name, Step: p.Step, Steps: p.steps, Metrics: metrics, Skipped: p.Step - p.Updates,
		Done: p.work.done / p.work.total,
	})
	return metrics, p.record.Evaluation(results.Evaluation{
		Phase: p.recipe.Name, Step: p.Step, TotalStep: p.done, Metrics: metrics, Sequences: p.set.evaluated(),
		MeasuredSeconds: time.Since(start).Seconds(), TrainingSeconds: p.trainingSeconds(),
	})
}

// reach notes the first evaluation that reaches the target. Its time is that of training, without evaluations and
// checkpoints.
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
