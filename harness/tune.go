package main

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"harness.invalid/harness/experiment"
	"harness.invalid/harness/hint"
	"harness.invalid/harness/report"
	"harness.invalid/harness/tuning"
	"harness.invalid/results"
	"harness.invalid/results/index"
)

func newTune() *cobra.Command {
	var t training
	var s tuning.Search
	var on machineFlags
	var backend, optimizer, space, format string
	cmd := &cobra.Command{
		Use:   "tune --backend B --space FILE",
		Short: "Search settings of a recipe by quasi-random trials",
		Long: `Tune trains a recipe with settings from a declared space, one trial after the other, or several at once with --jobs or --on,
each with the same seeds. It ranks the trials by the steps to the target of the recipe's last phase that has one (the median
over seeds), then by the metric at the end. The space is a file in AlgoPerf's format, with paths of recipe fields as names:

  {"phases.*.schedule.learning_rate": {"min": 1e-4, "max": 1e-2, "scaling": "log"},
   "phases.*.global_batch": {"feasible_points": [16, 32]}}

The points are Halton's sequence, scrambled by --search-seed, so that any number of trials is spread evenly. Each trial
has a folder in --out, from which --resume continues. The best trial was chosen by the scores shown here: judge it with
seeds that the search did not use.`,
		Example: `  harness tune --backend gpu-ref --recipe quick --optimizer lamb --space space.json --trials 5
  harness tune --backend gpu-ref --space space.json --trials 20 --on slurm --slurm partition=cpu,time=1:00:00 --out runs/search`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := report.ParseFormat(format)
			if err != nil {
				return err
			}
			switch {
			case backend == "" || space == "":
				return hint.With(errors.New("--backend and --space are needed"), "harness tune --backend gpu-ref --space space.json")
			case s.Trials < 1 || t.Seeds < 1:
				return fmt.Errorf("--trials is %d and --seeds is %d, want at least 1", s.Trials, t.Seeds)
			case t.Resume && t.Dir == "":
				return errors.New("--resume needs --out, the folder of the trials to continue with")
			}
			if s.Space, err = tuning.ReadSpace(space); err != nil {
				return err
			}
			s.Source, s.Experiment = t.source, t.Experiment
			if s.Experiment.Arms, err = experiment.Arms([]string{backend}, []string{optimizer}); err != nil {
				return err
			}
			if err := t.checkExport(); err != nil {
				return err
			}
			if err := on.apply(&s.Experiment, cmd.Flags()); err != nil {
				return err
			}
			p := newProgress(cmd.ErrOrStderr(), t.quiet)
			defer p.close()
			observe, wait := t.exporting(p)
			defer wait()
			s.Experiment.Index, s.Experiment.Observe = index.Locate(t.store), observe
			o, err := s.Run(cmd.Context())
			if err != nil {
				var run *experiment.RunError
				if errors.As(err, &run) {
					run.Dir = filepath.Dir(run.Dir) // what --out names, of the folder of a trial
				}
				return adviseRuns(cmd.Context(), err)
			}
			if f == report.JSON {
				return o.WriteJSON(cmd.OutOrStdout())
			}
			return printSheet(cmd, tuneSheet(o), f)
		},
	}
	t.flags(cmd.Flags())
	on.waitingFlags(cmd.Flags())
	cmd.Flags().StringVar(&backend, "backend", "", "backend, NAME or NAME:PRECISION")
	cmd.Flags().StringVar(&optimizer, "optimizer", "", "optimizer (default: the recipe's)")
	cmd.Flags().StringVar(&space, "space", "", "search space, JSON")
	cmd.Flags().IntVar(&s.Trials, "trials", 5, "number of trials")
	cmd.Flags().Uint64Var(&s.Seed, "search-seed", 1, "seed of the points")
	cmd.Flags().IntVar(&t.Seeds, "seeds", 1, "seeds of each trial")
	cmd.Flags().Uint64Var(&t.FirstSeed, "seed", 1, "the first seed")
	cmd.Flags().StringVar(&format, "format", "table", report.Formats)
	completeTraining(cmd)
	return cmd
}

// tuneSheet has a row for each trial.
func tuneSheet(o *tuning.Outcome) *report.Sheet {
	s := &report.Sheet{Columns: []report.Column{{Name: "trial", Right: true}}}
	for _, set := range o.Trials[0].Settings {
		name, _, _ := strings.Cut(set, "=")
		s.Columns = append(s.Columns, report.Column{Name: name, Right: true})
	}
	s.Columns = append(s.Columns, report.Column{Name: "reached", Right: true},
		report.Column{Name: "steps to target", Key: "steps_to_target", Right: true},
		report.Column{Name: "measured seconds", Key: "measured_seconds_to_target", Right: true}, report.Column{Name: o.Metric, Right: true})
	for _, t := range o.Trials {
		row := report.Texts(strconv.Itoa(t.Trial))
		for _, set := range t.Settings {
			_, value, _ := strings.Cut(set, "=")
			row = append(row, report.Cell{Text: value})
		}
		row = append(row, report.Texts(fmt.Sprintf("%d of %d", t.Reached, t.Seeds), until("%.6g", t.Steps), until("%.4g", t.Seconds),
			fmt.Sprintf("%.5g", float64(t.Final)))...)
		s.Rows = append(s.Rows, row)
	}
	return s
}

// until is a median of steps or seconds to the target.
func until(format string, v results.Number) string {
	if math.IsInf(float64(v), 1) {
		return "not reached"
	}
	return fmt.Sprintf(format, float64(v))
}
