package results

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"harness.invalid/core/recipe"
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
	// that a change for the worse of twice the tolerance would be called one. nil: not known, or not of this fact.
	Change    *Number `json:"change,omitempty"`
	Tolerance *Number `json:"tolerance,omitempty"`
	Noise     *Number `json:"noise,omitempty"`
	Power     *Number `json:"power,omitempty"`
	Relative  bool    `json:"relative,omitempty"`
	Reason    string  `json:"reason"`
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
func (b *Baseline) Check(name string, runs []*Run, now time.Time) (*Check, error) {
	if len(runs) == 0 {
		return nil, fmt.Errorf("%w: there are no runs to hold against baseline %s", ErrIncomparable, name)
	}
	c := &Check{Baseline: name, Recipe: b.Recipe, Facts: []Fact{}}
	byArm := map[Arm][]*Run{}
	var order []Arm
	for _, r := range runs {
		if r.Fingerprint != b.Fingerprint {
			return nil, fmt.Errorf("%w: %s is of recipe %s with fingerprint %.12s, baseline %s of %s with %.12s: save a new baseline if the recipe was changed on purpose",
				ErrIncomparable, r.title(), r.Identity.Recipe, r.Fingerprint, name, b.Recipe, b.Fingerprint)
		}
		if err := sameArm(byArm[r.Arm()], r); err != nil {
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
func (b *Baseline) checkArm(c *Check, a BaselineArm, runs []*Run) error {
	name := a.Arm.String()
	if len(runs) == 0 {
		c.Facts = append(c.Facts, Fact{Name: name, Standing: Undecided, Baseline: fmt.Sprintf("%d runs", len(a.Runs)), Reason: "there is no run of this arm"})
		return nil
	}
	var done []*BaselineRun
	same := true // all runs have the bits of the baseline's
	for _, r := range runs {
		seed := fmt.Sprintf("%s seed %d", name, r.Seed)
		if r.Result == nil || r.Result.Status != Complete {
			f := Fact{Name: seed, Exact: true, Standing: Undecided, Baseline: string(Complete), Now: string(Unfinished), Reason: "the run goes on, or broke off"}
			if r.Result != nil {
				f.Now = string(r.Result.Status)
				if r.Result.Status == Failed {
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

// close adds the facts of losses on another kernel path, which rounds otherwise.
func (c *Check) close(seed string, was, is BaselineRun, t Tolerances) {
	for i, p := range was.Phases {
		if i >= len(is.Phases) {
			break
		}
		q := is.Phases[i]
		add := func(what string, far, tolerance float64, at string) {
			f := Fact{Name: seed + " " + p.Name + "." + what, Standing: Holds, Baseline: was.Kernels, Now: is.Kernels, Change: new(Number(far)), Tolerance: new(Number(tolerance)), Relative: true,
				Reason: fmt.Sprintf("on other kernels %s differs by %.2g%%", at, 100*far)}
			if !(far <= tolerance) {
				f.Standing = Regressed
			}
			c.Facts = append(c.Facts, f)
		}
		// A loss that another path learned from by then is not a first one: it is among the losses.
		if i == 0 {
			add("first_loss", relative(float64(p.FirstLoss), float64(q.FirstLoss)), t.FirstLoss, "the first loss")
		}
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

// sampled adds the facts that are tested over seeds.
func (b *Baseline) sampled(c *Check, a BaselineArm, now []*BaselineRun, machine Machine, same bool) {
	for i, p := range a.Runs[0].Phases {
		of := func(value func(BaselinePhase) (float64, bool)) (was, is map[uint64]float64) {
			was, is = map[uint64]float64{}, map[uint64]float64{}
			for _, r := range a.Runs {
				if i < len(r.Phases) {
					if v, ok := value(r.Phases[i]); ok {
						was[r.Seed] = v
					}
				}
			}
			for _, r := range now {
				if i < len(r.Phases) {
					if v, ok := value(r.Phases[i]); ok {
						is[r.Seed] = v
					}
				}
			}
			return was, is
		}
		for _, name := range slices.Sorted(maps.Keys(p.Metrics)) {
			full := p.Name + "." + name
			tolerance, ok := b.Tolerances.Metrics[full]
			if !ok {
				continue
			}
			m, _ := recipe.MetricNamed(name)
			was, is := of(func(p BaselinePhase) (float64, bool) { v, ok := p.Metrics[name]; return v, ok })
			c.Facts = append(c.Facts, test(a.String()+" "+full, was, is, question{tolerance: tolerance, higher: m.Higher, alpha: b.Alpha, same: same}))
		}
		number := func(get func(BaselinePhase) *Number) func(BaselinePhase) (float64, bool) {
			return func(p BaselinePhase) (float64, bool) {
				v := get(p)
				if v == nil {
					return 0, false
				}
				return float64(*v), true
			}
		}
		if p.StepsToTarget != nil {
			was, is := of(number(func(p BaselinePhase) *Number { return p.StepsToTarget }))
			c.Facts = append(c.Facts, test(a.String()+" "+p.Name+".steps_to_target", was, is, question{tolerance: b.Tolerances.StepsToTarget, relative: true, alpha: b.Alpha, same: same}))
		}
		times := Fact{Name: a.String() + " " + p.Name + ".step_seconds", Standing: NotCompared}
		was, is := of(number(func(p BaselinePhase) *Number { return p.StepSeconds }))
		switch {
		case len(was) == 0:
			times.Reason = "the baseline holds no times"
		case machine != b.Machine:
			times.Reason = fmt.Sprintf("times were measured on %s with %d threads, and this is %s with %d", b.Machine.CPU, b.Machine.Threads, machine.CPU, machine.Threads)
		case now[0].Kernels != a.Runs[0].Kernels:
			times.Reason = fmt.Sprintf("times were measured on kernels %s, and these are %s", a.Runs[0].Kernels, now[0].Kernels)
		default:
			times = test(times.Name, was, is, question{tolerance: b.Tolerances.StepSeconds, relative: true, alpha: b.Alpha, unpaired: true})
		}
		c.Facts = append(c.Facts, times)
	}
}

// question is how a sampled fact is tested.
type question struct {
	tolerance float64
	relative  bool // tolerance and change are relative, values are compared on a log scale
	higher    bool // higher is better
	alpha     float64
	same      bool // the runs have the bits of the baseline's: nothing is left to chance
	unpaired  bool // a seed says nothing about the value
}

// test asks whether values by seed have become worse by more than the tolerance. With w the mean change for the worse and s its standard error, over
// pairs of the same seed where there are two or more, or else between two groups of equal variance,
//
//	holds:      w + t_{1-α}·s ≤ tolerance      (no worse than that, at α)
//	regressed:  w > tolerance and w - t_{1-α}·s > 0
//	undecided:  neither
//
// so that a fact never holds because there were too few runs to see anything.
func test(name string, was, is map[uint64]float64, q question) Fact {
	f := Fact{Name: name, Tolerance: new(Number(q.tolerance)), Relative: q.relative}
	x, y, pairs := valuesOf(was), valuesOf(is), []float64{}
	f.Baseline, f.Now = summary(x), summary(y)
	worse := func(a, b float64) float64 {
		switch {
		case q.relative:
			return math.Log(b / a)
		case q.higher:
			return a - b
		}
		return b - a
	}
	if q.same {
		f.Standing, f.Reason, f.Baseline = Holds, "the runs have the same bits as the baseline's", f.Now
		return f
	}
	if len(x) == 0 || len(y) == 0 {
		f.Standing, f.Reason = NotCompared, "only one side has it"
		return f
	}
	lost := func(v []float64) int {
		return count(v, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
	}
	if a, b := lost(x), lost(y); a > 0 || b > 0 {
		f.Standing, f.Reason = Undecided, fmt.Sprintf("not reached, or not finite, in %d of %d runs of the baseline and %d of %d now", a, len(x), b, len(y))
		if a == 0 && b == len(y) {
			f.Standing = Regressed
		} else if a == len(x) {
			f.Standing, f.Reason = NotCompared, f.Reason+": there is nothing to lose"
		}
		return f
	}
	for _, seed := range slices.Sorted(maps.Keys(is)) {
		if v, ok := was[seed]; ok {
			pairs = append(pairs, worse(v, is[seed]))
		}
	}
	var w, se, df float64
	if !q.unpaired && len(pairs) >= 2 && len(pairs) == len(y) {
		mean, sd := stat.MeanStdDev(pairs, nil)
		w, se, df = mean, sd/math.Sqrt(float64(len(pairs))), float64(len(pairs)-1)
	} else {
		if q.relative {
			x, y = logs(x), logs(y)
		}
		w = worseOf(stat.Mean(x, nil), stat.Mean(y, nil), q)
		df = float64(len(x) + len(y) - 2)
		if df > 0 {
			squares := spread(x) + spread(y)
			se = math.Sqrt(squares / df * (1/float64(len(x)) + 1/float64(len(y))))
		}
	}
	shown := func(v float64) *Number { return new(Number(v)) }
	if q.relative {
		shown = func(v float64) *Number { return new(Number(math.Expm1(v))) }
	}
	f.Change = shown(w)
	if q.higher && w != 0 {
		f.Change = new(Number(-w))
	}
	limit := q.tolerance
	if q.relative {
		limit = math.Log1p(q.tolerance)
	}
	if df <= 0 {
		f.Standing, f.Reason = Undecided, "one run on each side has no variance: more seeds are needed"
		return f
	}
	t := distuv.StudentsT{Sigma: 1, Nu: df}.Quantile(1 - q.alpha)
	f.Noise = shown(t * se)
	if se > 0 {
		f.Power = new(Number(1 - normal((max(limit, t*se)-2*limit)/se)))
	} else {
		f.Power = new(Number(1))
	}
	switch {
	case w+t*se <= limit:
		f.Standing, f.Reason = Holds, "no worse than the tolerance"
	case w > limit && w-t*se > 0:
		f.Standing, f.Reason = Regressed, "worse by more than the tolerance, and by more than chance does"
	default:
		f.Standing = Undecided
		f.Reason = "the noise reaches beyond the tolerance: more seeds are needed"
	}
	return f
}

// worseOf is the change of means for the worse; relative ones are logs already.
func worseOf(a, b float64, q question) float64 {
	if q.higher && !q.relative {
		return a - b
	}
	return b - a
}

func valuesOf(m map[uint64]float64) []float64 {
	var v []float64
	for _, seed := range slices.Sorted(maps.Keys(m)) {
		v = append(v, m[seed])
	}
	return v
}

func logs(v []float64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = math.Log(v[i])
	}
	return out
}

// spread is the sum of squared distances from the mean.
func spread(v []float64) float64 {
	mean, sum := stat.Mean(v, nil), 0.0
	for _, x := range v {
		sum += (x - mean) * (x - mean)
	}
	return sum
}

func count(v []float64, is func(float64) bool) int {
	n := 0
	for _, x := range v {
		if is(x) {
			n++
		}
	}
	return n
}

// summary is mean ± standard deviation (number of runs).
func summary(v []float64) string {
	if len(v) == 0 {
		return ""
	}
	reached := slices.DeleteFunc(slices.Clone(v), func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) })
	if len(reached) < len(v) {
		return fmt.Sprintf("reached in %d of %d", len(reached), len(v))
	}
	mean, sd := stat.MeanStdDev(v, nil)
	text := fmt.Sprintf("%.4g", mean)
	if len(v) > 1 {
		text += fmt.Sprintf(" ± %.2g", sd)
	}
	return text + fmt.Sprintf(" (%d)", len(v))
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
