package regression

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"harness.invalid/results"
	"harness.invalid/results/verdict"
)

// Standing is whether a fact holds against its baseline.
type Standing string

// The standings, from good to bad.
const (
	Holds       Standing = "holds"
	NotCompared Standing = "not compared" // the baseline has no counterpart, or not for this machine; it decides nothing
	Waived      Standing = "waived"       // it does not hold, and a waiver says that this is known
	Undecided   Standing = "UNDECIDED"    // the runs can't tell
	Regressed   Standing = "REGRESSED"
)

// Fact is one thing that was checked.
type Fact struct {
	// Name is ARM seed N WHAT for a fact of one run, and ARM WHAT for one over seeds.
	Name     string   `json:"fact"`
	Standing Standing `json:"standing"`
	// Exact facts are equal or not; the others are tested.
	Exact    bool   `json:"exact"`
	Baseline string `json:"baseline"`
	Now      string `json:"now"`
	// Change, Tolerance and Noise have the units of the fact, or are relative (Relative). Change is the value now
	// minus that of the baseline. Noise is half the interval of Change: how far apart runs of one program lie with
	// probability 1-2α. Power is the probability that a change for the worse of twice the tolerance would be called
	// a regression; since it depends on an estimate of the noise, it is a lower bound with confidence 0.8. nil: not
	// known, or not defined for this fact.
	Change    *results.Number `json:"change,omitempty"`
	Tolerance *results.Number `json:"tolerance,omitempty"`
	Noise     *results.Number `json:"noise,omitempty"`
	Power     *results.Number `json:"power,omitempty"`
	Relative  bool            `json:"relative,omitempty"`
	// Test is what decided: paired t, t, or rank sum (Mann-Whitney); "" for exact facts.
	Test string `json:"test,omitempty"`
	// FurtherSeeds is how many more seeds on each side would decide an UNDECIDED with probability 0.9, if the change is
	// what it seems to be so far and the standard deviation at its upper limit; 0: not known.
	FurtherSeeds int    `json:"further_seeds,omitempty"`
	Reason       string `json:"reason"`
}

// Moved reports whether the fact is worth showing: it does not hold, or a tested value changed.
func (f Fact) Moved() bool {
	return f.Standing != Holds && f.Standing != NotCompared || f.Baseline != f.Now && f.Standing == Holds && !f.Exact
}

// Check is the outcome of checking runs against a baseline.
type Check struct {
	Baseline string   `json:"baseline"` // how it is called
	Recipe   string   `json:"recipe"`
	Standing Standing `json:"standing"` // Holds, Undecided or Regressed
	Facts    []Fact   `json:"facts"`
	Notes    []string `json:"notes,omitempty"`
}

// Check checks runs against the baseline; waivers count as of the given time. The error is verdict.ErrIncomparable
// if the runs are of another recipe.
func (b *Baseline) Check(name string, runs []*results.Run, now time.Time) (*Check, error) {
	if len(runs) == 0 {
		return nil, fmt.Errorf("%w: there are no runs to check against baseline %s", verdict.ErrIncomparable, name)
	}
	c := &Check{Baseline: name, Recipe: b.Recipe, Facts: []Fact{}}
	byArm := map[results.Arm]*verdict.ArmRuns{}
	var order []results.Arm
	for _, r := range runs {
		if r.Fingerprint != b.Fingerprint {
			return nil, fmt.Errorf("%w: %s is of recipe %s with fingerprint %.12s, baseline %s of %s with %.12s: save a new "+
				"baseline if the recipe was changed on purpose",
				verdict.ErrIncomparable, r.Title(), r.Identity.Recipe, r.Fingerprint, name, b.Recipe, b.Fingerprint)
		}
		if byArm[r.Arm()] == nil {
			byArm[r.Arm()] = &verdict.ArmRuns{}
			order = append(order, r.Arm())
		}
		if err := byArm[r.Arm()].Add(r); err != nil {
			return nil, err
		}
	}
	for _, a := range b.Arms {
		var runs []*results.Run
		if of := byArm[a.Arm]; of != nil {
			runs = of.Runs
		}
		if err := b.checkArm(c, a, runs); err != nil {
			return nil, err
		}
	}
	for _, a := range order {
		if !slices.ContainsFunc(b.Arms, func(x BaselineArm) bool { return x.Arm == a }) {
			c.Facts = append(c.Facts, Fact{Name: a.String(), Standing: NotCompared, Now: "there", Reason: "the baseline does not have this arm"})
		}
	}
	b.waive(c, now)
	c.Standing = Holds
	for _, f := range c.Facts {
		switch {
		case f.Standing == Regressed:
			c.Standing = Regressed
		case f.Standing == Undecided && c.Standing == Holds:
			c.Standing = Undecided
		}
	}
	return c, nil
}

// waive lets facts pass by waivers that have not expired.
func (b *Baseline) waive(c *Check, now time.Time) {
	for _, w := range b.Waivers {
		used := false
		end, _ := w.last() // ReadBaseline has looked at it
		for i := range c.Facts {
			f := &c.Facts[i]
			if f.Standing != Regressed && f.Standing != Undecided || !w.covers(f.Name) {
				continue
			}
			used = true
			if now.After(end) {
				f.Reason += fmt.Sprintf("; its waiver ran out on %s (%s)", w.Until, w.Reason)
				continue
			}
			f.Reason = fmt.Sprintf("%s: %s; waived until %s: %s", f.Standing, f.Reason, w.Until, w.Reason)
			f.Standing = Waived
		}
		if !used {
			c.Notes = append(c.Notes, fmt.Sprintf("the waiver for %q (until %s) waives nothing and can be removed", w.Fact, w.Until))
		}
	}
}

// checkArm adds the facts of one arm.
func (b *Baseline) checkArm(c *Check, a BaselineArm, runs []*results.Run) error {
	name := a.Arm.String()
	if len(runs) == 0 {
		c.Facts = append(c.Facts, Fact{Name: name, Standing: Undecided, Baseline: fmt.Sprintf("%d runs", len(a.Runs)),
			Reason: "there is no run of this arm"})
		return nil
	}
	var done []*BaselineRun
	same := true // all runs have the bits of the baseline's
	for _, r := range runs {
		seed := fmt.Sprintf("%s seed %d", name, r.Seed)
		if state, why := r.State(); state != results.Complete {
			f := Fact{Name: seed, Exact: true, Standing: Undecided, Baseline: string(results.Complete), Now: string(state), Reason: why}
			switch state {
			case results.Failed:
				f.Standing, f.Reason = Regressed, "the run failed: "+why
			case results.Running:
				f.Reason = "the run is in progress"
			}
			c.Facts = append(c.Facts, f)
			same = false
			continue
		}
		s, err := baselineRun(r, true)
		if err != nil {
			return err
		}
		done = append(done, s)
		i := slices.IndexFunc(a.Runs, func(x BaselineRun) bool { return x.Seed == r.Seed })
		c.exact(seed+" data digest", b.DataDigest, r.DataDigest, "the data differ")
		if i < 0 {
			same = false
			c.Facts = append(c.Facts, Fact{Name: seed + " losses", Exact: true, Standing: NotCompared, Now: s.LossDigest,
				Reason: "the baseline does not have this seed"})
			continue
		}
		same = c.run(seed, a.Runs[i], *s, b.Tolerances) && same
	}
	if len(done) > 0 {
		b.sampled(c, a, done, machineOf(runs[0]), same)
	}
	return nil
}

// note adds a note, once.
func (c *Check) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(c.Notes, text) {
		c.Notes = append(c.Notes, text)
	}
}

// Count says in words how many facts have each standing.
func (c *Check) Count() string {
	var parts []string
	for _, s := range []Standing{Regressed, Undecided, Waived, Holds, NotCompared} {
		if n := len(slices.DeleteFunc(slices.Clone(c.Facts), func(f Fact) bool { return f.Standing != s })); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ToLower(string(s))))
		}
	}
	return strings.Join(parts, ", ")
}
