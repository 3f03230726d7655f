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
	Files     []string            // of examples; for OpenAnswerer there may be none
	Batch     int                 // sequences that the device computes at once; 0: the recipe's micro-batch
	Progress  func(done, all int) // in sequences; may be nil
}

// Predict returns the examples and the model's predictions for them. It trains nothing and draws no random numbers.
func Predict(ctx context.Context, j PredictionJob) (_ *evaluation.Data, _ *evaluation.Predictions, err error) {
	a, err := OpenAnswerer(ctx, j)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	all := a.Evaluator.Sequences()
	predictions, err := a.Evaluator.Run(ctx, a.Session, func(done int) {
		if j.Progress != nil {
			j.Progress(done, all)
		}
	})
	return a.Examples, predictions, err
}

// Answerer is a fine-tuned model in a session, with examples of its task.
type Answerer struct {
	Examples  *evaluation.Data      // none if no files were named
	Evaluator *evaluation.Evaluator // of the examples
	Session   backend.Session

	data  *Data
	phase *recipe.Phase
}

// Ask answers questions about passages.
func (a *Answerer) Ask(ctx context.Context, questions []evaluation.Question) ([]evaluation.Answer, error) {
	examples, err := evaluation.Ask(a.phase.FineTuning(), questions)
	if err != nil {
		return nil, err
	}
	e, err := evaluation.New(examples, a.data.Tokenizer, a.phase)
	if err != nil {
		return nil, err
	}
	predictions, err := e.Run(ctx, a.Session, nil)
	if err != nil {
		return nil, err
	}
	return predictions.Answers(a.phase.QuestionAnswering.NullScoreDiffThreshold), nil
}

// Close frees the session and the model.
func (a *Answerer) Close() error {
	var err error
	if a.Session != nil {
		err = a.Session.Close()
	}
	return errors.Join(err, a.data.Close())
}

// OpenAnswerer reads model and examples, and opens a session over the model's parameters.
func OpenAnswerer(ctx context.Context, j PredictionJob) (_ *Answerer, err error) {
	p := &j.Recipe.Phases[len(j.Recipe.Phases)-1]
	t := p.FineTuning()
	a := &Answerer{data: new(Data), phase: p}
	if len(j.Files) > 0 {
		if a.Examples, err = evaluation.Read(t, j.Files...); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	d, files := a.data, j.Recipe.Data.Files
	if err := d.openModel(&files, io.Discard); err != nil {
		return nil, err
	}
	if err := d.openTokenizer(&files, j.Recipe.Vocab.Lowercase, io.Discard); err != nil {
		return nil, err
	}
	if t.Open {
		labels, err := d.model.Labels()
		if err != nil {
			return nil, err
		}
		if a.Examples != nil {
			a.Examples.SetLabels(labels)
		}
		p.Labels, p.NumLabels = labels, len(labels)
	} else if err := d.model.CheckLabels(t); err != nil {
		return nil, err
	}
	if a.Examples != nil {
		if a.Evaluator, err = evaluation.New(a.Examples, d.Tokenizer, p); err != nil {
			return nil, err
		}
	}
	program, err := j.Recipe.Program(p, j.Backend, j.Precision, d.Tokenizer.Vocab().Len(), 0)
	if err != nil {
		return nil, err
	}
	if j.Batch > 0 {
		program.MicroBatch, program.Accumulation, program.Replicas = j.Batch, 1, 1
	}
	a.Session, err = d.session(ctx, j, program)
	return a, err
}

// session opens a session over the model's parameters.
func (d *Data) session(ctx context.Context, j PredictionJob, program backend.Program) (backend.Session, error) {
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
	if err := s.Commit(ctx, 0); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}
