package verdict

import "harness.invalid/results"

// placesOfRuns finds the runs of a comparison by arm and seed, and those that serve the A/A comparison. It is made anew
// when there are other runs than when it was made.
type placesOfRuns struct {
	of    map[runKey]int // in Comparison.Runs
	known int            // so many runs
	first *RunSummary
	// others are the seeds that an arm besides the baseline has a run with. alone are those of the baseline that no
	// other arm has.
	others, alone map[uint64]bool
}

func (c *Comparison) index() *placesOfRuns {
	p := &c.places
	if p.of != nil && p.known == len(c.Runs) && p.first == &c.Runs[0] {
		return p
	}
	*p = placesOfRuns{of: map[runKey]int{}, known: len(c.Runs), others: map[uint64]bool{}, alone: map[uint64]bool{}}
	if len(c.Runs) == 0 {
		return p
	}
	p.first = &c.Runs[0]
	baseline := c.Runs[0].Arm
	for i := range c.Runs {
		r := &c.Runs[i]
		p.of[runKey{r.Arm, r.Seed}] = i
		if r.Arm != baseline {
			p.others[r.Seed] = true
		}
	}
	for i := range c.Runs {
		if r := &c.Runs[i]; r.Arm == baseline && !p.others[r.Seed] {
			p.alone[r.Seed] = true
		}
	}
	c.visits += 2 * len(c.Runs)
	return p
}

// Place is where the run of an arm with a seed is in Runs; -1: there is none.
func (c *Comparison) Place(a results.Arm, seed uint64) int {
	if i, ok := c.index().of[runKey{a, seed}]; ok {
		return i
	}
	return -1
}

// InNoise reports whether the run of an arm with a seed serves the A/A comparison alone: it is of the baseline, no
// other arm has a run with its seed, in whatever state, and it is not the only such run.
func (c *Comparison) InNoise(a results.Arm, seed uint64) bool {
	p := c.index()
	return len(p.others) > 0 && a == c.Runs[0].Arm && p.alone[seed] && len(p.alone) > 1
}
