package main

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"harness.invalid/core/dataset/tasks"
	"harness.invalid/harness/evaluation"
	"harness.invalid/harness/experiment"
	"harness.invalid/harness/hint"
)

// fineTuning is what finetune, predict and evaluate have in common: a model, a task, a recipe for it, and a backend.
type fineTuning struct {
	experiment.FineTuning
	backend string
}

func (f *fineTuning) flags(cmd *cobra.Command, t *training) {
	s := cmd.Flags()
	s.StringVar(&f.Model, "model", "", "model folder: Hugging Face's, google-research/bert's, or one that harness finetune left")
	s.StringVar(&f.Task, "task", "", "task, such as squad, mrpc or tnews")
	s.StringVar(&f.backend, "backend", "", "backend, NAME, NAME:PRECISION or either with ?OPTION=VALUE&...")
	s.StringVar(&f.Recipe, "recipe", "",
		"built-in recipe or YAML file (default: finetune; to predict and evaluate the one in the model folder)")
	s.StringArrayVar(&f.Set, "set", nil, "change a field of the recipe, such as phases.*.schedule.learning_rate=1e-4 (repeatable)")
	t.runFlags(s)
	_ = cmd.RegisterFlagCompletionFunc("task", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return tasks.Names(), cobra.ShellCompDirectiveNoFileComp
	})
	_ = cmd.MarkFlagDirname("model")
}

// check reports flags that are missing.
func (f *fineTuning) check() error {
	switch {
	case f.Model == "":
		return hint.With(errors.New("--model names no model folder"),
			"harness run --save-model leaves one; harness convert makes one of other formats")
	case f.backend == "":
		return hint.With(errors.New("--backend names no backend"), "--backend gpu-ref")
	}
	return nil
}

// predict runs the model over files, for predict and evaluate.
func (f *fineTuning) predict(cmd *cobra.Command, t *training, files []string) (*evaluation.Data, *evaluation.Predictions, error) {
	if err := f.check(); err != nil {
		return nil, nil, err
	}
	r, err := f.LoadTrained()
	if err != nil {
		return nil, nil, advise(err)
	}
	if len(files) == 0 {
		return nil, nil, errors.New("want --data: what to answer")
	}
	arm, err := experiment.ParseArm(f.backend, "")
	if err != nil {
		return nil, nil, err
	}
	p := newProgress(cmd.ErrOrStderr(), t.quiet)
	defer p.close()
	return experiment.Predict(cmd.Context(), experiment.Prediction{
		Recipe: r, Arm: arm, Files: files, Transport: t.Transport, Observe: p.observe,
	})
}

// savePredictions writes predictions into a folder, which it creates if necessary.
func savePredictions(p *evaluation.Predictions, dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	return p.Save(func(name string) string { return filepath.Join(dir, name) })
}
