package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"harness.invalid/core/bounded"
	"harness.invalid/core/spelling"
	"harness.invalid/harness/hint"
	"harness.invalid/results/verdict"
)

func newVerdict() *cobra.Command {
	var files []string
	var q verdict.Question
	var format string
	cmd := &cobra.Command{
		Use:   "verdict --values BASELINE.csv,ARM.csv --metric NAME --margin M",
		Short: "Judge scores that others measured: equivalent, different, or not decided",
		Long: `Verdict compares two files of scores as compare does its runs. The first line of a file names its columns: one for each
metric, and seed. Values are paired by seed; --unpaired takes them for two independent samples and needs no seeds.

The two are EQUIVALENT when two one-sided tests show at --alpha that the difference of the means lies within the
margin, DIFFERENT when the difference is shown not to be 0 and its estimate reaches the margin, and INCONCLUSIVE
otherwise. Paired tests are Student's, unpaired ones Welch's. With --sequential, seeds were added until the data
decided: the verdict is that of the first look of the sequential plan that decides. A run far off the others of its
file is named, and EQUIVALENT is withheld while there is one.

The exit code is 0 whatever the verdict.`,
		Example: `  harness verdict --values gpu.csv,ipu.csv --metric f1 --margin 0.5 --unpaired
  harness verdict --values a.csv,b.csv --metric accuracy --margin 1 --sequential --format json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if formats := []string{"text", "json"}; !slices.Contains(formats, format) {
				return fmt.Errorf("--format is %q, want text or json%s", format, spelling.Hint(format, formats))
			}
			if len(files) != 2 || q.Metric == "" {
				return errors.New("want two files of scores by --values A.csv,B.csv, and the name of a column by --metric")
			}
			var scores [2]verdict.Scores
			for i, path := range files {
				f, err := bounded.Open(path, bounded.GiB)
				if err != nil {
					return err
				}
				scores[i], err = verdict.ReadScores(f, q.Metric)
				if err := errors.Join(err, f.Close()); err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
			}
			a, err := verdict.OfScores(scores[0], scores[1], q)
			if errors.Is(err, verdict.ErrNoSeeds) {
				return hint.With(err, "--unpaired compares them as two independent samples")
			}
			if err != nil {
				return err
			}
			if format == "json" {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(a)
			}
			fmt.Fprintln(cmd.OutOrStdout(), a)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&files, "values", nil, "two CSV files of scores: the baseline's and the other's")
	f.StringVar(&q.Metric, "metric", "", "column that is compared")
	f.Float64Var(&q.Margin, "margin", 0, "the greatest difference that does not matter")
	f.Float64Var(&q.Alpha, "alpha", 0.05, "probability of calling the two equivalent, or different, when they are not")
	f.BoolVar(&q.Unpaired, "unpaired", false, "two independent samples: pair nothing")
	f.BoolVar(&q.Sequential, "sequential", false, "seeds were added until the data decided")
	f.StringVar(&format, "format", "text", "text or json")
	return cmd
}
