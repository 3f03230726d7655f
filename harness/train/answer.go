package train

import (
	"context"
	"errors"
	"fmt"
	"io"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/evaluation"
)

// Asking has a model that was trained before answer the examples of a task.
type Asking struct {
	Recipe    *recipe.Recipe // its last phase is that of the task; its model folder is the model
	Backend   string
	Precision string // empty: the recipe's, or the backend's default
	Plugins   Plugins
	Files     []string
	Told      func(done, all int) // of sequences; nil: nobody
}

// Ask runs the model over the files. There is no training and no random choice in it.
func Ask(ctx context.Context, a Asking) (_ *evaluation.Data, _ *evaluation.Answers, err error) {
	p := &a.Recipe.Phases[len(a.Recipe.Phases)-1]
	t := p.FineTuning()
	data, err := evaluation.Read(t, a.Files...)
	if err != nil {
		return nil, nil, err
	}
	d := new(Data)
	defer func() { err = errors.Join(err, d.Close()) }()
	files := a.Recipe.Data.Files
	if err := d.openModel(&files, io.Discard); err != nil {
		return nil, nil, err
	}
	if err := d.openTokenizer(&files, a.Recipe.Vocab.Lowercase, io.Discard); err != nil {
		return nil, nil, err
	}
	if err := sameLabels(d.model.Config.Other, t); err != nil {
		return nil, nil, fmt.Errorf("model %s: %w", files.Model, err)
	}
	sheet, err := evaluation.New(data, d.Tokenizer, p)
	if err != nil {
		return nil, nil, err
	}
	config, err := a.Recipe.ModelConfig(d.Tokenizer.Vocab().Len())
	if err != nil {
		return nil, nil, err
	}
	settings := a.Recipe.ForBackend(a.Backend, a.Precision, p.Name)
	cut, err := p.Cut(settings)
	if err != nil {
		return nil, nil, err
	}
	program := backend.Program{Model: p.PhaseModel(config), Head: p.Head(), Precision: settings.Precision, Options: settings.OptionsAt(0), Length: p.Length,
		MicroBatch: cut.MicroBatch, Accumulation: cut.Accumulation, Replicas: cut.Replicas}
	if err := program.Validate(); err != nil {
		return nil, nil, err
	}
	answers, err := d.ask(ctx, a, program, sheet)
	return data, answers, err
}

// ask opens a session over the model's parameters.
func (d *Data) ask(ctx context.Context, a Asking, program backend.Program, sheet *evaluation.Exam) (_ *evaluation.Answers, err error) {
	l, err := bert.Parameters(program.Model, program.Head)
	if err != nil {
		return nil, err
	}
	m, err := a.Plugins.Allocate(l, 0)
	if err != nil {
		return nil, err
	}
	missing, err := d.loadModel(l, m.Params)
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("model %s lacks %s, and %d parameters in all: it was not trained for this task", d.modelName, missing[0], len(missing))
	}
	s, err := a.Plugins.Backend().Open(ctx, program, backend.Memory{Layout: l, Params: m.Params, Grads: m.Grads})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.Commit(ctx, 0); err != nil {
		return nil, err
	}
	all := sheet.Sequences()
	return sheet.Sit(ctx, s, func(done int) {
		if a.Told != nil {
			a.Told(done, all)
		}
	})
}
