package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"harness.invalid/core/bounded"
	"harness.invalid/harness/report"
	"harness.invalid/results/index"
	"harness.invalid/results/scoring"
)

func newMLPerf() *cobra.Command {
	var store, points, phase, format string
	cmd := &cobra.Command{
		Use:   "mlperf RUN...",
		Short: "Score runs to a target as MLPerf does",
		Long: `Mlperf takes runs of one recipe whose phase has a target, arm by arm, and prints MLPerf's score: the mean of
the measured seconds to the target, evaluations included, without the fastest and the slowest run. A run that did not
reach the target counts as the slowest; two such runs make the score infinite.

With --points, a file such as rcps_bert.json of mlcommons/logging, it also tests whether the runs converged in fewer
samples than the reference by more than chance: it prunes the points, interpolates between batch sizes, applies the
one-sided t test of the rules, and multiplies the score of runs that were faster by chance. The exit code is 1 when an
arm fails the test.`,
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
				text, err := bounded.ReadFile(points, 16*bounded.MiB)
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
			scores, err := scoring.MLPerf(runs, phase, reference)
			if err != nil {
				return err
			}
			if err := printSheet(cmd, mlperfSheet(scores), f); err != nil {
				return err
			}
			if slices.ContainsFunc(scores, func(s scoring.MLPerfScore) bool { return s.Test != nil && !s.Test.Passed }) {
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

// mlperfSheet has a row for each arm.
func mlperfSheet(scores []scoring.MLPerfScore) *report.Sheet {
	s := &report.Sheet{Columns: []report.Column{
		{Name: "arm"}, {Name: "runs", Right: true}, {Name: "reached", Right: true},
		{Name: "measured seconds", Key: "measured_seconds", Right: true}, {Name: "samples", Right: true},
		{Name: "least allowed", Key: "least_samples", Right: true},
		{Name: "score, measured seconds", Key: "score", Right: true}, {Name: "result"},
	}}
	for _, r := range scores {
		row := report.Texts(r.Arm.String(), fmt.Sprint(len(r.Seconds)), fmt.Sprint(r.Reached()), fmt.Sprintf("%.4g", r.MeanSeconds),
			fmt.Sprintf("%.7g", r.MeanSamples), "", fmt.Sprintf("%.4g", r.Score()), "")
		if t := r.Test; t != nil {
			row[5].Text = fmt.Sprintf("%.7g", float64(t.Least))
			row[7] = report.Cell{Text: "passed: " + t.Reason, Mark: report.Good}
			if !t.Passed {
				row[7] = report.Cell{Text: "failed: " + t.Reason, Mark: report.Bad}
			}
		}
		s.Rows = append(s.Rows, row)
	}
	return s
}
