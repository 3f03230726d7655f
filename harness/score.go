package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"harness.invalid/core/dataset/squad"
	"harness.invalid/core/score"
	"harness.invalid/harness/train"
)

func newScore() *cobra.Command {
	cmd := &cobra.Command{Use: "score", Short: "Score predictions as the official programs do"}
	cmd.AddCommand(&cobra.Command{
		Use:     "squad DATA PREDICTIONS",
		Short:   "Exact match and F1 of SQuAD v1.1, 0 to 100",
		Example: `  harness score squad dev-v1.1.json runs/quick/ipu-adamw-seed1/squad.predictions.json`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := squad.Read(args[0])
			if err != nil {
				return err
			}
			text, err := os.ReadFile(args[1])
			if err != nil {
				return err
			}
			var predictions map[string]string
			if err := json.Unmarshal(text, &predictions); err != nil {
				return fmt.Errorf("predictions %s: want a JSON object of answers by question: %w", args[1], err)
			}
			s, err := score.SQuAD(train.Golds(data), predictions)
			if err != nil {
				return err
			}
			if s.Missing > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "harness: %d of %d questions have no prediction and count 0\n", s.Missing, s.Total)
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(struct {
				ExactMatch float64 `json:"exact_match"`
				F1         float64 `json:"f1"`
			}{s.ExactMatch, s.F1})
		},
	})
	return cmd
}
