package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"harness.invalid/core/spelling"
	"harness.invalid/harness/benchmark"
	"harness.invalid/harness/experiment"
	"harness.invalid/harness/report"
	"harness.invalid/results/verdict"
)

const dryRunUsage = "train nothing, and print what a run would take: time, from a few measured steps of each phase, memory and disk"

// dryRunFlag asks what training would take.
func (t *training) dryRunFlag(f *pflag.FlagSet) {
	f.BoolVar(&t.dryRun, "dry-run", false, dryRunUsage)
}

// rehearse prints what an experiment would take.
func (t *training) rehearse(cmd *cobra.Command, f report.Format) error {
	if f != report.Table && f != report.JSON {
		return fmt.Errorf("--dry-run prints a table or json, not %s", f)
	}
	if err := t.check(); err != nil {
		return err
	}
	p := newProgress(cmd.ErrOrStderr(), t.quiet)
	t.Observe = p.observe
	r, err := experiment.Rehearse(cmd.Context(), t.Experiment)
	p.close()
	if err != nil {
		return advise(err)
	}
	if f == report.JSON {
		return writeJSON(cmd.OutOrStdout(), r)
	}
	return t.tellRehearsal(cmd.OutOrStdout(), r)
}

// printRehearsals prints what the tasks of a benchmark would take.
func printRehearsals(cmd *cobra.Command, s *benchmark.Suite, f report.Format) error {
	all, err := benchmark.Rehearse(cmd.Context(), *s)
	if err != nil {
		return advise(err)
	}
	if f == report.JSON {
		return writeJSON(cmd.OutOrStdout(), all)
	}
	sheet := &report.Sheet{Columns: []report.Column{{Name: "task"}, {Name: "runs", Right: true}, {Name: "time", Right: true},
		{Name: "disk", Right: true}, {Name: "most memory", Right: true}}}
	var sum experiment.Takes
	for _, r := range all {
		n := r.Seeds["all"]
		sum.Runs, sum.Seconds, sum.DiskBytes = sum.Runs+n.Runs, sum.Seconds+n.Seconds, sum.DiskBytes+n.DiskBytes
		var most int64
		for _, a := range r.Arms {
			var arm int64
			for _, bytes := range a.PeakMemoryBytes {
				arm += bytes
			}
			most = max(most, arm)
		}
		sheet.Rows = append(sheet.Rows, report.Texts(r.Task, fmt.Sprint(n.Runs), took(n.Seconds), size(n.DiskBytes), size(most)))
	}
	sheet.Rows = append(sheet.Rows, report.Texts("all", fmt.Sprint(sum.Runs), took(sum.Seconds), size(sum.DiskBytes), ""))
	if err := printSheet(cmd, sheet, f); err != nil {
		return err
	}
	_, err = fmt.Fprintln(cmd.ErrOrStderr(), "reckoned from a few measured steps and an evaluation of each task; nothing was kept")
	return err
}

func (t *training) tellRehearsal(out io.Writer, r *experiment.Rehearsal) error {
	fmt.Fprintf(out, "recipe %s, plan: %s\n\n", r.Recipe, r.Plan)
	table := newTable(out, "run", "phase", "steps", "ms a step", "evaluations", "s each", "in all")
	arms := r.Arms
	if r.Start != nil {
		arms = append([]experiment.RehearsedArm{*r.Start}, arms...)
	}
	for _, a := range arms {
		for _, p := range a.Phases {
			table.add(a.Arm, p.Phase, fmt.Sprint(p.Steps), fmt.Sprintf("%.1f", 1e3*p.StepSeconds), fmt.Sprint(p.Evaluations),
				fmt.Sprintf("%.2f", p.EvaluationSeconds),
				took(float64(p.Steps)*p.StepSeconds+float64(p.Evaluations)*p.EvaluationSeconds))
		}
	}
	if err := table.print(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for _, name := range []string{"first look", "at most", "all"} {
		if n, ok := r.Seeds[name]; ok {
			fmt.Fprintf(out, "%s: %s, about %s on this machine, %s of disk\n", name, spelling.Count(n.Runs, "run"), took(n.Seconds),
				size(n.DiskBytes))
		}
	}
	if t.Budget > 0 {
		fmt.Fprintf(out, "the budget is %s\n", verdict.Rounded(t.Budget))
	}
	for _, a := range arms {
		var parts []string
		var sum int64
		for name, n := range a.PeakMemoryBytes {
			parts, sum = append(parts, name+" "+size(n)), sum+n
		}
		if slices.Sort(parts); len(parts) > 0 {
			fmt.Fprintf(out, "memory of %s: %s (%s)\n", a.Arm, size(sum), strings.Join(parts, ", "))
		}
	}
	_, err := fmt.Fprintln(out, "measured: a few steps and an evaluation of each phase; reckoned from them: all else. Nothing was kept.")
	return err
}

// took is a time of so many seconds in words.
func took(seconds float64) string {
	if seconds < 10 {
		return fmt.Sprintf("%.1fs", seconds)
	}
	return verdict.Rounded(time.Duration(seconds * float64(time.Second)))
}

// size is a number of bytes in words.
func size(n int64) string {
	if n < 1e9 {
		return fmt.Sprintf("%.3g MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.3g GB", float64(n)/1e9)
}
