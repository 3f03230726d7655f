package experiment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/plugin/host"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/bench"
	"harness.invalid/harness/evaluation"
	"harness.invalid/harness/inference"
	"harness.invalid/harness/processes"
	"harness.invalid/harness/train"
)

// Inference says which model answers on which backend.
type Inference struct {
	Arm       Arm // without an optimizer
	Transport host.Transport
	Output    Observer // told what plugins print; may be nil
	Batch     int      // most sequences that are computed at once

	// A fine-tuned model and examples of its task.
	Recipe *recipe.Recipe // see FineTuning.LoadTrained; nil: Random is answered
	Files  []string       // none: Serving.Ask alone is of use
	// Random is a model of a published size with initial values, which answers random tokens.
	Random bench.StepOptions
}

// warmUp is how many batches are answered before anything is measured, and after them how long the rate is taken.
const (
	warmUp    = 2
	rateTime  = 300 * time.Millisecond
	sequences = 1024 // of random tokens
)

// Serving is a model that is ready to answer.
type Serving struct {
	Model *inference.Model // nil: there are no examples
	// Ask answers questions about passages, of a fine-tuned model.
	Ask func(context.Context, []evaluation.Question) ([]evaluation.Answer, error)
	// Rate is how many sequences a second it answered in full batches when it was warm, and WarmUp the seconds before.
	Rate, WarmUp float64
	Precision    string

	close []func() error
}

// Close stops the backend.
func (s *Serving) Close() error {
	var errs []error
	for i := len(s.close) - 1; i >= 0; i-- {
		errs = append(errs, s.close[i]())
	}
	return errors.Join(errs...)
}

// Serve starts the backend, opens the model and warms it up.
func (i Inference) Serve(ctx context.Context) (_ *Serving, err error) {
	s := &Serving{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	pool := processes.NewPool(processes.Options{Transport: i.Transport, Output: i.Output})
	s.close = append(s.close, pool.Close)
	info, err := pool.Backend(ctx, i.Arm.Backend)
	if err != nil {
		return nil, err
	}
	plugins, err := pool.Take(ctx, i.Arm.Backend)
	if err != nil {
		return nil, err
	}
	s.close = append(s.close, plugins.Close)
	if i.Recipe != nil {
		err = i.trained(ctx, s, info, plugins)
	} else {
		err = i.random(ctx, s, info, plugins)
	}
	if err != nil {
		return nil, err
	}
	if s.Model == nil {
		return s, nil
	}
	return s, i.warm(ctx, s)
}

// trained opens a fine-tuned model over its examples.
func (i Inference) trained(ctx context.Context, s *Serving, info backend.Info, plugins train.Plugins) error {
	r := i.Arm.recipe(i.Recipe)
	phase := &r.Phases[len(r.Phases)-1]
	if phase.Task == bert.MultipleChoice {
		return errors.New("the choices of a question are no samples of their own: the speed of multiple choice is not measured")
	}
	settings := r.ForBackend(i.Arm.Backend, i.Arm.Precision, phase.Name)
	if err := processes.Takes(info, settings); err != nil {
		return err
	}
	precision, err := info.Precision(settings.Precision)
	if err != nil {
		return err
	}
	s.Precision = precision.Name
	a, err := train.OpenAnswerer(ctx, train.PredictionJob{
		Recipe: r, Backend: i.Arm.Backend, Precision: i.Arm.Precision, Plugins: plugins, Files: i.Files, Batch: i.Batch,
	})
	if err != nil {
		return err
	}
	s.close = append(s.close, a.Close)
	s.Ask = a.Ask
	if len(i.Files) == 0 {
		return nil
	}
	s.Model = &inference.Model{Session: a.Session, Inputs: a.Evaluator.Inputs(), Outputs: inference.OutputsOf(phase.Task)}
	if len(s.Model.Inputs) == 0 {
		return fmt.Errorf("the files have no examples")
	}
	return nil
}

// random opens a model with initial values.
func (i Inference) random(ctx context.Context, s *Serving, info backend.Info, plugins train.Plugins) error {
	o := i.Random
	precision, err := info.Precision(i.Arm.Precision)
	if err != nil {
		return err
	}
	s.Precision = precision.Name
	config, err := o.Config()
	if err != nil {
		return err
	}
	program := backend.Program{
		Model: config, Head: bert.Head{Task: o.Task}, Precision: precision.Name, Options: i.Arm.Options, Seed: 1,
		Length: o.Length, MicroBatch: i.Batch, Accumulation: 1, Replicas: 1,
	}
	l, err := bert.Parameters(program.Model, program.Head)
	if err != nil {
		return err
	}
	m, err := plugins.Allocate(l, 0)
	if err != nil {
		return err
	}
	bert.Initialize(program.Model, l, m.Params, 1)
	session, err := plugins.Backend().Open(ctx, program, backend.Memory{Layout: l, Params: m.Params, Grads: m.Grads})
	if err != nil {
		return err
	}
	s.close = append(s.close, session.Close)
	s.Model = &inference.Model{Session: session, Inputs: o.Inputs(&program, sequences), Outputs: inference.OutputsOf(o.Task)}
	return session.Commit(ctx, 0)
}

// warm answers some batches, and then measures the rate.
func (i Inference) warm(ctx context.Context, s *Serving) error {
	batch := make([]int, i.Batch)
	next := 0
	answer := func() error {
		for k := range batch {
			batch[k] = next % len(s.Model.Inputs)
			next++
		}
		return s.Model.Answer(ctx, batch)
	}
	began := time.Now()
	for range warmUp {
		if err := answer(); err != nil {
			return err
		}
	}
	s.WarmUp = time.Since(began).Seconds()
	began = time.Now()
	for next = 0; next == 0 || time.Since(began) < rateTime; {
		if err := answer(); err != nil {
			return err
		}
	}
	s.Rate = float64(next) / time.Since(began).Seconds()
	return nil
}

// Accuracy is a task's first metric of a model on a backend, beside that of the same model in FP32 on gpu-ref.
type Accuracy struct {
	Metric string  `json:"metric"`
	Value  float64 `json:"value"` // in %
	FP32   float64 `json:"fp32"`  // in %
	// Share is Value / FP32; Target99 and Target999 whether it is at least 99% and 99.9%, MLPerf's targets for BERT.
	Share     float64 `json:"share"`
	Target99  bool    `json:"target_99"`
	Target999 bool    `json:"target_99.9"`
}

// ErrUnlabelled is returned by Accuracy for examples whose answers are not known.
var ErrUnlabelled = errors.New("the examples' answers are not known")

// Accuracy runs the model over all examples twice: on its backend, and on gpu-ref in FP32.
func (i Inference) Accuracy(ctx context.Context) (*Accuracy, error) {
	score := func(arm Arm) (float64, string, error) {
		data, predictions, err := Predict(ctx, Prediction{Recipe: i.Recipe, Arm: arm, Files: i.Files, Transport: i.Transport,
			Observe: i.Output})
		if err != nil {
			return 0, "", err
		}
		if !data.Labelled() {
			return 0, "", ErrUnlabelled
		}
		return first(data, predictions)
	}
	reference, err := ParseArm("gpu-ref:fp32", "")
	if err != nil {
		return nil, err
	}
	a := &Accuracy{}
	if a.FP32, a.Metric, err = score(reference); err != nil {
		return nil, err
	}
	if a.Value, _, err = score(i.Arm); err != nil {
		return nil, err
	}
	if a.FP32 > 0 {
		a.Share = a.Value / a.FP32
	}
	a.Target99, a.Target999 = a.Share >= 0.99, a.Share >= 0.999
	return a, nil
}

// first is a task's first metric.
func first(data *evaluation.Data, p *evaluation.Predictions) (float64, string, error) {
	scores, err := data.Score(p)
	if err != nil {
		return 0, "", err
	}
	metric := data.Task.Metrics[0]
	return scores.Metrics[metric], metric, nil
}
