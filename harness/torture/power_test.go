//go:build unix

package torture

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"harness.invalid/core/fault"
	"harness.invalid/results"
)

// recorder notes the operations on files that succeed.
type recorder struct {
	saboteur
	trace []fault.Op
}

// newRecorder is one that kills before an operation, from 1; 0: never.
func newRecorder(at int) *recorder {
	r := &recorder{saboteur: saboteur{at: at, way: killed}}
	r.done = func(op *fault.Op) {
		if op.Path != "" {
			kept := *op
			kept.Data = slices.Clone(op.Data)
			r.trace = append(r.trace, kept)
		}
	}
	return r
}

// traced trains a run to its end, with the operations of that.
func (e *trained) traced(dir string) ([]fault.Op, error) {
	r := newRecorder(0)
	defer fault.Intercept(r.intercept)()
	d := newDevices()
	o, err := e.run(e.job(dir, d))
	if err = errors.Join(err, d.close()); err != nil {
		return nil, err
	}
	if diff := e.whole.differs(o); diff != "" {
		return nil, errors.New("it differs in " + diff)
	}
	return r.trace, nil
}

// kept is what a run had made sure of before an operation: so many steps in a checkpoint, or the end of the run.
type kept struct {
	steps int
	over  bool
}

// add takes over what the trace says after an operation: a checkpoint, or a result, is safe once its folder is flushed.
func (k *kept) add(e *trained, trace []fault.Op, n int) {
	if n == 0 || trace[n].Kind != fault.SyncDir || trace[n-1].Kind != fault.Rename {
		return
	}
	to := trace[n-1].To
	k.over = k.over || filepath.Base(to) == "result.json"
	if m := checkpointName.FindStringSubmatch(filepath.Base(to)); m != nil {
		steps, _ := strconv.Atoi(m[2])
		for _, p := range e.recipe.Phases {
			if p.Name == m[1] {
				break
			}
			steps += p.Steps
		}
		k.steps = max(k.steps, steps)
	}
}

// powerless resumes what a power cut left, and says what is wrong: other bits, or steps lost that were safe.
func (e *trained) powerless(dir string, safe kept) error {
	before, err := results.Open(dir)
	if over := err == nil && before.Result != nil; safe.over && !over {
		return fmt.Errorf("the run was over, and is not any more (%w)", err)
	}
	if err := e.recovers(dir); err != nil || safe.over {
		return err
	}
	r, err := results.Open(dir)
	if err != nil {
		return err
	}
	segments, err := r.Segments()
	if err != nil {
		return err
	}
	if from := segments[len(segments)-1].After; from < safe.steps && (before == nil || before.Result == nil) {
		return fmt.Errorf("it went on after step %d, and step %d had been saved", from, safe.steps)
	}
	return nil
}

// cuts cuts the power before each operation of a trace that begins with a disk, as long as try wants more.
func cuts(e *trained, d *disk, trace []fault.Op, safe kept, try func(n int, d *disk, safe kept) bool) {
	for n := range trace {
		if !try(n, d, safe) {
			return
		}
		d.do(&trace[n])
		safe.add(e, trace, n)
	}
	try(len(trace), d, safe)
}

// cutAgain resumes a run, cuts the power before an operation, from 1, and leaves in the run's folder what the disk has. It
// returns the point; empty: the run came to its end before.
func (e *trained) cutAgain(dir string, n, state int, draw *rand.Rand) (string, error) {
	base, err := newDisk(filepath.Dir(dir))
	if err != nil {
		return "", err
	}
	r := newRecorder(n)
	remove := fault.Intercept(r.intercept)
	d := newDevices()
	o, err := e.run(e.job(dir, d))
	remove()
	if err := d.close(); err != nil {
		return "", err
	}
	if r.struck == "" {
		if err == nil {
			if diff := e.whole.differs(o); diff != "" {
				err = errors.New("it differs in " + diff)
			}
		}
		return "", err
	}
	for i := range r.trace {
		base.do(&r.trace[i])
	}
	if err := os.RemoveAll(filepath.Dir(dir)); err != nil {
		return "", err
	}
	return r.struck, base.cut(state, draw, filepath.Dir(dir))
}

// TestPowerCuts: whatever a power cut leaves of what was not flushed, the run that is resumed ends with the same bits, and
// no step is lost that was in a checkpoint. In the long form the power is cut again and again while the run is resumed.
func TestPowerCuts(t *testing.T) {
	e := whole(t)
	s := newSuite(t, "power cuts", 0.35)
	parent := filepath.Join(scratch, "power")
	if err := os.MkdirAll(parent, 0o777); err != nil {
		t.Fatal(err)
	}
	trace, err := e.traced(filepath.Join(parent, "run"))
	if err != nil {
		t.Fatal(err)
	}
	draw := rand.New(rand.NewPCG(uint64(*seed), 2))
	dir := filepath.Join(scratch, "cut", "run")
	const short = 12
	one := func(n, state int, d *disk, safe kept, deep bool) {
		if err := d.cut(state, draw, filepath.Dir(dir)); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(filepath.Dir(dir)) }()
		at := "the end"
		if n < len(trace) {
			at = point(&trace[n])
		}
		what := fmt.Sprintf("cut before operation %d, %s", n, stateName(state))
		if !deep {
			s.trial(what, e.powerless(dir, safe), at)
			return
		}
		struck := []string{at}
		for range 1 + draw.IntN(6) {
			before, err := results.Open(dir)
			over := err == nil && before.Result != nil
			point, err := e.cutAgain(dir, 1+draw.IntN(len(trace))>>draw.IntN(3), draw.IntN(states), draw)
			if over || err != nil || point == "" {
				if err != nil {
					s.trial(what, err, struck...)
					return
				}
				break
			}
			struck = append(struck, point+" while it was resumed")
		}
		s.trial(fmt.Sprintf("%s, and %d times more", what, len(struck)-1), e.powerless(dir, kept{steps: safe.steps}), struck...)
	}
	begin := func() *disk { return &disk{base: parent, root: newFolder()} }
	i, stride := 0, 1
	if *long == 0 {
		stride = (len(trace)+1)*states/short + 1
	}
	cuts(e, begin(), trace, kept{}, func(n int, d *disk, safe kept) bool {
		for state := range states {
			if i++; i%stride == 0 {
				one(n, state, d, safe, false)
			}
		}
		return *seed == 1
	})
	for *long > 0 && s.more(short) {
		cuts(e, begin(), trace, kept{}, func(n int, d *disk, safe kept) bool {
			if draw.IntN(8) == 0 {
				one(n, draw.IntN(states), d, safe, draw.IntN(2) == 0)
			}
			return s.more(short)
		})
	}
	t.Logf("%d operations, %d trials, %d faults, %d lost", len(trace), s.trials, s.faults, s.lost)
}
