package dispatch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"harness.invalid/core/durable"
	"harness.invalid/core/kernels"
	"harness.invalid/harness/experiment"
	"harness.invalid/results"
)

// ErrElsewhere is returned by a task that has to run on another kind of processor, and should go back into the queue.
var ErrElsewhere = errors.New("it was begun on another kind of processor")

// levelVariable limits the instructions that kernels use, see core/kernels.
const levelVariable = "HARNESS_CPU"

// shown is how long a task waits for the files that it needs.
const shown = 2 * time.Minute

// lockedPause lies between two looks whether another process has let go of a run.
const lockedPause = 5 * time.Second

// Execute is a task: it trains the run with a number in a list, or with SHARE/SHARES the part of all runs that one of so
// many processes has, whole seeds one after the other. A run that is complete stays as it is, one that was begun goes on.
// The process may be replaced by one that computes with fewer instructions, where the run was begun with those.
func Execute(ctx context.Context, path, which string, observe experiment.Observer) error {
	l, err := readList(ctx, path, shown)
	if err != nil {
		return err
	}
	places, err := l.part(which)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	e, err := l.Experiment.experiment(path)
	if err != nil {
		return err
	}
	e.Observe, e.Index = observe, l.Experiment.index()
	var errs []error
	for _, i := range places {
		if err := l.train(ctx, e, &l.Runs[i]); err != nil {
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// part are the places of the runs that a task trains.
func (l *list) part(which string) (places []int, err error) {
	share, shares, several := strings.Cut(which, "/")
	n, err := strconv.Atoi(share)
	most := len(l.Runs)
	if err == nil && several {
		most, err = strconv.Atoi(shares)
	}
	if err != nil || n < 0 || n >= most {
		return nil, fmt.Errorf("task %q: want a number below %d, or SHARE/SHARES", which, len(l.Runs))
	}
	if !several {
		return []int{n}, nil
	}
	seeds := map[uint64]int{} // in the order in which they appear
	for i, r := range l.Runs {
		if _, ok := seeds[r.Seed]; !ok {
			seeds[r.Seed] = len(seeds)
		}
		if seeds[r.Seed]%most == n {
			places = append(places, i)
		}
	}
	return places, nil
}

// train trains a run of the list. While another process writes into its folder, such as one on a machine that the
// scheduler has given up, it waits.
func (l *list) train(ctx context.Context, e experiment.Experiment, r *listed) error {
	dir := filepath.Join(e.Dir, r.Name)
	for {
		err := l.sameKind(dir)
		if err == nil {
			_, err = experiment.Join(ctx, e, r.Planned, r.Identity)
		}
		if !errors.Is(err, durable.ErrLocked) {
			return err
		}
		note(e.Observe, "%s: another process writes there: waiting for it", r.Name)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(lockedPause):
		}
	}
}

// sameKind makes sure that a run that was begun goes on with the same bits. Where this processor has the instructions
// that the run was begun with, and uses others, the process starts itself again with those.
func (l *list) sameKind(dir string) error {
	r, err := results.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	segments, err := r.Segments()
	if err != nil {
		return err
	}
	was := segments[len(segments)-1].Environment.Kernels
	if r.Result != nil || was == "" || was == kernels.Path() || l.Experiment.AllowChange {
		return nil
	}
	if parts := strings.Split(was, "/"); len(parts) > 1 && os.Getenv(levelVariable) != parts[1] {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		return syscall.Exec(self, os.Args, append(os.Environ(), levelVariable+"="+parts[1]))
	}
	if l.Experiment.Settings.OtherCPU != Restart {
		return fmt.Errorf("run %s: %w: %s, and this one has %s", dir, ErrElsewhere, was, kernels.Path())
	}
	unlock, err := durable.Lock(filepath.Join(dir, "lock"))
	if err != nil {
		return err
	}
	return errors.Join(results.Remove(dir), unlock())
}
