package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"harness.invalid/core/durable"
	"harness.invalid/harness/experiment"
	"harness.invalid/harness/report"
	"harness.invalid/results"
	"harness.invalid/results/baselines"
	"harness.invalid/results/index"
	"harness.invalid/results/regression"
)

// errUndecided is returned by a check that can't tell: it is no error, and has the same exit code.
var errUndecided = errors.New("undecided")

func newCheck() *cobra.Command {
	var t training
	var baseline, format, junit string
	var github, all bool
	var tolerances []string
	cmd := &cobra.Command{
		Use:   "check [RUN...]",
		Short: "Hold runs against a baseline: did something get worse?",
		Long: `Check holds runs against a baseline and says what moved. Without a RUN it trains the baseline's recipe, each of its arms with its first seeds
(--seeds), and without --baseline that is the built-in quick.

Exact facts must be equal: the data, the batches and their order, figures of a machine model, and on the same kernel path the bits of all losses
under a seed. On another path the losses must agree within a tolerance. Sampled facts (accuracy, steps to the target, the time of a step on the same
machine) hold when they are no worse than the tolerance at the baseline's α, have regressed when they are worse by more than it and by more than
chance, and are undecided otherwise, with the number of further seeds that would decide; the table states change, tolerance, noise and power.

The time of a step is that of a run's fastest one, which other work on the machine disturbs least. It takes 3 runs on each side to be compared by ranks,
and some 10 on a machine that others use as well; train both programs in turns, since a machine that has become slower looks like a slower program.

The exit code is 0 when all facts hold or are waived, 1 when one has regressed, and 2 when one could not be decided, or for an error.`,
		Example: `  harness check
  harness check --baseline my-baseline.json runs/mine
  harness check --baseline my-baseline.json --junit check.xml --format markdown runs/mine`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := report.ParseFormat(format)
			if err != nil {
				return err
			}
			b, err := openBaseline(baseline)
			if err != nil {
				return err
			}
			if err := setTolerances(b, tolerances); err != nil {
				return err
			}
			var runs []*results.Run
			if len(args) > 0 {
				runs, err = index.OpenRuns(cmd.Context(), t.store, args)
			} else {
				runs, err = t.again(cmd, b)
			}
			if err != nil {
				return err
			}
			c, err := b.Check(baseline, runs, time.Now())
			if err != nil {
				return err
			}
			if err := tellCheck(cmd, c, f, all); err != nil {
				return err
			}
			if junit != "" {
				if err := durable.WriteFile(junit, func(w io.Writer) error { return writeJUnit(w, c) }); err != nil {
					return err
				}
			}
			if github {
				if err := tellGitHub(cmd.OutOrStdout(), c); err != nil {
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
		},
	}
	t.flags(cmd.Flags())
	cmd.Flags().Lookup("recipe").Usage = "recipe to train, where it is not a built-in one (default: the baseline's)"
	cmd.Flags().Lookup("recipe").DefValue = ""
	cmd.Flags().IntVar(&t.Seeds, "seeds", 1, "how many of the baseline's seeds to train, without a RUN")
	cmd.Flags().StringVar(&baseline, "baseline", "quick", "built-in baseline ("+strings.Join(baselines.Names(), ", ")+"), or a file")
	cmd.Flags().StringArrayVar(&tolerances, "tolerance", nil, "change a tolerance, such as step_seconds=0.1 or squad.f1=1 (repeatable)")
	cmd.Flags().StringVar(&format, "format", "table", report.Formats)
	cmd.Flags().StringVar(&junit, "junit", "", "also write the facts as JUnit XML to a file")
	cmd.Flags().BoolVar(&github, "github", false, "also print annotations for GitHub Actions, and add the table to $GITHUB_STEP_SUMMARY")
	cmd.Flags().BoolVar(&all, "all", false, "print all facts, not only those that moved")
	t.complete(cmd)
	return cmd
}

// openBaseline reads a file, or else a built-in baseline.
func openBaseline(name string) (*regression.Baseline, error) {
	b, err := readBaselineFile(name)
	if errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(name, "/\\.") {
		return baselines.Open(name)
	}
	return b, err
}

func setTolerances(b *regression.Baseline, list []string) error {
	for _, t := range list {
		name, value, ok := strings.Cut(t, "=")
		v, err := strconv.ParseFloat(value, 64)
		if !ok || err != nil {
			return fmt.Errorf("--tolerance %s: want NAME=NUMBER", t)
		}
		if err := b.Tolerances.Set(name, v); err != nil {
			return fmt.Errorf("--%w", err)
		}
	}
	return nil
}

// again trains the arms of a baseline with its first seeds.
func (t *training) again(cmd *cobra.Command, b *regression.Baseline) ([]*results.Run, error) {
	if !cmd.Flags().Changed("recipe") {
		t.source.Recipe = b.Recipe
	}
	first := b.Arms[0].Runs
	if t.Seeds < 1 || t.Seeds > len(first) {
		return nil, fmt.Errorf("--seeds is %d, and the baseline has %d", t.Seeds, len(first))
	}
	t.FirstSeed = first[0].Seed
	for i := range t.Seeds {
		if first[i].Seed != t.FirstSeed+uint64(i) {
			return nil, fmt.Errorf("--seeds %d: the baseline's seeds do not follow each other: train them yourself and name the runs", t.Seeds)
		}
	}
	if err := t.load(); err != nil {
		return nil, withHint(err, "where the baseline's recipe is a file, name it with --recipe")
	}
	if got := t.Recipe.Fingerprint(); got != b.Fingerprint {
		return nil, fmt.Errorf("recipe %s has fingerprint %.12s, the baseline's has %.12s: save a new baseline if it was changed on purpose",
			t.Recipe.Name, got, b.Fingerprint)
	}
	for _, a := range b.Arms {
		t.Arms = append(t.Arms, experiment.ArmOf(t.Recipe, results.Arm{Backend: a.Backend, Optimizer: a.Optimizer}))
	}
	o, err := t.run(cmd)
	if err != nil {
		return nil, err
	}
	return o.Runs, nil
}

// tellCheck prints what moved, and how many facts stand how.
func tellCheck(cmd *cobra.Command, c *regression.Check, f report.Format, all bool) error {
	if f == report.JSON {
		return writeJSON(cmd.OutOrStdout(), c)
	}
	s := &report.Sheet{Columns: []report.Column{{Name: "fact"}, {Name: "baseline", Right: true}, {Name: "now", Right: true}, {Name: "change", Right: true},
		{Name: "tolerance", Right: true}, {Name: "noise", Right: true}, {Name: "power", Right: true}, {Name: "result"}, {Name: "why", Key: "reason"}}}
	for _, fact := range c.Facts {
		if !all && !fact.Moved() {
			continue
		}
		row := report.Texts(fact.Name, shortDigest(fact, fact.Baseline), shortDigest(fact, fact.Now), inUnits(fact, fact.Change, true), inUnits(fact, fact.Tolerance, false), inUnits(fact, fact.Noise, false), powerText(fact), string(fact.Standing), fact.Reason)
		row[7].Mark = map[regression.Standing]report.Mark{regression.Holds: report.Good, regression.Regressed: report.Bad, regression.Undecided: report.Doubt, regression.Waived: report.Doubt}[fact.Standing]
		s.Rows = append(s.Rows, row)
	}
	s.Notes = append([]string{fmt.Sprintf("%s: recipe %s against baseline %s: %s.", c.Standing, c.Recipe, c.Baseline, c.Count())}, c.Notes...)
	if len(s.Rows) == 0 {
		if f == report.Table || f == report.Markdown {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), strings.Join(s.Notes, "\n"))
			return err
		}
	}
	return printSheet(cmd, s, f)
}

// inUnits is a number of a fact as tables have it, with a sign or without; "" for none.
func inUnits(f regression.Fact, v *results.Number, sign bool) string {
	switch {
	case v == nil:
		return ""
	case f.Relative && sign:
		return fmt.Sprintf("%+.2g%%", 100*float64(*v))
	case f.Relative:
		return fmt.Sprintf("%.2g%%", 100*float64(*v))
	case sign:
		return fmt.Sprintf("%+.3g", float64(*v))
	}
	return fmt.Sprintf("%.3g", float64(*v))
}

func powerText(f regression.Fact) string {
	if f.Power == nil {
		return ""
	}
	return fmt.Sprintf("%.2f", float64(*f.Power))
}

// explained is why a fact stands as it does, with its numbers, such as "the data are other ones (was 1, is 2)".
func explained(f regression.Fact) string {
	words := []string{"was " + orDash(f.Baseline), "is " + orDash(f.Now)}
	for _, x := range []struct{ name, text string }{
		{"change", inUnits(f, f.Change, true)}, {"tolerance", inUnits(f, f.Tolerance, false)}, {"noise", inUnits(f, f.Noise, false)}, {"power", powerText(f)},
	} {
		if x.text != "" {
			words = append(words, x.name+" "+x.text)
		}
	}
	return fmt.Sprintf("%s (%s)", f.Reason, strings.Join(words, ", "))
}

// shortDigest cuts digests to what people compare.
func shortDigest(f regression.Fact, text string) string {
	if f.Exact && len(text) >= 32 {
		return text[:12]
	}
	return text
}

// The elements of JUnit XML that CI systems read: github.com/testmoapp/junitxml.
type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string       `xml:"classname,attr"`
	Name    string       `xml:"name,attr"`
	Failure *junitReason `xml:"failure,omitempty"`
	Error   *junitReason `xml:"error,omitempty"`
	Skipped *junitReason `xml:"skipped,omitempty"`
}

type junitReason struct {
	Message string `xml:"message,attr"`
}

// writeJUnit writes a test case for each fact: a regression is a failure, one that could not be decided an error.
func writeJUnit(w io.Writer, c *regression.Check) error {
	s := junitSuite{Name: "harness check " + c.Baseline, Tests: len(c.Facts)}
	for _, f := range c.Facts {
		k := junitCase{Class: c.Recipe, Name: f.Name}
		reason := &junitReason{explained(f)}
		switch f.Standing {
		case regression.Regressed:
			k.Failure = reason
			s.Failures++
		case regression.Undecided:
			k.Error = reason
			s.Errors++
		case regression.Waived, regression.NotCompared:
			k.Skipped = reason
			s.Skipped++
		}
		s.Cases = append(s.Cases, k)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(s); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// tellGitHub prints an annotation for each fact that does not hold, and adds a table to the summary of the job. Source: GitHub Docs, Workflow commands
// for GitHub Actions.
func tellGitHub(w io.Writer, c *regression.Check) error {
	escape := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	inTitle := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	for _, f := range c.Facts {
		level := map[regression.Standing]string{regression.Regressed: "error", regression.Undecided: "warning", regression.Waived: "notice"}[f.Standing]
		if level == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "::%s title=%s::%s\n", level, inTitle.Replace(f.Name), escape.Replace(fmt.Sprintf("%s: %s", f.Standing, explained(f)))); err != nil {
			return err
		}
	}
	path := os.Getenv("GITHUB_STEP_SUMMARY")
	if path == "" {
		return nil
	}
	summary, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	cell := strings.NewReplacer("|", `\|`, "\n", " ")
	_, err = fmt.Fprintf(summary, "### %s: %s against baseline %s\n\n%s\n\n| fact | result | why |\n|---|---|---|\n", c.Standing, c.Recipe, c.Baseline, c.Count())
	for _, f := range c.Facts {
		if err == nil && f.Moved() {
			_, err = fmt.Fprintf(summary, "| %s | %s | %s |\n", cell.Replace(f.Name), f.Standing, cell.Replace(f.Reason))
		}
	}
	return errors.Join(err, summary.Close())
}
