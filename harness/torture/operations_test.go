//go:build unix

package torture

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"

	"harness.invalid/core/fault"
)

// The ways in which an operation fails.
const (
	refused = "refused" // nothing happens, EIO
	unsure  = "unsure"  // it happens, EIO
	full    = "full"    // from now on no space is left: half of a write happens, ENOSPC
	killed  = "killed"  // the process is gone: from now on nothing happens
	torn    = "torn"    // the process is gone, half of the operation happened
)

var ways = []string{refused, unsure, full, killed, torn}

// saboteur makes the operation fail that has a number, from 1. Nothing is flushed to the disk, which the page cache of a
// process that is killed does not need.
type saboteur struct {
	mu     sync.Mutex
	at     int // 0: none
	way    string
	n      int             // operations so far
	struck string          // the point of the operation that failed; empty: there were fewer
	down   error           // of all operations from now on
	done   func(*fault.Op) // is told of operations that succeed; nil: nobody is
}

var errKilled = errors.New("the process was killed")

func (s *saboteur) intercept(op *fault.Op, do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	act := do
	do = func() (err error) {
		if op.Kind != fault.Sync && op.Kind != fault.SyncDir {
			err = act()
		}
		if err == nil && s.done != nil {
			s.done(op)
		}
		return err
	}
	takes := op.Kind == fault.Write || op.Kind == fault.Create || op.Kind == fault.Mkdir || op.Kind == fault.Grow
	switch {
	case errors.Is(s.down, syscall.ENOSPC) && takes:
		return s.down
	case errors.Is(s.down, errKilled):
		return s.down
	case s.n != s.at:
		return do()
	}
	s.struck = point(op)
	switch s.way {
	case unsure:
		return errors.Join(do(), syscall.EIO)
	case full:
		if !takes {
			return syscall.EIO
		}
		s.down = syscall.ENOSPC
		return errors.Join(half(op, do), s.down)
	case killed:
		s.down = errKilled
		return s.down
	case torn:
		s.down = errKilled
		return errors.Join(half(op, do), s.down)
	}
	return syscall.EIO
}

// half does half of what is not done at once.
func half(op *fault.Op, do func() error) error {
	switch op.Kind {
	case fault.Write:
		op.Data = op.Data[:len(op.Data)/2]
		return do()
	case fault.Prune:
		entries, err := os.ReadDir(op.Path)
		for _, e := range entries[:len(entries)/2] {
			err = errors.Join(err, os.Remove(filepath.Join(op.Path, e.Name())))
		}
		return err
	}
	return nil
}

var (
	checkpointName = regexp.MustCompile(`[0-9]{2}-([a-z0-9]+)-([0-9]{8})`)
	tornName       = regexp.MustCompile(`\.[0-9a-f]{8}(\.old)?\.tmp`)
)

// point names an operation: what it does to what, whatever the step.
func point(op *fault.Op) string {
	name := op.Path
	if rel, err := filepath.Rel(scratch, name); err == nil && name != "" {
		name = rel
	}
	dir, base := filepath.Split(name)
	if parent := filepath.Base(dir); checkpointName.MatchString(parent) || parent == "checkpoints" {
		base = parent + "/" + base
	}
	base = checkpointName.ReplaceAllString(base, "CHECKPOINT")
	if base == filepath.Base(name) && op.Kind != fault.Write && filepath.Ext(base) == "" && base != "checkpoints" {
		base = "run"
	}
	return string(op.Kind) + " " + tornName.ReplaceAllString(base, ".tmp")
}

// disturbed trains with plugins, with a fault or none.
func (e *trained) disturbed(dir string, d *devices, restarts int, s *saboteur) (outcome, error) {
	defer fault.Intercept(s.intercept)()
	j := e.job(dir, d)
	j.Restarts = restarts
	o, err := e.run(j)
	if s.struck != "" && errors.Is(s.down, errKilled) {
		err = errors.Join(err, errKilled) // whatever it says: nobody is there to say it
	}
	return o, errors.Join(err, d.close())
}

// survive trains with faults one after the other, then without, and says what is wrong with the outcome.
func (e *trained) survive(dir string, faults ...*saboteur) (struck []string, wrong error) {
	for _, f := range faults {
		o, err := e.disturbed(dir, newDevices(), 0, f)
		if f.struck != "" {
			struck = append(struck, f.way+" "+f.struck)
		}
		if err == nil {
			if d := e.whole.differs(o); d != "" {
				return struck, fmt.Errorf("it went on in spite of the fault, and differs in %s", d)
			}
		} else if f.struck == "" {
			return struck, fmt.Errorf("without a fault: %w", err)
		}
	}
	return struck, e.recovers(dir)
}

// recovers resumes a run without faults and says what is wrong with the outcome.
func (e *trained) recovers(dir string) error {
	o, err := e.disturbed(dir, newDevices(), 0, new(saboteur))
	if err != nil {
		return fmt.Errorf("resumed: %w", err)
	}
	if d := e.whole.differs(o); d != "" {
		return fmt.Errorf("resumed it differs in %s", d)
	}
	return nil
}

// TestOperations: whichever operation fails, in whichever way, the run that is resumed ends with the same bits. So it does
// after several in a row, also such that fail while it is resumed.
func TestOperations(t *testing.T) {
	e := whole(t)
	s := newSuite(t, "operations", 0.35)
	count := new(saboteur)
	if _, err := e.disturbed(filepath.Join(scratch, "count"), newDevices(), 0, count); err != nil {
		t.Fatal(err)
	}
	if count.n < 100 {
		t.Fatalf("a run has %d operations, want at least 100: are they intercepted?", count.n)
	}
	one := func(faults ...*saboteur) {
		dir := filepath.Join(scratch, "operations")
		what := fmt.Sprintf("trial %d", s.trials)
		for _, f := range faults {
			what += fmt.Sprintf(", %d %s", f.at, f.way)
		}
		struck, wrong := e.survive(dir, faults...)
		s.trial(what, wrong, struck...)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	const short = 12
	stride := 1
	if *long == 0 {
		stride = len(ways)*count.n/short + 1
	}
	for i := 0; *seed == 1 && i < len(ways)*count.n && s.more(short); i += stride {
		one(&saboteur{at: 1 + i/len(ways), way: ways[i%len(ways)]})
	}
	draw := rand.New(rand.NewPCG(uint64(*seed), 1))
	for s.more(short) {
		faults := make([]*saboteur, 2+draw.IntN(9))
		for i := range faults { // most in what a run does first when it is resumed, and in its next steps
			faults[i] = &saboteur{at: 1 + draw.IntN(count.n)>>draw.IntN(3), way: ways[draw.IntN(len(ways))]}
		}
		one(faults...)
	}
	t.Logf("%d operations, %d trials, %d faults, %d lost; points: %v", count.n, s.trials, s.faults, s.lost, s.points)
}
