package regression

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"harness.invalid/results"
	"harness.invalid/results/verdict"
)

// Standing is how a fact stands against its baseline.
type Standing string

// The standings, from good to bad.
const (
	Holds       Standing = "holds"
	NotCompared Standing = "not compared" // there is nothing to hold it against, or not here; it decides nothing
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
	// Change, Tolerance and Noise have the units of the fact, or are relative (Relative). Change is that of the value, now less
	// the baseline. Noise is how far apart runs of the same program may come out with probability 1-2α: half of the interval of Change. Power is the probability
	// that a change for the worse of twice the tolerance would be called one; it is at least that with a confidence of 0.8, since the noise it depends on is
	// an estimate. nil: not known, or not of this fact.
	Change    *results.Number `json:"change,omitempty"`
	Tolerance *results.Number `json:"tolerance,omitempty"`
	Noise     *results.Number `json:"noise,omitempty"`
	Power     *results.Number `json:"power,omitempty"`
	Relative  bool            `json:"relative,omitempty"`
	// Test is what decided: paired t, t, or rank sum (Mann-Whitney); "" for exact facts.
	Test string `json:"test,omitempty"`
	// FurtherSeeds is how many seeds more on each side would decide an UNDECIDED with probability 0.9, if change and noise are what they look like so far;
	// 0: not known.
	FurtherSeeds int    `json:"further_seeds,omitempty"`
	Reason       string `json:"reason"`
}

// Moved reports whether there is something to see: it does not hold, or a value is another one.
func (f Fact) Moved() bool {
	return f.Standing != Holds && f.Standing != NotCompared || f.Baseline != f.Now && f.Standing == Holds && !f.Exact
}

// Check is runs held against a baseline.
type Check struct {
	Baseline string   `json:"baseline"` // how it is called
	Recipe   string   `json:"recipe"`
	Standing Standing `json:"standing"` // Holds, Undecided or Regressed
	Facts    []Fact   `json:"facts"`
	Notes    []string `json:"notes,omitempty"`
}

// Check holds runs against the baseline, as of a time for waivers. ErrIncomparable when they are of another recipe.
func (b *Baseline) Check(name string, runs []*results.Run, now time.Time) (*Check, error) {
	if len(runs) == 0 {
		return nil, fmt.Errorf("%w: there are no runs to hold against baseline %s", verdict.ErrIncomparable, name)
	}
	c := &Check{Baseline: name, Recipe: b.Recipe, Facts: []Fact{}}
	byArm := map[results.Arm][]*results.Run{}
	var order []results.Arm
	for _, r := range runs {
		if r.Fingerprint != b.Fingerprint {
			return nil, fmt.Errorf("%w: %s is of recipe %s with fingerprint %.12s, baseline %s of %s with %.12s: save a new baseline if the recipe was changed on purpose",
				verdict.ErrIncomparable, r.Title(), r.Identity.Recipe, r.Fingerprint, name, b.Recipe, b.Fingerprint)
		}
		if err := verdict.SameArm(byArm[r.Arm()], r); err != nil {
			return nil, err
		}
		if len(byArm[r.Arm()]) == 0 {
			order = append(order, r.Arm())
		}
		byArm[r.Arm()] = append(byArm[r.Arm()], r)
	}
	for _, a := range b.Arms {
		if err := b.checkArm(c, a, byArm[a.Arm]); err != nil {
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

// waive lets facts pass by the waivers that have not run out.
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
			c.Notes = append(c.Notes, fmt.Sprintf("the waiver for %q (until %s) waives nothing and can go", w.Fact, w.Until))
		}
	}
}

// checkArm adds the facts of one arm.
func (b *Baseline) checkArm(c *Check, a BaselineArm, runs []*results.Run) error {
	name := a.Arm.String()
	if len(runs) == 0 {
		c.Facts = append(c.Facts, Fact{Name: name, Standing: Undecided, Baseline: fmt.Sprintf("%d runs", len(a.Runs)), Reason: "there is no run of this arm"})
		return nil
	}
	var done []*BaselineRun
	same := true // all runs have the bits of the baseline's
	for _, r := range runs {
		seed := fmt.Sprintf("%s seed %d", name, r.Seed)
		if r.Result == nil || r.Result.Status != results.Complete {
			f := Fact{Name: seed, Exact: true, Standing: Undecided, Baseline: string(results.Complete), Now: string(results.Unfinished), Reason: "the run goes on, or broke off"}
			if r.Result != nil {
				f.Now = string(r.Result.Status)
				if r.Result.Status == results.Failed {
					f.Standing, f.Reason = Regressed, "the run failed: "+r.Result.Error
				}
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
		c.exact(seed+" data digest", b.DataDigest, r.DataDigest, "the data are other ones")
		if i < 0 {
			same = false
			c.Facts = append(c.Facts, Fact{Name: seed + " losses", Exact: true, Standing: NotCompared, Now: s.LossDigest, Reason: "the baseline does not have this seed"})
			continue
		}
		same = c.run(seed, a.Runs[i], *s, b.Tolerances) && same
	}
	if len(done) > 0 {
		b.sampled(c, a, done, machineOf(runs[0]), same)
	}
	return nil
}

// exact adds a fact that is equal or not.
func (c *Check) exact(name, baseline, now, otherwise string) bool {
	f := Fact{Name: name, Exact: true, Standing: Holds, Baseline: baseline, Now: now, Reason: "equal"}
	if baseline != now {
		f.Standing, f.Reason = Regressed, otherwise
	}
	c.Facts = append(c.Facts, f)
	return baseline == now
}

// run adds the facts of one run against the one with its seed, and reports whether the losses have the same bits.
func (c *Check) run(seed string, was, is BaselineRun, t Tolerances) bool {
	c.exact(seed+" batches", was.BatchDigest, is.BatchDigest, "the run took other batches, or in another order")
	for _, name := range slices.Sorted(maps.Keys(was.Modelled)) {
		if was.Kernels != is.Kernels && strings.Contains(name, ".target.") {
			continue // the time to the target is modelled, the step that reached it was trained
		}
		c.exact(seed+" "+name, was.Modelled[name], is.Modelled[name], "a modelled figure is another one")
	}
	switch {
	case was.Kernels == "" || is.Kernels == "":
		c.Facts = append(c.Facts, Fact{Name: seed + " losses", Exact: true, Standing: NotCompared, Baseline: was.LossDigest, Now: is.LossDigest, Reason: "a run does not tell the path of its kernels, which decides the last bits"})
		return false
	case was.Kernels == is.Kernels:
		where := "the bits of losses differ"
		if was.LossDigest != is.LossDigest {
			where = partedAt(was, is)
		}
		same := c.exact(seed+" losses", was.LossDigest, is.LossDigest, where)
		for i, p := range was.Phases {
			if i < len(is.Phases) {
				c.exact(seed+" "+p.Name+".skipped", fmt.Sprint(p.Skipped), fmt.Sprint(is.Phases[i].Skipped), "another number of steps was skipped")
			}
		}
		return same
	}
	c.close(seed, was, is, t)
	return false
}

// partedAt says by which part of the run losses of the same kernels have left the baseline's.
func partedAt(was, is BaselineRun) string {
	for i, p := range was.Phases {
		if i >= len(is.Phases) {
			break
		}
		q := is.Phases[i]
		if math.Float64bits(float64(p.FirstLoss)) != math.Float64bits(float64(q.FirstLoss)) {
			return fmt.Sprintf("the bits of losses differ from the first step of %s on: %.9g was %.9g", p.Name, float64(q.FirstLoss), float64(p.FirstLoss))
		}
		for j := range min(len(p.Losses), len(q.Losses)) {
			if math.Float64bits(float64(p.Losses[j])) != math.Float64bits(float64(q.Losses[j])) {
				size := (p.Steps + lossParts - 1) / lossParts
				return fmt.Sprintf("the bits of losses differ by %s step %d: the mean of the last %d is %.12g, was %.12g", p.Name, min((j+1)*size, p.Steps), size, float64(q.Losses[j]), float64(p.Losses[j]))
			}
		}
	}
	return "the bits of losses differ, by less than their means show"
}

// close adds the facts of losses on another kernel path, which rounds otherwise: those of the first phase. Roundings grow while a model trains, and a later phase
// begins where they have led: what is left to hold there are its metrics, over seeds.
func (c *Check) close(seed string, was, is BaselineRun, t Tolerances) {
	trained := false
	for i, p := range was.Phases {
		if i >= len(is.Phases) {
			break
		}
		q := is.Phases[i]
		if trained {
			c.Facts = append(c.Facts, Fact{Name: seed + " " + p.Name + ".losses", Standing: NotCompared, Baseline: was.Kernels, Now: is.Kernels, Reason: "the phase began from parameters that other kernels had rounded otherwise"})
			continue
		}
		trained = len(p.Losses) > 0
		add := func(what string, far, tolerance float64, at string) {
			f := Fact{Name: seed + " " + p.Name + "." + what, Standing: Holds, Baseline: was.Kernels, Now: is.Kernels, Change: new(results.Number(far)), Tolerance: new(results.Number(tolerance)), Relative: true,
				Reason: fmt.Sprintf("on other kernels %s differs by %.2g%%", at, 100*far)}
			if !(far <= tolerance) {
				f.Standing = Regressed
			}
			c.Facts = append(c.Facts, f)
		}
		add("first_loss", relative(float64(p.FirstLoss), float64(q.FirstLoss)), t.FirstLoss, "the first loss")
		far, at := 0.0, 0
		for j := range max(len(p.Losses), len(q.Losses)) {
			d := math.Inf(1)
			if j < len(p.Losses) && j < len(q.Losses) {
				d = relative(float64(p.Losses[j]), float64(q.Losses[j]))
			}
			if !(d <= far) {
				far, at = d, j
			}
		}
		add("losses", far, t.Losses, fmt.Sprintf("the mean loss of part %d of %d", at+1, len(p.Losses)))
	}
}

// relative is the distance of two numbers relative to the first; 0 for equal ones, NaN like NaN.
func relative(a, b float64) float64 {
	if a == b || math.IsNaN(a) && math.IsNaN(b) {
		return 0
	}
	return math.Abs(b-a) / math.Abs(a)
}

// note adds a note, if it is not there yet.
func (c *Check) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(c.Notes, text) {
		c.Notes = append(c.Notes, text)
	}
}

// Count tells how many facts stand in each way, in words.
func (c *Check) Count() string {
	var parts []string
	for _, s := range []Standing{Regressed, Undecided, Waived, Holds, NotCompared} {
		if n := len(slices.DeleteFunc(slices.Clone(c.Facts), func(f Fact) bool { return f.Standing != s })); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ToLower(string(s))))
		}
	}
	return strings.Join(parts, ", ")
}
