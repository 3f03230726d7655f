package regression

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"harness.invalid/results"
	"harness.invalid/results/statistics"
)

// sharedMachine simulates step times on a machine that others use as well: whatever happens adds to a step. Its
// figures come from 30 runs of scratch at load averages of 0.3 to 23, in which the medians of steps had a standard
// deviation of 36 to 47% over runs, and the minima of 450 to 600 steps one of 2 to 5%.
type sharedMachine struct {
	rng *rand.Rand
	// drift is how much slower than its best the machine is at present, busy whether something disturbs steps. Both
	// last for a while.
	drift float64
	busy  bool
}

// run returns the seconds of steps that take one second on a quiet machine.
func (m *sharedMachine) run(steps int) []float64 {
	// From run to run the drift keeps three quarters of its variance.
	m.drift = math.Sqrt(0.75)*m.drift + 0.5*0.03*m.rng.NormFloat64()
	spoiled := 0.0
	if m.rng.IntN(30) == 0 { // something else takes its share from the first step to the last
		spoiled = 0.2
	}
	v := make([]float64, steps)
	for i := range v {
		if m.rng.IntN(25) == 0 {
			m.busy = m.rng.IntN(2) == 0
		}
		v[i] = (1 + math.Abs(m.drift)) * (1 + spoiled) * (1 + 0.02*m.rng.ExpFloat64())
		if m.busy {
			v[i] += m.rng.ExpFloat64()
		}
	}
	return v
}

// trial times a baseline and a program that is slower by a factor, taking turns: by the fastest step, and by the
// median step.
func (m *sharedMachine) trial(seeds, steps int, slower float64) (fastest, medians [2][]float64) {
	for seed := range seeds {
		for i := range 2 {
			side := (i + seed) % 2
			run, factor := m.run(steps), 1.0
			if side == 1 {
				factor = slower
			}
			fastest[side], medians[side] = append(fastest[side], factor*slices.Min(run)),
				append(medians[side], factor*statistics.Median(run[statistics.WarmUp(steps):]))
		}
	}
	return fastest, medians
}

// TestTimesRates checks step times of a noisy machine. A sound program passes, one that is 10% slower fails, and
// one that is slower by the tolerance passes at a rate of α at most. Student's test of the medians, which earlier
// versions used, decides little.
func TestTimesRates(t *testing.T) {
	const (
		trials = 400
		alpha  = 0.05
	)
	m := &sharedMachine{rng: rand.New(rand.NewPCG(11, 12))}
	q := question{tolerance: 0.05, relative: true, alpha: alpha, ranks: true}
	limit := math.Log1p(q.tolerance)
	slack := 4 * math.Sqrt(alpha*(1-alpha)/trials)
	for _, c := range []struct {
		seeds, steps int
		settled      float64 // of sound programs and of slow ones, at least
	}{{6, 80, 0.9}, {10, 50, 0.95}} {
		for _, slower := range []float64{1, 1.05, 1.1} {
			now, before := map[Standing]float64{}, map[Standing]float64{}
			for range trials {
				fastest, medians := m.trial(c.seeds, c.steps, slower)
				e, _ := q.estimate(fastest[0], fastest[1], nil)
				now[e.standing(limit)] += 1.0 / trials
				e, _ = question{alpha: alpha}.estimate(logs(medians[0]), logs(medians[1]), nil)
				before[e.standing(limit)] += 1.0 / trials
			}
			switch {
			case slower == 1 && (now[Holds] < c.settled || now[Regressed] > alpha+slack):
				t.Errorf("%d seeds of a sound program: %v", c.seeds, now)
			case slower == 1.05 && now[Holds] > alpha+slack:
				t.Errorf("%d seeds, slower by the tolerance: %v", c.seeds, now)
			case slower == 1.1 && (now[Regressed] < c.settled || now[Holds] > alpha+slack):
				t.Errorf("%d seeds, 10%% slower: %v", c.seeds, now)
			case slower != 1.05 && before[Undecided] < 0.5:
				t.Errorf("%d seeds, slower by %g, the medians: %v, want most undecided", c.seeds, slower, before)
			}
		}
	}
}

// TestTimesFact: what is decided, and by which test, from few runs and from many.
func TestTimesFact(t *testing.T) {
	for _, c := range []struct {
		name     string
		now      []float64 // by seed from 1 on; the baseline has 1.00, 1.01 ...
		before   int       // seeds of the baseline
		standing Standing
		test     string
		further  int // at least; 0: none
		why      string
	}{
		{"sound", []float64{1, 1.02, 1.01, 1.04, 1.05, 1.05}, 6, Holds, rankSum, 0, "no worse"},
		{"slower", []float64{1.09, 1.12, 1.11, 1.15, 1.13, 1.15}, 6, Regressed, rankSum, 0, "by more than chance"},
		{"one run was disturbed", []float64{1, 1.02, 1.01, 1.03, 1.03, 1.9}, 6, Holds, rankSum, 0, "no worse"},
		{"the fewest", []float64{1, 1.01, 1.021}, 3, Holds, rankSum, 0, "no worse"},
		{"too few for ranks", []float64{1.04, 1.05}, 3, NotCompared, "", 0, "2 now and 3 of the baseline"},
		{"noise", []float64{1, 1.3, 1.01, 1.2, 1.4, 1.05}, 6, Undecided, rankSum, 5, "if the change stays as it is"},
		{"at the tolerance", []float64{1.05, 1.06, 1.07, 1.08, 1.09, 1.1}, 6, Undecided, rankSum, 50, "if the change stays as it is"},
		{"one run", []float64{1.2}, 1, NotCompared, "", 0, "1 now and 1 of the baseline"},
		{"the baseline's own run", []float64{1}, 1, Holds, "", 0, "of the baseline's runs"},
		{"some of the baseline's own runs", []float64{1, 1.01}, 6, Holds, "", 0, "of the baseline's runs"},
	} {
		was, is := map[uint64]float64{}, map[uint64]float64{}
		for i := range c.before {
			was[uint64(i+1)] = 1 + 0.01*float64(i)
		}
		for i, v := range c.now {
			is[uint64(i+1)] = v
		}
		b := &Baseline{Alpha: 0.05, Tolerances: defaultTolerances}
		f := b.times(BaselineArm{Runs: []BaselineRun{{}}}, "squad", []*BaselineRun{{}}, Machine{}, was, is)
		if f.Standing != c.standing || f.Test != c.test || !strings.Contains(f.Reason, c.why) ||
			(f.FurtherSeeds == 0) != (c.further == 0) || f.FurtherSeeds < c.further {
			t.Errorf("%s: %s by %q, %d further seeds: %s", c.name, f.Standing, f.Test, f.FurtherSeeds, f.Reason)
		}
		if f.Power != nil && !(*f.Power >= 0 && *f.Power <= 1) {
			t.Errorf("%s: power %g", c.name, float64(*f.Power))
		}
	}
}

// TestOldTimes: a baseline of an earlier version holds medians of steps. It can be read; its times are not
// compared, and a note says so.
func TestOldTimes(t *testing.T) {
	old := `{"recipe": "r", "fingerprint": "f", "alpha": 0.05, "machine": {"cpu": "c", "threads": 1},
		"tolerances": {"metrics": {}, "step_seconds": 0.05}, "waivers": [], "arms": [{"backend": "b", "optimizer": "o",
		"runs": [{"seed": 1, "phases": [{"name": "p", "metrics": {}, "losses": [], "measured_step_seconds": 0.1}]}]}]}`
	b, err := ReadBaseline("old", []byte(old))
	if err != nil {
		t.Fatal(err)
	}
	c := &Check{}
	b.sampled(c, b.Arms[0], []*BaselineRun{{Seed: 1, Phases: []BaselinePhase{{Name: "p",
		FastestStepSeconds: new(results.Number(0.2))}}}}, b.Machine, false)
	if got := fmt.Sprint(c.Facts, c.Notes); len(c.Facts) != 1 || c.Facts[0].Standing != NotCompared ||
		!strings.Contains(got, "holds medians") || !strings.Contains(got, "save it again from its runs") {
		t.Errorf("facts and notes: %s", got)
	}
}
