package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"harness.invalid/core/recipe"
	"harness.invalid/core/spelling"
	"harness.invalid/harness/experiment"
	"harness.invalid/harness/hint"
	"harness.invalid/harness/report"
	"harness.invalid/results/verdict"
)

// planFlags say how many seeds a comparison takes.
type planFlags struct {
	until           string
	budget          time.Duration
	maxSeeds, seeds int
}

func (p *planFlags) flags(f *pflag.FlagSet) {
	f.StringVar(&p.until, "until", "decided", "add pairs of seeds until this: decided (the primary metric has a verdict)")
	f.DurationVar(&p.budget, "budget", 5*time.Minute, "begin no pair that would not end within this time; 0: no limit")
	f.IntVar(&p.maxSeeds, "max-seeds", 20, "the most seeds, 6 to 40; default: the recipe's")
	f.IntVar(&p.seeds, "seeds", 0, "train so many seeds and judge them once, in place of the above; a verdict needs 3 or more")
	f.Lookup("max-seeds").DefValue = "0" // --help shows none
}

// apply sets the plan of an experiment, and reports flags that contradict each other.
func (p *planFlags) apply(e *experiment.Experiment, f *pflag.FlagSet) error {
	if p.until != "decided" {
		return fmt.Errorf("--until is %q, want decided", p.until)
	}
	if p.budget < 0 {
		return fmt.Errorf("--budget is %v, want a time such as 10m, or 0 for no limit", p.budget)
	}
	if !f.Changed("seeds") {
		e.Budget = p.budget
		if f.Changed("until") || f.Changed("max-seeds") {
			e.Plan.Kind = recipe.SequentialPlan
		}
		if f.Changed("max-seeds") {
			e.Plan.MaxSeeds = p.maxSeeds
			if p.maxSeeds < recipe.LeastSequential || p.maxSeeds > recipe.MostSequential {
				return fmt.Errorf("--max-seeds is %d, want %d to %d: --seeds takes any number, and judges it once", p.maxSeeds,
					recipe.LeastSequential, recipe.MostSequential)
			}
		}
		return nil
	}
	for _, name := range []string{"until", "budget", "max-seeds"} {
		if f.Changed(name) {
			return fmt.Errorf("--seeds and --%s don't go together: --seeds trains so many and judges them once, --%s is about seeds that "+
				"are added until it is decided", name, name)
		}
	}
	if p.seeds < 1 {
		return fmt.Errorf("--seeds is %d, want at least 1", p.seeds)
	}
	e.Plan = recipe.Plan{Kind: recipe.FixedPlan, MaxSeeds: p.seeds}
	if e.Noise && p.seeds < 2 {
		return hint.With(fmt.Errorf("--aa with --seeds %d: two groups of one run have no variance", p.seeds), "use --seeds 3 or more")
	}
	return nil
}

// after says how a comparison that is out of budget goes on.
func (p *planFlags) after(ctx context.Context, out io.Writer, o *experiment.Outcome) {
	if o.Ended != experiment.OutOfBudget {
		return
	}
	time := verdict.Rounded(o.Further.Time)
	fmt.Fprintf(out, "stopped by the budget of %s; a verdict takes %d further %s or more, about %s\nhint: go on with: %s\n",
		verdict.Rounded(p.budget), o.Further.Pairs, spelling.Plural(o.Further.Pairs, "pair"), time, goOn(ctx, o.Dir, "--budget", time))
}

// closing is a line about how far the pairs so far are from a verdict.
func closing(e experiment.PairCompared) string {
	d := e.Difference
	text := fmt.Sprintf("%d pairs: %s of %s against %s: %.3g", e.Pairs, report.FullName(d.Phase, d.Metric), e.Arm, e.Baseline,
		float64(d.Difference))
	if d.Inference != nil {
		text += fmt.Sprintf(", %s", d.Inference.EquivalenceInterval)
	}
	text += fmt.Sprintf(", margin %g", d.Margin)
	switch {
	case d.Verdict != verdict.Inconclusive:
		text += ": " + strings.ToLower(string(d.Verdict))
	case e.Budget > 0:
		text += fmt.Sprintf("; %v of %s left", e.Left.Round(time.Second), verdict.Rounded(e.Budget))
	}
	return text
}

// planAdvice says what to do about runs that were made under another plan.
func planAdvice(err error) error {
	var other *experiment.PlanError
	if !errors.As(err, &other) {
		return err
	}
	flags := fmt.Sprintf("--max-seeds %d", other.Has.MaxSeeds)
	if other.Has.Kind == recipe.FixedPlan {
		flags = fmt.Sprintf("--seeds %d", other.Has.MaxSeeds)
	}
	return hint.With(err, "go on as they were begun, with --resume and neither --seeds nor --max-seeds (or %s), or start in another --out: "+
		"seeds that are added under a new plan make wrong verdicts", flags)
}
