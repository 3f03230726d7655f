package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"harness.invalid/core/dataset/tasks"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/evaluation"
	"harness.invalid/harness/pretrained"
	"harness.invalid/harness/processes"
	"harness.invalid/harness/report"
	"harness.invalid/harness/train"
	"harness.invalid/results/verdict"
)

func newFinetune() *cobra.Command {
	var e experiment
	var f fineTuning
	var trainFiles, devFiles []string
	var optimizer, format string
	cmd := &cobra.Command{
		Use:   "finetune --model DIR --task TASK --train F --dev F --backend B",
		Short: "Fine-tune a model on a task",
		Long: `Finetune trains a model in Hugging Face's format (or a checkpoint of PyTorch or TensorFlow) on a task and evaluates it with the task's own
measures: at the end, and with --set phases.*.evaluation.every=N every N steps; evaluation.patience ends it early, evaluation.keep_best keeps the
best parameters.

The recipe says how: the phase that is on the task, or else its first one of that kind. The folder of each run has the predictions in the task's own
format, and in model/ the model in Hugging Face's, which harness predict and harness evaluate take.

Tasks: ` + strings.Join(tasks.Names(), ", ") + `.`,
		Example: `  harness finetune --model bert-base-uncased --task squad --train train-v1.1.json --dev dev-v1.1.json --backend gpu-ref
  harness finetune --model bert-base-uncased --task mrpc --train MRPC/train.tsv --dev MRPC/dev.tsv --backend ipu \
      --set 'phases.*.evaluation={every: 50, patience: 4, keep_best: true}'
  harness finetune --model bert-base-chinese --task tnews --train tnews/train.json --dev tnews/dev.json --backend gpu-ref:bf16 --seeds 5`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			shape, err := report.ParseFormat(format)
			if err != nil {
				return err
			}
			if e.seeds < 1 {
				return fmt.Errorf("--seeds is %d, want at least 1", e.seeds)
			}
			if err := f.load(&e, "finetune"); err != nil {
				return err
			}
			files := e.recipe.Data.Files.Of(f.task.Name)
			if len(trainFiles) > 0 {
				files.Train = trainFiles
			}
			if len(devFiles) > 0 {
				files.Dev = devFiles
			}
			e.recipe.Data.Files.Set(f.task.Name, files)
			if len(files.Train) == 0 || len(files.Dev) == 0 {
				return errors.New("want --train and --dev: what to train and to evaluate on")
			}
			e.saveModel = true
			e.progress = newProgress(cmd.ErrOrStderr(), e.quiet)
			if err := e.arrange(cmd.Context(), []string{f.backend}, []string{optimizer}); err != nil {
				return err
			}
			runs, err := e.train(cmd.Context())
			e.progress.close()
			if err != nil {
				return err
			}
			c, err := verdict.Compare(runs)
			if err != nil {
				return err
			}
			if err := e.tell(cmd, c, shape); err != nil {
				return err
			}
			for _, r := range runs {
				e.progress.say("model: %s", filepath.Join(r.Dir, train.ModelDir))
			}
			return nil
		},
	}
	f.flags(cmd, &e)
	cmd.Flags().StringArrayVar(&trainFiles, "train", nil, "file to train on, as the task's makers distribute it (repeatable)")
	cmd.Flags().StringArrayVar(&devFiles, "dev", nil, "file to evaluate on (repeatable)")
	cmd.Flags().StringVar(&e.out, "out", "", "folder for the runs (default runs/RECIPE-TIME)")
	cmd.Flags().BoolVar(&e.resume, "resume", false, "go on with the runs in --out from their last checkpoints")
	cmd.Flags().StringVar(&optimizer, "optimizer", "", "optimizer (default: the recipe's)")
	cmd.Flags().IntVar(&e.seeds, "seeds", 1, "number of seeds: of the head's initial values, the order of the data, and dropout")
	cmd.Flags().Uint64Var(&e.firstSeed, "seed", 1, "the first seed")
	cmd.Flags().StringVar(&format, "format", "table", report.Formats)
	storeFlag(cmd.Flags(), &e.store)
	e.complete(cmd)
	return cmd
}

// fineTuning is what finetune, predict and evaluate have in common: a model, a task, and a recipe for it.
type fineTuning struct {
	model, taskName, backend string
	task                     *tasks.Task
}

func (f *fineTuning) flags(cmd *cobra.Command, e *experiment) {
	s := cmd.Flags()
	s.StringVar(&f.model, "model", "", "model folder: Hugging Face's, google-research/bert's, or one that harness finetune left")
	s.StringVar(&f.taskName, "task", "", "task, such as squad, mrpc or tnews")
	s.StringVar(&f.backend, "backend", "", "backend, NAME or NAME:PRECISION")
	s.StringVar(&e.recipeRef, "recipe", "", "built-in recipe or YAML file (default: finetune; to predict and evaluate the one in the model folder)")
	s.StringArrayVar(&e.sets, "set", nil, "change a field of the recipe, such as phases.*.schedule.learning_rate=1e-4 (repeatable)")
	s.BoolVar(&e.quiet, "quiet", false, "no progress, only the result")
	s.StringVar(&e.transport, "transport", "memory", "how tensors reach the plugins: memory (shared) or stream (gRPC)")
	_ = cmd.RegisterFlagCompletionFunc("task", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return tasks.Names(), cobra.ShellCompDirectiveNoFileComp
	})
	_ = cmd.MarkFlagDirname("model")
}

// load reads the recipe and makes it one for the task and the model. Without --recipe it is otherwise, or if that is empty the one that was left in
// the model's folder.
func (f *fineTuning) load(e *experiment, otherwise string) error {
	switch {
	case f.model == "":
		return withHint(errors.New("--model names no model folder"), "harness run --save-model leaves one; harness convert makes one of other formats")
	case f.backend == "":
		return withHint(errors.New("--backend names no backend"), "--backend gpu-ref")
	}
	left := false // the recipe is the one in the model's folder
	if e.recipeRef == "" {
		e.recipeRef = cmp.Or(otherwise, "finetune")
		path := filepath.Join(f.model, pretrained.RecipeFile)
		if _, err := os.Stat(path); err == nil && otherwise == "" {
			e.recipeRef, left = path, true
		}
	}
	if f.taskName == "" && left {
		r, err := recipe.Load(e.recipeRef)
		if err != nil {
			return err
		}
		if t := r.Phases[len(r.Phases)-1].FineTuning(); t != nil {
			f.taskName = t.Name
		}
	}
	if f.taskName == "" {
		return fmt.Errorf("--task is not given, want one of %s", strings.Join(tasks.Names(), ", "))
	}
	var err error
	if f.task, err = tasks.Named(f.taskName); err != nil {
		return fmt.Errorf("--task: %w", err)
	}
	r, err := recipe.LoadFineTuning(e.recipeRef, f.task.Name, e.sets...)
	if err != nil {
		return err
	}
	if left {
		r.Data.Files = recipe.Files{} // of the training that left the folder
	}
	r.Data.Files.Model = f.model
	e.recipe = r
	return e.useModel()
}

// useModel lets the model folder decide on the shape of the network, and refuses flags that say otherwise.
func (e *experiment) useModel() error {
	if e.recipe.Data.Files.Model == "" {
		return nil
	}
	for _, s := range e.sets {
		path, _, _ := strings.Cut(s, "=")
		if key, ok := strings.CutPrefix(path, "model."); ok && slices.Contains(pretrained.ShapeKeys(), key) || path == "model" {
			return fmt.Errorf("--set %s: the model folder %s decides on the shape of the model", s, e.recipe.Data.Files.Model)
		}
	}
	return pretrained.Configure(e.recipe)
}

// predict runs the model over the files, for predict and evaluate.
func (f *fineTuning) predict(
	ctx context.Context, e *experiment, p *progress, files []string,
) (_ *evaluation.Data, _ *evaluation.Predictions, err error) {
	if err := f.load(e, ""); err != nil {
		return nil, nil, err
	}
	if len(files) == 0 {
		return nil, nil, errors.New("want --data: what to answer")
	}
	name, precision, _ := strings.Cut(f.backend, ":")
	e.progress = p
	e.open()
	defer func() { err = errors.Join(err, e.pool.Close()) }()
	info, err := e.pool.Backend(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	phase := e.recipe.Phases[len(e.recipe.Phases)-1].Name
	if err := processes.Takes(info, e.recipe.ForBackend(name, precision, phase)); err != nil {
		return nil, nil, err
	}
	plugins, err := e.pool.Take(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	told, done := p.count(f.task.Name)
	data, predictions, err := train.Predict(ctx, train.PredictionJob{
		Recipe: e.recipe, Backend: name, Precision: precision, Plugins: plugins, Files: files, Progress: told,
	})
	done()
	return data, predictions, errors.Join(err, plugins.Close())
}
