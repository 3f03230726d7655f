package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"harness.invalid/core/dataset/tasks"
	"harness.invalid/harness/experiment"
	"harness.invalid/harness/report"
	"harness.invalid/harness/train"
)

func newFinetune() *cobra.Command {
	var t training
	var f fineTuning
	var optimizer, format string
	var short shortcuts
	cmd := &cobra.Command{
		Use:   "finetune --model DIR --task TASK --train F --dev F --backend B",
		Short: "Fine-tune a model on a task",
		Long: `Finetune trains a model in Hugging Face's format (or a checkpoint of PyTorch or TensorFlow) on a task and evaluates it with the
task's own measures: at the end, and with --set phases.*.evaluation.every=N every N steps; evaluation.patience ends it early,
evaluation.keep_best keeps the best parameters.

The recipe says how: the phase that is on the task, or else its first one of that kind. The folder of each run has the predictions
in the task's own format, and in model/ the model in Hugging Face's, which harness predict and harness evaluate take.

A model of Hugging Face is a folder: harness data fetch bert-base-uncased loads one, git clone (with git-lfs) any other.
harness data fetch squad loads the questions.

Tasks: ` + strings.Join(tasks.Names(), ", ") + `.`,
		Example: `  harness finetune --model bert-base-uncased --task squad --train train-v1.1.json --dev dev-v1.1.json --backend gpu-ref
  harness finetune --model bert-base-uncased --task mrpc --train MRPC/train.tsv --dev MRPC/dev.tsv --backend ipu \
      --set 'phases.*.evaluation={every: 50, patience: 4, keep_best: true}'
  harness finetune --model bert-base-chinese --task tnews --train tnews/train.json --dev tnews/dev.json --backend gpu-ref:bf16 --seeds 5`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			shape, err := report.ParseFormat(format)
			if err != nil {
				return err
			}
			if t.Seeds < 1 {
				return fmt.Errorf("--seeds is %d, want at least 1", t.Seeds)
			}
			if err := f.check(); err != nil {
				return err
			}
			if t.Arms, err = experiment.Arms([]string{f.backend}, []string{optimizer}); err != nil {
				return err
			}
			f.Set = append(short.sets(cmd), f.Set...)
			if t.Recipe, err = f.Load(); err != nil {
				return advise(err)
			}
			t.SaveModel = true
			if t.dryRun {
				return t.rehearse(cmd, shape)
			}
			o, err := t.runAndCompare(cmd, shape)
			if err != nil {
				return err
			}
			for _, r := range o.Runs {
				if !t.quiet {
					fmt.Fprintf(cmd.ErrOrStderr(), "model: %s\n", filepath.Join(r.Dir, train.ModelDir))
				}
			}
			return nil
		},
	}
	f.flags(cmd, &t)
	t.keepFlags(cmd.Flags())
	t.dryRunFlag(cmd.Flags())
	cmd.Flags().StringArrayVar(&f.Train, "train", nil, "file to train on, as the task's makers distribute it (repeatable)")
	cmd.Flags().StringArrayVar(&f.Dev, "dev", nil, "file to evaluate on (repeatable)")
	cmd.Flags().StringVar(&optimizer, "optimizer", "", "optimizer, NAME or NAME?OPTION=VALUE&... (default: the recipe's)")
	cmd.Flags().IntVar(&t.Seeds, "seeds", 1, "number of seeds: of the head's initial values, the order of the data, and dropout")
	cmd.Flags().Uint64Var(&t.FirstSeed, "seed", 1, "the first seed")
	cmd.Flags().StringVar(&format, "format", "table", report.Formats)
	short.flags(cmd.Flags())
	completeTraining(cmd)
	return cmd
}

// shortcuts are flags for fields of the recipe, under the names that other programs have for them. --set goes before.
type shortcuts struct {
	steps, batch, length int
	epochs, rate         float64
}

func (s *shortcuts) flags(f *pflag.FlagSet) {
	f.IntVar(&s.steps, "max-steps", 0, "steps to train, in place of the recipe's epochs (phases.*.steps)")
	f.Float64Var(&s.epochs, "epochs", 0, "passes over the training data, in place of the recipe's (phases.*.epochs)")
	f.IntVar(&s.batch, "batch-size", 0, "sequences of a step, in place of the recipe's (phases.*.global_batch)")
	f.Float64Var(&s.rate, "learning-rate", 0, "highest rate, in place of the recipe's (phases.*.schedule.learning_rate)")
	f.IntVar(&s.length, "max-seq-length", 0, "tokens of a sequence, in place of the recipe's (phases.*.length)")
}

// sets are the changes of the recipe for the flags that are given.
func (s *shortcuts) sets(cmd *cobra.Command) []string {
	var sets []string
	for _, flag := range []struct {
		name string
		sets []string
	}{
		{"max-steps", []string{fmt.Sprintf("phases.*.steps=%d", s.steps), "phases.*.epochs="}},
		{"epochs", []string{fmt.Sprintf("phases.*.epochs=%g", s.epochs), "phases.*.steps="}},
		{"batch-size", []string{fmt.Sprintf("phases.*.global_batch=%d", s.batch)}},
		{"learning-rate", []string{fmt.Sprintf("phases.*.schedule.learning_rate=%g", s.rate)}},
		{"max-seq-length", []string{fmt.Sprintf("phases.*.length=%d", s.length)}},
	} {
		if cmd.Flags().Changed(flag.name) {
			sets = append(sets, flag.sets...)
		}
	}
	return sets
}
