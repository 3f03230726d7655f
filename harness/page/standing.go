package page

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"harness.invalid/harness/series"
	"harness.invalid/results"
)

// standing says where the runs stand that are not complete.
type standing struct {
	Summary string // "": all are complete
	Runs    []progress
	More    int // runs that are not listed
}

// progress is how far an unfinished run is.
type progress struct {
	Name, Text string
	State      results.Status
	Class      string // of its colour
	Why        string // it stands
	Share      float64
	Known      bool // Share is, from 0 to 1
}

// mostStanding is how many runs are listed one by one.
const mostStanding = 12

// Percent formats the share for the page.
func (p progress) Percent() string { return strconv.FormatFloat(100*p.Share, 'f', 1, 64) }

// Moves reports whether the run goes on.
func (p progress) Moves() bool { return p.State == results.Running }

// standingOf lists runs that go on first, and then those that stand.
func standingOf(records []*series.Record) standing {
	var s standing
	counts := map[results.Status]int{}
	for _, r := range records {
		state, why := r.State()
		if counts[state]++; state != results.Complete {
			s.Runs = append(s.Runs, newProgress(r, state, why))
		}
	}
	if len(s.Runs) == 0 {
		return s
	}
	rank := func(p progress) int { return slices.Index(stateOrder, p.State) }
	slices.SortStableFunc(s.Runs, func(a, b progress) int { return rank(a) - rank(b) })
	s.More = max(0, len(s.Runs)-mostStanding)
	s.Runs = s.Runs[:len(s.Runs)-s.More]
	parts := []string{fmt.Sprintf("%d of %s complete", counts[results.Complete], counted(len(records), "run"))}
	for _, state := range stateOrder {
		if n := counts[state]; n > 0 {
			parts = append(parts, inState(n, state))
		}
	}
	s.Summary = strings.Join(parts, ", ") + "."
	return s
}

// stateOrder is from what moves to what needs somebody.
var stateOrder = []results.Status{results.Running, results.Failed, results.BrokenOff, results.Stopped, results.Unfinished}

// inState is so many runs and their state as a clause.
func inState(n int, state results.Status) string {
	many := n != 1
	switch state {
	case results.Failed:
		return fmt.Sprintf("%d failed", n)
	case results.BrokenOff:
		return fmt.Sprintf("%d broke off", n)
	case results.Stopped:
		return fmt.Sprintf("%d %s stopped", n, map[bool]string{true: "were", false: "was"}[many])
	}
	return fmt.Sprintf("%d %s %s", n, map[bool]string{true: "are", false: "is"}[many], state)
}

// stateClass is the class of a state's colour.
func stateClass(s results.Status) string {
	switch s {
	case results.Complete:
		return "good"
	case results.Failed, results.BrokenOff:
		return "bad"
	case results.Running:
		return "go"
	}
	return "doubt"
}

func newProgress(r *series.Record, state results.Status, why string) progress {
	p := progress{Name: fmt.Sprintf("%s, seed %d", r.Arm(), r.Seed), State: state, Class: stateClass(state), Why: why, Text: "no step yet"}
	n := len(r.Steps)
	if n == 0 {
		return p
	}
	at := r.Steps[n-1]
	p.Text = fmt.Sprintf("%s, step %d", at.Phase, at.Step)
	total := 0
	for _, phase := range r.Recipe.Phases {
		if phase.Steps == 0 {
			total = 0
			break
		}
		total += phase.Steps
		if phase.Name == at.Phase {
			p.Text += fmt.Sprintf(" of %d", phase.Steps)
		}
	}
	if total > 0 {
		p.Share, p.Known = float64(at.Total)/float64(total), true
	}
	if loss, ok := at.Values["loss"]; ok && !math.IsNaN(loss) {
		p.Text += fmt.Sprintf(", loss %.3f", loss)
	}
	return p
}
