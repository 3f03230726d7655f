package main

import (
	"fmt"
	"math"
	"os"

	"github.com/spf13/cobra"

	"harness.invalid/harness/report"
	"harness.invalid/results/index"
	"harness.invalid/results/scoring"
	"harness.invalid/results/statistics"
)

func newMLPerf() *cobra.Command {
	var store, points, phase, format string
	cmd := &cobra.Command{
		Use:   "mlperf RUN...",
		Short: "Score runs to a target as MLPerf does",
		Long: `Mlperf takes runs of one recipe whose phase has a target, arm by arm, and prints MLPerf's score: the mean of the measured training seconds to the
target without the fastest and the slowest run. A run that did not reach the target counts as the slowest, and two make the score infinite.

With --points, a file such as rcps_bert.json of mlcommons/logging, it also tests that the runs did not converge in fewer samples than the reference
does by more than chance: points are pruned, interpolated between batch sizes, tested by the one-sided t test of the rules, and the score of runs that
were faster by chance is multiplied. The exit code is 1 when an arm does not pass.`,
		Example: `  harness mlperf runs/mine
  harness mlperf --points rcps_bert.json --phase phase2 runs/bert`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := report.ParseFormat(format)
			if err != nil {
				return err
			}
			var reference []scoring.ReferencePoint
			if points != "" {
				text, err := os.ReadFile(points)
				if err == nil {
					reference, err = scoring.ReadReferencePoints(text)
				}
				if err != nil {
					return fmt.Errorf("--points %s: %w", points, err)
				}
			}
			runs, err := index.OpenRuns(cmd.Context(), store, args)
			if err != nil {
				return err
			}
			races, err := scoring.Races(runs, phase)
			if err != nil {
				return err
			}
			s := &report.Sheet{Columns: []report.Column{{Name: "arm"}, {Name: "runs", Right: true}, {Name: "reached", Right: true}, {Name: "measured seconds", Key: "measured_seconds", Right: true},
				{Name: "samples", Right: true}, {Name: "least allowed", Key: "least_samples", Right: true}, {Name: "score, measured seconds", Key: "score", Right: true}, {Name: "result"}}}
			failed := false
			for _, r := range races {
				score, samples := statistics.OlympicMean(r.Seconds), statistics.OlympicMean(r.Samples)
				if math.IsNaN(score) {
					return fmt.Errorf("%s has %d runs: an olympic mean takes 3 or more", r.Arm, len(r.Seconds))
				}
				row := report.Texts(r.Arm.String(), fmt.Sprint(len(r.Seconds)), fmt.Sprint(r.Reached()), fmt.Sprintf("%.4g", score), fmt.Sprintf("%.7g", samples), "", fmt.Sprintf("%.4g", score), "")
				if reference != nil {
					test, err := scoring.CheckConvergence(reference, float64(r.Batch), r.Samples)
					if err != nil {
						return fmt.Errorf("%s: %w", r.Arm, err)
					}
					row[5].Text = fmt.Sprintf("%.7g", float64(test.Least))
					row[6].Text = fmt.Sprintf("%.4g", score*float64(test.Normalization))
					row[7] = report.Cell{Text: "passed: " + test.Reason, Mark: report.Good}
					if !test.Passed {
						row[7], failed = report.Cell{Text: "failed: " + test.Reason, Mark: report.Bad}, true
					}
				}
				s.Rows = append(s.Rows, row)
			}
			if err := printSheet(cmd, s, f); err != nil {
				return err
			}
			if failed {
				return errFailed
			}
			return nil
		},
	}
	storeFlag(cmd.Flags(), &store)
	cmd.Flags().StringVar(&points, "points", "", "reference convergence points, JSON")
	cmd.Flags().StringVar(&phase, "phase", "", "phase whose target counts (default: the last that has one)")
	cmd.Flags().StringVar(&format, "format", "table", report.Formats)
	return cmd
}
