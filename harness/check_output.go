package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"harness.invalid/core/durable"
	"harness.invalid/harness/report"
	"harness.invalid/results/regression"
)

// checkOutput says where and how a check is shown.
type checkOutput struct {
	format, junit string
	github, all   bool
}

func (o *checkOutput) flags(f *pflag.FlagSet) {
	f.StringVar(&o.format, "format", "table", report.Formats)
	f.StringVar(&o.junit, "junit", "", "also write the facts as JUnit XML to a file")
	f.BoolVar(&o.github, "github", false, "also print annotations for GitHub Actions, and add the table to $GITHUB_STEP_SUMMARY")
	f.BoolVar(&o.all, "all", false, "print all facts, not only those that moved")
}

// tell shows a check that began at a time, and returns errFailed or errUndecided when the answer is not yes.
func (o *checkOutput) tell(cmd *cobra.Command, c *regression.Check, f report.Format, began time.Time) error {
	if err := o.print(cmd, c, f); err != nil {
		return err
	}
	if o.junit != "" {
		host, err := os.Hostname()
		if err != nil {
			host = "localhost"
		}
		job := regression.Job{Host: host, Began: began, Took: time.Since(began)}
		if err := durable.WriteFile(o.junit, func(w io.Writer) error { return c.WriteJUnit(w, job) }); err != nil {
			return err
		}
	}
	if o.github {
		if err := tellGitHub(cmd, c); err != nil {
			return err
		}
	}
	switch c.Standing {
	case regression.Regressed:
		return errFailed
	case regression.Undecided:
		return errUndecided
	}
	return nil
}

// print prints what moved, and how many facts stand how.
func (o *checkOutput) print(cmd *cobra.Command, c *regression.Check, f report.Format) error {
	if f == report.JSON {
		return writeJSON(cmd.OutOrStdout(), c)
	}
	s := &report.Sheet{Columns: []report.Column{
		{Name: "fact"}, {Name: "baseline", Right: true}, {Name: "now", Right: true}, {Name: "change", Right: true},
		{Name: "tolerance", Right: true}, {Name: "noise", Right: true},
		{Name: "power", Right: true}, {Name: "result"}, {Name: "why", Key: "reason"},
	}}
	marks := map[regression.Standing]report.Mark{
		regression.Holds: report.Good, regression.Regressed: report.Bad, regression.Undecided: report.Doubt, regression.Waived: report.Doubt,
	}
	for _, fact := range c.Facts {
		if !o.all && !fact.Moved() {
			continue
		}
		row := report.Texts(fact.Name, fact.ShortText(fact.Baseline), fact.ShortText(fact.Now), fact.ChangeText(), fact.ToleranceText(),
			fact.NoiseText(), fact.PowerText(), string(fact.Standing), fact.Reason)
		row[7].Mark = marks[fact.Standing]
		s.Rows = append(s.Rows, row)
	}
	s.Notes = append([]string{fmt.Sprintf("%s: recipe %s against baseline %s: %s.", c.Standing, c.Recipe, c.Baseline, c.Count())}, c.Notes...)
	if len(s.Rows) == 0 && (f == report.Table || f == report.Markdown) {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), strings.Join(s.Notes, "\n"))
		return err
	}
	return printSheet(cmd, s, f)
}

// tellGitHub prints annotations, and adds a table to the summary of the job.
func tellGitHub(cmd *cobra.Command, c *regression.Check) error {
	if err := c.WriteAnnotations(cmd.OutOrStdout()); err != nil {
		return err
	}
	path := os.Getenv("GITHUB_STEP_SUMMARY")
	if path == "" {
		return nil
	}
	summary, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	return errors.Join(c.WriteSummary(summary), summary.Close())
}
