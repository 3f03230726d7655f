package experiment

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"harness.invalid/core/recipe"
	"harness.invalid/results"
	"harness.invalid/results/verdict"
)

// End says why an experiment trained no further seeds.
type End string

// The ends.
const (
	AllSeeds    End = "all seeds" // as many as were asked for; a sequential plan has come to its end
	Decided     End = "decided"   // every arm has a verdict in the primary metric
	OutOfBudget End = "out of budget"
	// NothingLearned: no arm is left that seeds could decide, and one was given up at the first look since neither it nor
	// the first arm had learned anything.
	NothingLearned End = "nothing learned"
)

// Further is what it takes to go on with an experiment that is out of budget.
type Further struct {
	Pairs int           // of seeds, until the next look or, as far as that can be told, a verdict
	Time  time.Duration // at the pace so far, with some to spare
}

// pairs trains an experiment seed by seed, for as long as the plan and the budget want more.
type pairs struct {
	*Session
	began     time.Time
	outcome   *Outcome
	undecided []Arm // to be trained with the next seed, the first arm among them
	nothing   bool  // an arm was given up, see NothingLearned
	seconds   float64
	further   int // seeds that a verdict would take, as the last comparison has it
}

// train trains waves of seeds until the experiment ends.
func (p *pairs) train(ctx context.Context, executor Executor) error {
	all := p.seeds()
	wave := executor.Wave()
	if p.Budget == 0 && !p.follows() {
		wave = all // nothing can end it earlier
	}
	p.undecided = p.Arms
	for n := 0; ; {
		k := min(wave, all-n)
		if err := p.wave(ctx, executor, n, k); err != nil {
			return err
		}
		n += k
		if p.follows() && len(p.Arms) > 1 {
			if err := p.compare(n); err != nil {
				return err
			}
		}
		switch {
		case len(p.undecided) == 0 && p.nothing:
			p.outcome.Ended = NothingLearned
		case len(p.undecided) == 0:
			p.outcome.Ended = Decided
		case n == all:
			p.outcome.Ended = AllSeeds
		case !p.admits(n, wave):
			p.outcome.Ended = OutOfBudget
		default:
			continue
		}
		return nil
	}
}

// wave trains k seeds from the n-th on.
func (p *pairs) wave(ctx context.Context, executor Executor, n, k int) error {
	began := time.Now()
	runs, err := executor.Execute(ctx, p.Session, p.plan(p.undecided, n, k))
	if err != nil {
		return err
	}
	p.outcome.Runs = append(p.outcome.Runs, runs...)
	p.seconds += time.Since(began).Seconds()
	for _, r := range runs {
		if r.Result != nil && r.Result.Finished.Before(began) {
			p.seconds += r.Result.MeasuredSeconds[results.TotalSeconds] // it was there already
		}
	}
	return nil
}

// compare judges the runs so far, tells how far that is from a verdict, and lets the arms go that have one or will have
// none.
func (p *pairs) compare(n int) error {
	c, err := verdict.Verdicts(p.outcome.Runs)
	if err != nil {
		return err
	}
	p.undecided, p.further, p.nothing = p.Arms[:1:1], 0, false
	for _, a := range p.Arms[1:] {
		i := slices.IndexFunc(c.Comparisons, func(q verdict.Pairing) bool { return q.Arm == a.recorded(p.Recipe) })
		q := c.Comparisons[i]
		d := primary(q)
		if len(q.Seeds) == n && n > 1 {
			p.Observe.tell(PairCompared{Arm: q.Arm, Baseline: q.Baseline, Pairs: n, Difference: d, Budget: p.Budget, Left: p.left()})
		}
		switch {
		case q.Decided():
		case q.Look != nil && d.Withheld != nil && d.Withheld.Guard == verdict.NothingLearned:
			p.nothing = true // which further seeds would not change
		default:
			p.undecided = append(p.undecided, a)
			p.further = max(p.further, d.FurtherSeeds)
		}
	}
	if len(p.undecided) == 1 {
		p.undecided = nil
	}
	return nil
}

// primary is the difference in the primary metric.
func primary(q verdict.Pairing) verdict.Difference {
	i := slices.IndexFunc(q.Metrics, func(d verdict.Difference) bool { return d.Primary })
	return q.Metrics[i] // a sequential plan has one
}

func (p *pairs) left() time.Duration { return max(0, p.Budget-time.Since(p.began)) }

// admits reports whether the budget suffices for what must follow n seeds: another wave, or all that are left to the
// first look of a sequential plan. It goes by the mean time of a run.
func (p *pairs) admits(n, wave int) bool {
	if p.Budget == 0 || p.Resume && p.there(p.plan(p.undecided, n, wave)) {
		return true
	}
	need := wave
	if p.follows() {
		need = max(need, recipe.LeastSequential-n)
	}
	if p.time(need) <= p.left() {
		return true
	}
	pairs := max(need, p.further)
	p.outcome.Further = Further{pairs, p.time(pairs) * 5 / 4}
	return false
}

// there reports whether all planned runs are complete already.
func (p *pairs) there(planned []Planned) bool {
	return !slices.ContainsFunc(planned, func(r Planned) bool {
		run, err := results.Open(filepath.Join(p.Dir, r.Name))
		return err != nil || run.Result == nil || run.Result.Status != results.Complete
	})
}

// time is what so many further seeds of the undecided arms take.
func (p *pairs) time(seeds int) time.Duration {
	runs := seeds * len(p.undecided)
	if p.Noise {
		runs += seeds
	}
	return time.Duration(p.seconds / float64(len(p.outcome.Runs)) * float64(runs) * float64(time.Second))
}
