package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"harness.invalid/core/dataset/tasks"
	"harness.invalid/harness/evaluation"
	"harness.invalid/harness/hint"
)

func newScore() *cobra.Command {
	var odds, format string
	var threshold float64
	cmd := &cobra.Command{
		Use:   "score TASK DATA... PREDICTIONS",
		Short: "Score predictions as the official program of a task does",
		Long: `Score prints what the official program of a task prints, as JSON or a table: exact match and F1 of SQuAD from 0 to 100,
accuracy, F1, Matthews, Pearson and Spearman of GLUE and CLUE as fractions. Predictions are in the benchmark's own
format: an object of answers by question, GLUE's index and prediction, CLUE's lines of {"id": 0, "label": "1"}. Named entities
(ner) are scored as seqeval does by default, in all and by type; files have a word and its tag a line, predictions also tags alone,
with a blank line between sentences.

For glue and clue it takes the folders of runs that were fine-tuned on their tasks, and prints the score of the
benchmark: the mean over its tasks of the mean over a task's runs, which differ in their seeds. It names the tasks
that it has no run of.

Tasks: ` + strings.Join(tasks.Names(), ", ") + `.`,
		Example: `  harness score squad dev-v1.1.json runs/quick/ipu-adamw-seed1/squad.predictions.json
  harness score squad2 dev-v2.0.json predictions.json --na-prob-file null_odds.json
  harness score mrpc dev.tsv predictions.tsv
  harness score ner test.conll predictions.conll
  harness score cmrc2018 cmrc2018_dev.json predictions.json
  harness score clue runs/tnews runs/afqmc`,
		Args: cobra.MinimumNArgs(2),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return tasks.Names(), cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if b := tasks.Benchmark(strings.ToLower(args[0])); b == tasks.GLUE || b == tasks.CLUE {
				return scoreBenchmark(cmd, b, args[1:], format)
			}
			t, err := tasks.Named(args[0])
			if err != nil {
				return err
			}
			if len(args) < 3 {
				return errors.New("want a task, one or more files of data, and a file of predictions")
			}
			files, predictions := args[1:len(args)-1], args[len(args)-1]
			data, err := evaluation.Read(t, files...)
			if err != nil {
				return err
			}
			if !data.Labelled() {
				err := fmt.Errorf("task %s: %s has questions or examples without a known answer", t.Name, strings.Join(files, ", "))
				if t.Name == "squad" {
					err = hint.With(err, "SQuAD v2.0, whose questions may have no answer, is the task squad2")
				}
				return err
			}
			scores, err := data.ScoreFile(predictions, odds, threshold)
			if err != nil {
				return err
			}
			if scores.Missing > 0 {
				how := "count 0"
				if t.Impossible {
					how = "are not counted, as published"
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "harness: %d of %d questions have no prediction and %s\n", scores.Missing, data.Len(), how)
			}
			return showReport(cmd, format, scores.Report)
		},
	}
	addFormat(cmd, &format, "json")
	cmd.Flags().StringVar(&odds, "na-prob-file", "", "odds of no answer by question, such as null_odds.json (squad2)")
	cmd.Flags().Float64Var(&threshold, "na-prob-thresh", 1, "odds above which a question has no answer (squad2, with --na-prob-file)")
	return cmd
}

// scoreBenchmark prints the score of a benchmark over the runs in some folders.
func scoreBenchmark(cmd *cobra.Command, b tasks.Benchmark, folders []string, format string) error {
	s, err := evaluation.ScoreRuns(b, folders)
	if err != nil {
		return err
	}
	for _, dir := range s.Incomplete {
		fmt.Fprintf(cmd.ErrOrStderr(), "harness: %s is not complete and is left out\n", dir)
	}
	if len(s.Arms) > 1 {
		fmt.Fprintf(cmd.ErrOrStderr(), "harness: the runs are of %s, and counted as seeds of one: name those of one backend for its score\n",
			strings.Join(s.Arms, ", "))
	}
	if format == "json" {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(s)
	}
	t := newTable(cmd.OutOrStdout(), "task", "mean", "sd", "best", "runs")
	for _, name := range slices.Sorted(maps.Keys(s.Tasks)) {
		task := s.Tasks[name]
		sd := ""
		if task.SD != nil {
			sd = full(float64(*task.SD))
		}
		t.add(name, full(float64(task.Mean)), sd, full(task.Best), strconv.Itoa(task.Runs))
	}
	for _, name := range s.Missing {
		t.add(name, "", "", "", "0")
	}
	t.add("score", full(s.Score))
	return t.print()
}

// full is a number in full, as JSON has it.
func full(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// showReport prints what the official program of a task prints: on one line as JSON, or a row for each number.
func showReport(cmd *cobra.Command, format string, r evaluation.Report) error {
	if format == "json" {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(r)
	}
	t := newTable(cmd.OutOrStdout(), "measure", "value")
	var add func(r evaluation.Report, before string)
	add = func(r evaluation.Report, before string) {
		for _, n := range r {
			if n.Group != nil {
				add(n.Group, before+n.Name+" ")
				continue
			}
			t.add(before+n.Name, full(n.Value))
		}
	}
	add(r, "")
	return t.print()
}
