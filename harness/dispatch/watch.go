package dispatch

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"harness.invalid/core/spelling"
	"harness.invalid/core/visible"
	"harness.invalid/harness/executor"
	"harness.invalid/harness/experiment"
	"harness.invalid/results"
)

// watch follows the runs of a plan until all are complete or have failed for good.
type watch struct {
	*Dispatcher
	session *experiment.Session
	plan    []experiment.Planned
	folder  string
	runs    []watched // of the plan
	arrays  map[string]executor.Array
	silent  bool // the scheduler does not answer
	shown   string
	shownAt time.Time
	now     func() time.Time
}

// watched is what is known of a run.
type watched struct {
	done      bool
	failed    string // why it failed for good; "": it did not
	cancelled bool
	entered   bool          // into the index, when it was first seen to train
	task      executor.Task // Array "": there is none
	restarts  int
	gone      time.Time // since when its task has ended and left no result; zero: it has not
	tries     int       // so often it was submitted again
	stopped   time.Time // of the stop that was there before it was submitted
}

const (
	defaultGrace = time.Minute
	// mostTries is how often a run is submitted again whose task ended without a word.
	mostTries = 3
	// mostNamed is how many runs a line or an error names.
	mostNamed = 4
	// mostLogShown is how much of a log an error shows.
	mostLogShown = 2000
	// quiet is how long nothing is said while the numbers stay as they are.
	quiet = 5 * time.Minute
)

// note tells a line for people.
func (w *watch) note(format string, args ...any) { note(w.session.Observe, format, args...) }

func note(to experiment.Observer, format string, args ...any) {
	if to != nil {
		to(experiment.Note{Text: fmt.Sprintf(format, args...)})
	}
}

func (w *watch) dir(i int) string { return filepath.Join(w.session.Dir, w.plan[i].Name) }

// over reports whether nothing more is to be expected of a run.
func (r *watched) over() bool { return r.done || r.cancelled || r.failed != "" }

// open lists the runs that are not over.
func (w *watch) open() (places []int) {
	for i := range w.runs {
		if !w.runs[i].over() {
			places = append(places, i)
		}
	}
	return places
}

// loose lists those of them that have no task.
func (w *watch) loose() []int {
	return slices.DeleteFunc(w.open(), func(i int) bool { return w.runs[i].task.Array != "" })
}

// watch looks at the runs until none is open.
func (w *watch) watch(ctx context.Context) error {
	interval := w.Poll
	if interval == 0 {
		interval = w.executor.Traits().Interval
	}
	for len(w.open()) > 0 {
		if err := w.look(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		if len(w.open()) == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return w.leave(ctx)
		case <-time.After(interval):
		}
	}
	return w.verdict()
}

// look asks the scheduler once, looks into the folders of the runs that do not wait, and submits those again that were
// lost.
func (w *watch) look(ctx context.Context) error {
	open := w.open()
	var ids []string
	for _, i := range open {
		if id := w.runs[i].task.Array; !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	queue, err := w.executor.Describe(ctx, ids)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		if !w.silent {
			w.note("the scheduler does not answer; the runs go on, and so do the questions: %v", err)
		}
		w.silent = true
	} else if w.silent {
		w.silent = false
		w.note("the scheduler answers again")
	}
	var again, running []int
	waiting := 0
	for _, i := range open {
		r := &w.runs[i]
		status := executor.Status{State: executor.Running} // as far as one can tell
		if err == nil {
			status = queue.Of(r.task)
		}
		if status.State == executor.Waiting {
			waiting++
			r.gone = time.Time{}
			w.noteRestart(i, status)
			continue
		}
		if results.HasEnded(w.dir(i)) {
			r.done = true
			w.enter(ctx, i)
			continue
		}
		if status.State == executor.Running {
			running = append(running, i)
			r.gone = time.Time{}
			w.noteRestart(i, status)
			w.begun(ctx, i)
			continue
		}
		lost, e := w.decide(i, status)
		if e != nil {
			return e
		}
		if lost {
			again = append(again, i)
		} else if r.over() {
			w.enter(ctx, i)
		}
	}
	w.progress(running, waiting, queue)
	return w.submit(ctx, again)
}

// decide says what becomes of a run without a result whose task has ended: after some time in which the file system may
// still show one, it is to be submitted again, unless its record says that it failed, or somebody cancelled it.
func (w *watch) decide(i int, status executor.Status) (again bool, err error) {
	r := &w.runs[i]
	if r.gone.IsZero() {
		r.gone = w.now()
	}
	if stop := w.stop(i); stop != nil && stop.Status == results.Failed && !stop.Time.Equal(r.stopped) {
		r.failed = stop.Reason
		return false, nil
	}
	grace := w.Grace
	if grace == 0 {
		grace = defaultGrace
	}
	if w.executor.Traits().Survives && w.now().Sub(r.gone) < grace {
		return false, nil
	}
	if status.State == executor.Cancelled {
		r.cancelled = true
		return false, nil
	}
	word := strings.ToLower(status.Word)
	if word == "" {
		word = "no longer known to the scheduler"
	}
	if r.tries == mostTries {
		r.failed = fmt.Sprintf("its task ended %d times without a result, the last time it was %s", r.tries+1, word)
		return false, nil
	}
	w.note("%s: its task is %s and left no result: it is submitted again", w.plan[i].Name, word)
	r.tries++
	return true, nil
}

// stop is why the record of a run says that it stands; nil: it does not.
func (w *watch) stop(i int) *results.Stop {
	r, err := results.Open(w.dir(i))
	if err != nil {
		return nil
	}
	return r.Stop
}

func (w *watch) noteRestart(i int, s executor.Status) {
	if r := &w.runs[i]; s.Restarts > r.restarts {
		r.restarts = s.Restarts
		w.note("%s: the scheduler starts it again (%s): it goes on from its last checkpoint",
			w.plan[i].Name, strings.ToLower(strings.TrimSpace(s.Word+" "+s.Reason)))
	}
}

// enter adds a run to the index, unless its task did.
func (w *watch) enter(ctx context.Context, i int) {
	if s := (&saved{Index: w.session.Index}); s.Index != "" && s.index() == "" {
		w.session.Enter(ctx, w.dir(i))
	}
}

// begun adds a run to the index when it has its first step, so that whoever looks at the index sees it train.
func (w *watch) begun(ctx context.Context, i int) {
	r := &w.runs[i]
	if r.entered || w.session.Index == "" {
		return
	}
	if step, err := results.LastStep(w.dir(i)); err == nil && step != nil {
		r.entered = true
		w.enter(ctx, i)
	}
}

// progress says how far the runs are, when that has changed.
func (w *watch) progress(running []int, waiting int, queue *executor.Queue) {
	done := 0
	for i := range w.runs {
		if w.runs[i].done {
			done++
		}
	}
	counts := fmt.Sprintf("%d of %s complete, %d running, %d waiting", done, spelling.Count(len(w.runs), "run"), len(running), waiting)
	if counts == w.shown && w.now().Sub(w.shownAt) < quiet {
		return
	}
	w.shown, w.shownAt = counts, w.now()
	var steps []string
	for _, i := range running {
		if len(steps) == mostNamed {
			steps = append(steps, "...")
			break
		}
		if s, err := results.LastStep(w.dir(i)); err == nil && s != nil {
			at := fmt.Sprintf("%s: %s step %d", w.plan[i].Name, s.Phase, s.Step)
			if queue != nil && queue.Of(w.runs[i].task).Node != "" {
				at += " on " + queue.Of(w.runs[i].task).Node
			}
			steps = append(steps, at)
		}
	}
	if len(steps) > 0 {
		counts += "; " + strings.Join(steps, ", ")
	}
	w.note("%s", counts)
}

// leave ends the watch early. Tasks that survive it go on, others save a checkpoint.
func (w *watch) leave(ctx context.Context) error {
	cause := context.Cause(ctx)
	if w.executor.Traits().Survives {
		return &DetachedError{Dir: w.session.Dir, Runs: len(w.open()), Err: cause}
	}
	var ids []string
	for _, i := range w.open() {
		ids = append(ids, w.runs[i].task.Array)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	rest := context.WithoutCancel(ctx)
	if err := w.executor.Cancel(rest, ids); err != nil {
		return err
	}
	for {
		queue, err := w.executor.Describe(rest, ids)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(w.open(), func(i int) bool { return queue.Of(w.runs[i].task).State == executor.Running }) {
			return &experiment.RunError{Run: w.plan[w.open()[0]].Name, Dir: w.session.Dir, Stopped: true, Err: cause}
		}
		time.Sleep(w.executor.Traits().Interval)
	}
}

// verdict is the error that names what failed for good, with the end of its log, and what was cancelled.
func (w *watch) verdict() error {
	var failed, cancelled []string
	var first *experiment.RunError
	for i := range w.runs {
		r, name := &w.runs[i], w.plan[i].Name
		switch {
		case r.failed != "":
			failed = append(failed, name)
			text := r.failed
			if log := w.executor.Logs(w.arrays[r.task.Array], r.task.Task, mostLogShown); log != "" && first == nil {
				text += fmt.Sprintf("\nthe end of %s:\n%s", w.arrays[r.task.Array].Log(r.task.Task), visible.Text(log))
			}
			if first == nil {
				first = &experiment.RunError{Run: name, Dir: w.session.Dir, Err: errors.New(text)}
			}
		case r.cancelled:
			cancelled = append(cancelled, name)
		}
	}
	if n := len(failed); n > 1 {
		first.Err = fmt.Errorf("it is the first of %d runs that failed (%s): %w", n, some(failed), first.Err)
	}
	if n := len(cancelled); n > 0 && first == nil {
		return &experiment.RunError{Run: cancelled[0], Dir: w.session.Dir, Stopped: true,
			Err: fmt.Errorf("somebody cancelled %d runs (%s)", n, some(cancelled))}
	}
	if first != nil {
		return first
	}
	return nil
}

// some names the first few.
func some(names []string) string {
	if len(names) > mostNamed {
		return strings.Join(names[:mostNamed], ", ") + ", ..."
	}
	return strings.Join(names, ", ")
}
