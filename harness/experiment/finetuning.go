package experiment

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"

	"harness.invalid/core/dataset/tasks"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/pretrained"
)

// FineTuning names a model, a task, and the recipe that the model is or was fine-tuned with.
type FineTuning struct {
	Recipe string   // empty: finetune, or what LoadTrained finds
	Set    []string // overrides of fields, PATH=VALUE
	Model  string   // folder
	Task   string
	Train  []string // files to train on; empty: the recipe's
	Dev    []string // files to evaluate on; empty: the recipe's
}

// ErrNoTask is returned when neither a FineTuning nor the recipe in its model's folder names a task.
var ErrNoTask = errors.New("no task is given")

// ErrNoExamples is returned by FineTuning.Load when files to train or to evaluate on are missing.
var ErrNoExamples = errors.New("no files to train and to evaluate on are given")

// Load returns the recipe for fine-tuning the model on the task.
func (f FineTuning) Load() (*recipe.Recipe, error) {
	f.Recipe = cmp.Or(f.Recipe, "finetune")
	r, err := f.load(false)
	if err != nil {
		return nil, err
	}
	task := r.Phases[len(r.Phases)-1].FineTuning().Name
	files := r.Data.Files.Of(task)
	if len(f.Train) > 0 {
		files.Train = f.Train
	}
	if len(f.Dev) > 0 {
		files.Dev = f.Dev
	}
	r.Data.Files.Set(task, files)
	if len(files.Train) == 0 || len(files.Dev) == 0 {
		return nil, ErrNoExamples
	}
	return r, nil
}

// LoadTrained returns the recipe that the model was fine-tuned with. If none is named, it is the one that
// fine-tuning left in the model's folder, which also names the task.
func (f FineTuning) LoadTrained() (*recipe.Recipe, error) {
	left := false
	if path := filepath.Join(f.Model, pretrained.RecipeFile); f.Recipe == "" {
		if _, err := os.Stat(path); err == nil {
			f.Recipe, left = path, true
		}
	}
	f.Recipe = cmp.Or(f.Recipe, "finetune")
	if f.Task == "" && left {
		r, err := recipe.Load(f.Recipe)
		if err != nil {
			return nil, err
		}
		if t := r.Phases[len(r.Phases)-1].FineTuning(); t != nil {
			f.Task = t.Name
		}
	}
	return f.load(left)
}

// load reads the recipe and limits it to the task. A recipe that was left in the model's folder names data files of
// that training, which are dropped.
func (f FineTuning) load(left bool) (*recipe.Recipe, error) {
	if f.Task == "" {
		return nil, ErrNoTask
	}
	t, err := tasks.Named(f.Task)
	if err != nil {
		return nil, &SourceError{"task", "", err}
	}
	r, err := recipe.LoadFineTuning(f.Recipe, t.Name, f.Set...)
	if err != nil {
		return nil, err
	}
	if left {
		r.Data.Files = recipe.Files{}
	}
	r.Data.Files.Model = f.Model
	return r, useModel(r, f.Set)
}
