package scoring

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"harness.invalid/results"
	"harness.invalid/results/statistics"
	"harness.invalid/results/verdict"
)

// ProfileEnd is the ratio to the fastest time from which on the target counts as not reached. Source: Dahl et al.
// 2023, Benchmarking Neural Network Training Algorithms (arXiv:2306.07179), section 4.5.
const ProfileEnd = 4.0

// Profile is AlgoPerf's performance profile of an algorithm (Dolan, Moré 2002, Math. Program. 91:201): it finishes
// Share(τ) of the workloads within τ times the fastest time.
type Profile struct {
	Ratios []float64 // to the fastest, sorted; Infinity where the target was not reached
}

// Profiles compares algorithms by their times on the same workloads: times[algorithm][workload], Infinity for a
// target that was not reached. A workload that no algorithm finishes counts against all.
func Profiles(times [][]float64) []Profile {
	profiles := make([]Profile, len(times))
	for w := range times[0] {
		fastest := math.Inf(1)
		for _, t := range times {
			fastest = min(fastest, t[w])
		}
		for a, t := range times {
			ratio := math.Inf(1)
			if !math.IsInf(fastest, 1) {
				ratio = t[w] / fastest
			}
			profiles[a].Ratios = append(profiles[a].Ratios, ratio)
		}
	}
	for _, p := range profiles {
		slices.Sort(p.Ratios)
	}
	return profiles
}

// Share is ρ(τ).
func (p Profile) Share(tau float64) float64 {
	n := 0
	for _, r := range p.Ratios {
		if r <= tau {
			n++
		}
	}
	return float64(n) / float64(len(p.Ratios))
}

// Score is the area under the profile from 1 to ProfileEnd, divided by its width: 1 for an algorithm that is
// fastest everywhere. The published program sums over a grid; this is the integral.
func (p Profile) Score() float64 {
	area := 0.0
	for _, r := range p.Ratios {
		area += max(0, ProfileEnd-r)
	}
	return area / (ProfileEnd - 1) / float64(len(p.Ratios))
}

// Race is how an arm got to the target of a phase, run by run; Infinity for a run that did not get there.
type Race struct {
	results.Arm
	Batch   int       // sequences of a step
	Seconds []float64 // measured, of training
	Clock   []float64 // the same with evaluations up to there, as MLPerf counts
	Steps   []float64
	Samples []float64 // sequences
}

// Reached is how many runs got there.
func (r Race) Reached() int {
	n := 0
	for _, v := range r.Steps {
		if !math.IsInf(v, 1) {
			n++
		}
	}
	return n
}

// Races sorts ended runs of one recipe by arm. An empty phase means the last one with a target. As the rules say,
// the evaluation that finds the target reached counts; nothing is interpolated.
func Races(runs []*results.Run, phase string) ([]Race, error) {
	c, err := verdict.Compare(runs)
	if err != nil {
		return nil, err
	}
	r := runs[0].Recipe
	i := -1
	for k, p := range r.Phases {
		if p.Target != nil && (phase == "" || p.Name == phase) {
			i = k
		}
	}
	if i < 0 {
		return nil, fmt.Errorf("recipe %s has no target in %s", r.Name, cmp.Or(phase, "any phase"))
	}
	var races []Race
	for _, a := range c.Arms {
		race := Race{Arm: a.Arm, Batch: r.Phases[i].GlobalBatch}
		for _, run := range c.Ended(a.Arm) {
			step, seconds, clock := math.Inf(1), math.Inf(1), math.Inf(1)
			if p, ok := run.Phase(r.Phases[i].Name); ok && run.Complete() && p.Target != nil && p.Target.Step > 0 {
				step, seconds = float64(p.Target.Step), p.Target.MeasuredSeconds
				spent, err := evaluating(runs, run.Dir, p.Name, p.Target.Step)
				if err != nil {
					return nil, err
				}
				clock = seconds + spent
			}
			race.Steps, race.Seconds, race.Clock = append(race.Steps, step), append(race.Seconds, seconds), append(race.Clock, clock)
			race.Samples = append(race.Samples, step*float64(race.Batch))
		}
		races = append(races, race)
	}
	return races, nil
}

// evaluating is the measured seconds of a phase's evaluations up to a step, of the run in a folder.
func evaluating(runs []*results.Run, dir, phase string, step int) (seconds float64, err error) {
	i := slices.IndexFunc(runs, func(r *results.Run) bool { return r.Dir == dir })
	if i < 0 {
		return 0, fmt.Errorf("no run of the comparison is in %q", dir)
	}
	for e, err := range runs[i].Evaluations() {
		if err != nil {
			return 0, err
		}
		if e.Phase == phase && e.Step <= step {
			seconds += e.MeasuredSeconds
		}
	}
	return seconds, nil
}

// Leaderboard compares optimizers over workloads.
type Leaderboard struct {
	Workloads  []string // RECIPE on BACKEND
	Optimizers []string
	Times      [][]float64 // by optimizer and workload: median over seeds
	Profiles   []Profile   // by optimizer
}

// NewLeaderboard groups runs of several recipes by workload and optimizer. Every optimizer must have run on every
// workload: to count a missing run as not reached, or not at all, would both be wrong.
func NewLeaderboard(runs []*results.Run, bySteps bool) (*Leaderboard, error) {
	b := &Leaderboard{}
	byRecipe := map[string][]*results.Run{}
	var recipes []string
	for _, r := range runs {
		key := r.Fingerprint + r.DataDigest
		if byRecipe[key] == nil {
			recipes = append(recipes, key)
		}
		byRecipe[key] = append(byRecipe[key], r)
	}
	type place struct{ workload, optimizer string }
	times := map[place]float64{}
	for _, key := range recipes {
		races, err := Races(byRecipe[key], "")
		if err != nil {
			return nil, err
		}
		for _, race := range races {
			w := byRecipe[key][0].Identity.Recipe + " on " + race.Backend
			if !slices.Contains(b.Workloads, w) {
				b.Workloads = append(b.Workloads, w)
			}
			if !slices.Contains(b.Optimizers, race.Optimizer) {
				b.Optimizers = append(b.Optimizers, race.Optimizer)
			}
			if _, ok := times[place{w, race.Optimizer}]; ok {
				return nil, fmt.Errorf("%w: two experiments are %s with %s: they differ in fingerprint or data", verdict.ErrIncomparable, w,
					race.Optimizer)
			}
			if len(race.Steps) == 0 {
				return nil, fmt.Errorf("%s with %s has no run that ended", w, race.Optimizer)
			}
			v := race.Seconds
			if bySteps {
				v = race.Steps
			}
			times[place{w, race.Optimizer}] = statistics.Median(v)
		}
	}
	for _, o := range b.Optimizers {
		row := make([]float64, len(b.Workloads))
		for i, w := range b.Workloads {
			t, ok := times[place{w, o}]
			if !ok {
				return nil, fmt.Errorf("%w: there is no run of %s with %s", verdict.ErrIncomparable, w, o)
			}
			row[i] = t
		}
		b.Times = append(b.Times, row)
	}
	if len(b.Optimizers) < 2 {
		return nil, fmt.Errorf("%w: a profile compares two optimizers or more, and there is %s alone", verdict.ErrIncomparable, b.Optimizers[0])
	}
	b.Profiles = Profiles(b.Times)
	return b, nil
}
