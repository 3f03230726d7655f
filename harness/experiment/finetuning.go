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

// FineTuning names a model, a task, and the recipe by which the model learns the task or has learned it.
type FineTuning struct {
	Recipe string   // empty: finetune, or what LoadTrained finds
	Set    []string // overrides of fields, PATH=VALUE
	Model  string   // folder
	Task   string
	Train  []string // files to train on; empty: the recipe's
	Dev    []string // files to evaluate on; empty: the recipe's
}

// ErrNoTask is the error where neither a FineTuning nor the recipe in its model's folder names a task.
var ErrNoTask = errors.New("no task is given")

// ErrNoExamples is the error of a FineTuning without files.
var ErrNoExamples = errors.New("no files to train and to evaluate on are given")

// Load reads the recipe to train by and makes it one for the task and the model.
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

// LoadTrained reads the recipe by which the model was trained: where none is named, the one that the training left
// in the model's folder, which also knows the task.
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

// load reads the recipe for the task. Data files of a recipe that a training left are those of that training, and
// do not count.
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
