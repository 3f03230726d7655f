package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"harness.invalid/harness/evaluation"
)

func newPredict() *cobra.Command {
	var e experiment
	var f fineTuning
	var files []string
	var out string
	cmd := &cobra.Command{
		Use:   "predict --model DIR --task TASK --data F --backend B --out DIR",
		Short: "Have a fine-tuned model answer a file",
		Long: `Predict runs a fine-tuned model over the examples of a task and writes its answers in the task's own format: SQuAD's predictions.json and
nbest_predictions.json (and null_odds.json of squad2), GLUE's predictions.tsv, CLUE's predictions.jsonl. The examples need no labels.

Without --task and --recipe those are taken with which harness finetune made the model.`,
		Example: `  harness predict --model runs/mine/gpu-ref-adamw-seed1/model --data test.tsv --backend gpu-ref --out answers
  harness predict --model bert-squad --task squad --data dev-v1.1.json --backend ipu --out answers`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p := newProgress(cmd.ErrOrStderr(), e.quiet)
			_, predictions, err := f.predict(cmd.Context(), &e, p, files)
			p.close()
			if err != nil {
				return err
			}
			if err := savePredictions(predictions, out); err != nil {
				return err
			}
			for _, name := range evaluation.Files(predictions.Task) {
				fmt.Fprintln(cmd.OutOrStdout(), filepath.Join(out, name))
			}
			return nil
		},
	}
	f.flags(cmd, &e)
	cmd.Flags().StringArrayVar(&files, "data", nil, "file to answer (repeatable)")
	cmd.Flags().StringVar(&out, "out", "predictions", "folder for the answers")
	e.complete(cmd)
	return cmd
}

// savePredictions writes predictions into a folder, which it creates if necessary.
func savePredictions(p *evaluation.Predictions, dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	return p.Save(func(name string) string { return filepath.Join(dir, name) })
}
