package train

import (
	"context"
	"errors"
	"io"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/evaluation"
)

// PredictionJob runs a fine-tuned model over the examples of its task.
type PredictionJob struct {
	Recipe    *recipe.Recipe // its last phase is the task's, its model folder has the model
	Backend   string
	Precision string // empty: the recipe's, or the backend's default
	Plugins   Plugins
	Files     []string
	Progress  func(done, all int) // in sequences; may be nil
}

// Predict returns the examples and the model's predictions for them. It trains nothing and draws no random numbers.
func Predict(ctx context.Context, j PredictionJob) (_ *evaluation.Data, _ *evaluation.Predictions, err error) {
	p := &j.Recipe.Phases[len(j.Recipe.Phases)-1]
	t := p.FineTuning()
	examples, err := evaluation.Read(t, j.Files...)
	if err != nil {
		return nil, nil, err
	}
	d := new(Data)
	defer func() { err = errors.Join(err, d.Close()) }()
	files := j.Recipe.Data.Files
	if err := d.openModel(&files, io.Discard); err != nil {
		return nil, nil, err
	}
	if err := d.openTokenizer(&files, j.Recipe.Vocab.Lowercase, io.Discard); err != nil {
		return nil, nil, err
	}
	if t.Open {
		labels, err := d.model.Labels()
		if err != nil {
			return nil, nil, err
		}
		examples.SetLabels(labels)
		p.Labels, p.NumLabels = labels, len(labels)
	} else if err := d.model.CheckLabels(t); err != nil {
		return nil, nil, err
	}
	e, err := evaluation.New(examples, d.Tokenizer, p)
	if err != nil {
		return nil, nil, err
	}
	program, err := j.Recipe.Program(p, j.Backend, j.Precision, d.Tokenizer.Vocab().Len(), 0)
	if err != nil {
		return nil, nil, err
	}
	predictions, err := d.predict(ctx, j, program, e)
	return examples, predictions, err
}

// predict opens a session over the model's parameters and evaluates it.
func (d *Data) predict(
	ctx context.Context, j PredictionJob, program backend.Program, e *evaluation.Evaluator,
) (_ *evaluation.Predictions, err error) {
	l, err := bert.Parameters(program.Model, program.Head)
	if err != nil {
		return nil, err
	}
	m, err := j.Plugins.Allocate(l, 0)
	if err != nil {
		return nil, err
	}
	if err := d.model.LoadAll(l, m.Params); err != nil {
		return nil, err
	}
	s, err := j.Plugins.Backend().Open(ctx, program, backend.Memory{Layout: l, Params: m.Params, Grads: m.Grads})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.Commit(ctx, 0); err != nil {
		return nil, err
	}
	all := e.Sequences()
	return e.Run(ctx, s, func(done int) {
		if j.Progress != nil {
			j.Progress(done, all)
		}
	})
}
