package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"harness.invalid/harness/benchmark"
	"harness.invalid/harness/experiment"
	"harness.invalid/harness/hint"
	"harness.invalid/harness/report"
	"harness.invalid/results/index"
)

func newBenchmark() *cobra.Command {
	var t training
	var s benchmark.Suite
	var on machineFlags
	var backends []string
	var format string
	cmd := &cobra.Command{
		Use:   "benchmark glue|clue|squad --model DIR --data DIR --backends A,B",
		Short: "Fine-tune a model on all tasks of GLUE, CLUE or SQuAD, and compare backends",
		Long: `Benchmark fine-tunes a model on each task of a benchmark whose files are in --data, as harness data fetch leaves them
(a folder for each task), with each backend and seed. It prints the score of each task, the mean as the benchmark defines it,
and a verdict for each task and for the score.

Each task has a folder in --out, like one of harness finetune --seeds; --resume goes on where the command was stopped. The recipe
of a task is the built-in one (glue-mrpc, clue-tnews, squad-base) unless --recipe names another for all.`,
		Example: `  harness benchmark glue --model bert-base-uncased --data glue --backends gpu-ref,ipu --seeds 5 --out runs/glue
  harness benchmark clue --model bert-base-chinese --data clue --backends gpu-ref --seeds 3 --tasks tnews,afqmc --submit`,
		Args: cobra.ExactArgs(1), ValidArgs: []string{"glue", "clue", "squad"},
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := report.ParseFormat(format)
			if err != nil {
				return err
			}
			switch {
			case len(backends) == 0 || s.Model == "" || s.Data == "":
				return hint.With(errors.New("--backends, --model and --data are needed"),
					"harness benchmark glue --model bert-base-uncased --data glue --backends gpu-ref,ipu")
			case t.Seeds < 1 || !(s.Margin > 0):
				return fmt.Errorf("--seeds is %d and --margin is %g, want at least 1 and more than 0", t.Seeds, s.Margin)
			}
			if err := t.check(); err != nil {
				return err
			}
			if t.Arms, err = experiment.Arms(backends, nil); err != nil {
				return err
			}
			s.Name = args[0]
			if t.Dir == "" {
				t.Dir = filepath.Join("runs", s.Name+"-"+time.Now().Format("20060102-150405"))
			}
			p := newProgress(cmd.ErrOrStderr(), t.quiet)
			defer p.close()
			t.Index, t.Observe = index.Locate(t.store), p.observe
			if s.Experiment = t.Experiment; t.dryRun {
				return printRehearsals(cmd, &s, f)
			}
			s.Prepare = func(e *experiment.Experiment) error { return on.apply(e, cmd.Flags()) }
			o, err := benchmark.Run(cmd.Context(), s)
			if err != nil {
				var run *experiment.RunError
				if errors.As(err, &run) {
					run.Dir = t.Dir // what --out names, of the folder of a task
				}
				return adviseRuns(cmd.Context(), err)
			}
			if f == report.JSON {
				return writeJSON(cmd.OutOrStdout(), o)
			}
			return printSheet(cmd, benchmarkSheet(o), f)
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.Model, "model", "", "model folder, as harness finetune takes it")
	f.StringVar(&s.Data, "data", "", "folder of the benchmark, with a folder for each task")
	f.StringSliceVar(&backends, "backends", nil, "backends; the others are compared with the first")
	f.StringSliceVar(&s.Only, "tasks", nil, "tasks to run (default: all that have files)")
	f.StringVar(&s.Recipe, "recipe", "", "recipe for all tasks (default: the built-in one of each)")
	f.StringArrayVar(&s.Set, "set", nil, "change a field of the recipes, such as phases.*.schedule.learning_rate=1e-4 (repeatable)")
	f.IntVar(&t.Seeds, "seeds", 5, "seeds of each task and backend")
	f.Uint64Var(&t.FirstSeed, "seed", 1, "the first seed")
	f.Float64Var(&s.Margin, "margin", 1, "points of the benchmark's score that do not matter")
	f.BoolVar(&s.Submit, "submit", false, "answer the test files, for the benchmark's server, in submission/ of each run")
	on.waitingFlags(f)
	t.dryRunFlag(f)
	t.keepFlags(f)
	t.runFlags(f)
	f.StringVar(&format, "format", "table", report.Formats)
	completeTraining(cmd)
	return cmd
}

// benchmarkSheet has a row for each task and arm, and the score.
func benchmarkSheet(o *benchmark.Outcome) *report.Sheet {
	s := &report.Sheet{Columns: []report.Column{{Name: "task"}, {Name: "arm"}, {Name: "score, %", Key: "score", Right: true},
		{Name: "sd", Right: true}, {Name: "runs", Right: true}, {Name: "verdict"}}}
	add := func(task, arm string, c benchmark.Cell, verdict string) {
		sd := ""
		if c.SD != nil {
			sd = fmt.Sprintf("%.2f", float64(*c.SD))
		}
		s.Rows = append(s.Rows, report.Texts(task, arm, fmt.Sprintf("%.2f", float64(c.Mean)), sd, fmt.Sprint(c.Runs), verdict))
	}
	for _, row := range o.Tasks {
		for _, arm := range o.Arms {
			add(row.Task, arm, row.Arms[arm], string(row.Arms[arm].Verdict))
		}
	}
	for _, name := range o.Missing {
		s.Rows = append(s.Rows, report.Texts(name, "", "", "", "0", "not run"))
	}
	for _, arm := range o.Arms {
		if c, ok := o.Score[arm]; ok {
			add(o.Benchmark, arm, c, string(o.Verdicts[arm].Verdict))
		}
	}
	return s
}
