package experiment

import (
	"context"
	"errors"
	"time"

	"harness.invalid/core/plugin/host"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/evaluation"
	"harness.invalid/harness/processes"
	"harness.invalid/harness/train"
)

// Prediction says which fine-tuned model answers which examples.
type Prediction struct {
	Recipe    *recipe.Recipe // see FineTuning.LoadTrained
	Arm       Arm            // without an optimizer
	Files     []string       // of examples, as the task's makers distribute them
	Transport host.Transport
	Observe   Observer // told under the task's name; nil: nobody
}

// Predict returns the examples and the model's predictions for them.
func Predict(ctx context.Context, p Prediction) (_ *evaluation.Data, _ *evaluation.Predictions, err error) {
	pool := processes.NewPool(processes.Options{Transport: p.Transport, Output: p.Observe})
	defer func() { err = errors.Join(err, pool.Close()) }()
	info, err := pool.Backend(ctx, p.Arm.Backend)
	if err != nil {
		return nil, nil, err
	}
	trained := p.Arm.recipe(p.Recipe)
	phase := &trained.Phases[len(p.Recipe.Phases)-1]
	if err := processes.Takes(info, trained.ForBackend(p.Arm.Backend, p.Arm.Precision, phase.Name)); err != nil {
		return nil, nil, err
	}
	plugins, err := pool.Take(ctx, p.Arm.Backend)
	if err != nil {
		return nil, nil, err
	}
	task := phase.FineTuning().Name
	p.Observe.tell(RunStarted{task})
	data, predictions, err := train.Predict(ctx, train.PredictionJob{
		Recipe: trained, Backend: p.Arm.Backend, Precision: p.Arm.Precision, Plugins: plugins, Files: p.Files,
		Progress: p.counter(task),
	})
	p.Observe.tell(RunEnded{task})
	return data, predictions, errors.Join(err, plugins.Close())
}

// counter reports how many sequences have been answered, and estimates the time left.
func (p Prediction) counter(task string) func(done, all int) {
	began := time.Now()
	return func(done, all int) {
		left := time.Duration(float64(time.Since(began)) * float64(all-done) / float64(done))
		p.Observe.tell(RunAdvanced{task, train.Event{
			Phase: task, Step: done, Steps: all, Done: float64(done) / float64(all), Left: left, Counted: true,
		}})
	}
}
