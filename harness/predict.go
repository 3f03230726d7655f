package main

import (
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"harness.invalid/harness/evaluation"
)

// predicted says where predictions were written.
type predicted struct {
	Task     string   `json:"task"`
	Examples int      `json:"examples"`
	Files    []string `json:"files"`
}

func newPredict() *cobra.Command {
	var t training
	var f fineTuning
	var files []string
	var out, format string
	cmd := &cobra.Command{
		Use:   "predict --model DIR --task TASK --data F --backend B --out DIR",
		Short: "Have a fine-tuned model answer a file",
		Long: `Predict runs a fine-tuned model over the examples of a task and writes its answers in the task's own format: SQuAD's
predictions.json and nbest_predictions.json (and null_odds.json of squad2), GLUE's predictions.tsv, CLUE's predictions.jsonl. The
examples need no labels.

Without --task and --recipe it takes those that harness finetune made the model with.`,
		Example: `  harness predict --model runs/mine/gpu-ref-adamw-seed1/model --data test.tsv --backend gpu-ref --out answers
  harness predict --model bert-squad --task squad --data dev-v1.1.json --backend ipu --out answers`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			data, predictions, err := f.predict(cmd, &t, files)
			if err != nil {
				return err
			}
			if err := savePredictions(predictions, out); err != nil {
				return err
			}
			p := predicted{Task: predictions.Task.Name, Examples: data.Len()}
			for _, name := range evaluation.Files(predictions.Task) {
				p.Files = append(p.Files, filepath.Join(out, name))
			}
			return show(cmd, format, p, func(w io.Writer) error { return printLines(w, p.Files) })
		},
	}
	f.flags(cmd, &t)
	cmd.Flags().StringArrayVar(&files, "data", nil, "file to answer (repeatable)")
	cmd.Flags().StringVar(&out, "out", "predictions", "folder for the answers")
	addFormat(cmd, &format, "table")
	completeTraining(cmd)
	return cmd
}
