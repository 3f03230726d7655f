package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"harness.invalid/harness/hint"
)

func newEvaluate() *cobra.Command {
	var t training
	var f fineTuning
	var files []string
	var out, format string
	cmd := &cobra.Command{
		Use:   "evaluate --model DIR --task TASK --data F --backend B",
		Short: "Measure a fine-tuned model as the task's own program does",
		Long: `Evaluate runs a fine-tuned model over the examples of a task, whose answers are known, and prints what the task's own program
prints, as JSON: see harness score.

Without --task and --recipe it takes those that harness finetune made the model with.`,
		Example: `  harness evaluate --model runs/mine/gpu-ref-adamw-seed1/model --data dev.tsv --backend gpu-ref
  harness evaluate --model bert-squad --task squad --data dev-v1.1.json --backend ipu:fp16.16 --out answers`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			data, predictions, err := f.predict(cmd, &t, files)
			if err != nil {
				return err
			}
			if !data.Labelled() {
				return hint.With(fmt.Errorf("%s has examples whose answers are not known", strings.Join(files, ", ")), "harness predict answers them")
			}
			scores, err := data.Score(predictions)
			if err != nil {
				return err
			}
			if out != "" {
				if err := savePredictions(predictions, out); err != nil {
					return err
				}
			}
			return showReport(cmd, format, scores.Report)
		},
	}
	f.flags(cmd, &t)
	cmd.Flags().StringArrayVar(&files, "data", nil, "file to measure on (repeatable)")
	cmd.Flags().StringVar(&out, "out", "", "folder for the answers; none: they are not kept")
	addFormat(cmd, &format, "json")
	completeTraining(cmd)
	return cmd
}
