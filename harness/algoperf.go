package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"harness.invalid/harness/report"
	"harness.invalid/results/index"
	"harness.invalid/results/scoring"
)

func newAlgoPerf() *cobra.Command {
	var store, format string
	var bySteps bool
	cmd := &cobra.Command{
		Use:   "algoperf RUN...",
		Short: "Score optimizers over several recipes as AlgoPerf does",
		Long: `Algoperf takes runs of several recipes and backends, each combination a workload, with the same optimizers.
The time of an optimizer on a workload is the median over seeds of the measured training seconds to the target
(--steps: of the steps), infinite for a run that did not reach it. The performance profile of an optimizer is the
share of workloads that it finishes within τ times the time of the fastest. Its score is the area under the profile
from τ = 1 to 4, scaled to 1 for an optimizer that is the fastest on every workload.`,
		Example: `  harness algoperf runs/tiny runs/mini
  harness algoperf --steps runs`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := report.ParseFormat(format)
			if err != nil {
				return err
			}
			runs, err := index.OpenRuns(cmd.Context(), store, args)
			if err != nil {
				return err
			}
			board, err := scoring.NewLeaderboard(runs, bySteps)
			if err != nil {
				return err
			}
			return printSheet(cmd, algoperfSheet(board, bySteps), f)
		},
	}
	storeFlag(cmd.Flags(), &store)
	cmd.Flags().BoolVar(&bySteps, "steps", false, "count steps instead of measured seconds")
	cmd.Flags().StringVar(&format, "format", "table", report.Formats)
	return cmd
}

// algoperfSheet has a row for each optimizer, with its profile and its time on each workload.
func algoperfSheet(board *scoring.Leaderboard, bySteps bool) *report.Sheet {
	s := &report.Sheet{Columns: []report.Column{{Name: "optimizer"}, {Name: "score", Right: true}}}
	for _, tau := range []float64{1, 1.5, 2, 4} {
		s.Columns = append(s.Columns, report.Column{Name: fmt.Sprintf("within x %g", tau), Right: true})
	}
	unit := "measured seconds"
	if bySteps {
		unit = "steps"
	}
	for _, w := range board.Workloads {
		s.Columns = append(s.Columns, report.Column{Name: fmt.Sprintf("%s, %s", w, unit), Right: true})
	}
	for i, name := range board.Optimizers {
		p := board.Profiles[i]
		row := report.Texts(name, fmt.Sprintf("%.4f", p.Score()))
		for _, tau := range []float64{1, 1.5, 2, 4} {
			row = append(row, report.Cell{Text: fmt.Sprintf("%.2f", p.Share(tau))})
		}
		for _, t := range board.Times[i] {
			row = append(row, report.Cell{Text: fmt.Sprintf("%.4g", t)})
		}
		s.Rows = append(s.Rows, row)
	}
	return s
}
