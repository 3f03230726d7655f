package dispatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"harness.invalid/core/bounded"
	"harness.invalid/core/durable"
	"harness.invalid/core/spelling"
	"harness.invalid/harness/executor"
	"harness.invalid/harness/experiment"
	"harness.invalid/results"
)

// find learns which runs are complete, and which have a task that an earlier process submitted.
func (w *watch) find(ctx context.Context) error {
	w.runs, w.arrays = make([]watched, len(w.plan)), map[string]executor.Array{}
	places := map[string]int{}
	for i, p := range w.plan {
		places[p.Name] = i
		if w.session.Resume {
			w.runs[i].done = results.HasEnded(w.dir(i))
			continue
		}
		if _, err := os.Stat(w.dir(i)); err == nil {
			return &experiment.RunError{Run: p.Name, Dir: w.session.Dir, Err: fmt.Errorf("the folder holds a run already: %w", fs.ErrExist)}
		}
	}
	if !w.session.Resume || !w.executor.Traits().Survives {
		return nil
	}
	names, err := filepath.Glob(filepath.Join(w.folder, "*"+listSuffix))
	if err != nil {
		return err
	}
	slices.Sort(names) // by time
	for _, path := range names {
		if err := w.adopt(ctx, path, places); err != nil {
			return err
		}
	}
	return w.forgetEnded(ctx)
}

// adopt takes over the tasks of a list that was submitted. Where the process ended between submitting and noting the id,
// the scheduler knows the array by its name.
func (w *watch) adopt(ctx context.Context, path string, places map[string]int) error {
	var l list
	if err := readJSON(path, &l); err != nil {
		return err
	}
	name := strings.TrimSuffix(filepath.Base(path), listSuffix)
	idPath := filepath.Join(w.folder, name+idSuffix)
	text, err := bounded.ReadFile(idPath, bounded.KiB)
	id := strings.TrimSpace(string(text))
	if errors.Is(err, fs.ErrNotExist) {
		arrays, err := w.executor.List(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(arrays, func(x executor.Listed) bool { return x.Name == name })
		if i < 0 {
			return nil // it was never submitted, or has ended
		}
		if id = arrays[i].ID; id != "" {
			err = writeText(idPath, id)
		}
		if err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	at, err := filepath.Abs(w.folder)
	if err != nil {
		return err
	}
	w.arrays[id] = executor.Array{Name: name, Folder: at}
	for t, r := range l.Runs {
		if l.Experiment.Settings.OneAllocation {
			t = 0
		}
		if i, ok := places[r.Name]; ok {
			w.runs[i].task = executor.Task{Array: id, Task: t}
		}
	}
	return nil
}

// forgetEnded asks once which of the tasks that were taken over still wait or run. Runs of the others are submitted anew:
// whoever resumes wants those that failed or were cancelled to go on.
func (w *watch) forgetEnded(ctx context.Context) error {
	var ids []string
	for _, i := range w.open() {
		if id := w.runs[i].task.Array; id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	queue, err := w.executor.Describe(ctx, ids)
	if err != nil {
		return err // to submit now might train runs twice
	}
	for _, i := range w.open() {
		r := &w.runs[i]
		if s := queue.Of(r.task).State; s != executor.Waiting && s != executor.Running {
			r.task = executor.Task{}
		}
	}
	return nil
}

// submit hands runs to the executor. The list is on disk before, and the array's id after it.
func (w *watch) submit(ctx context.Context, places []int) error {
	if len(places) == 0 {
		return nil
	}
	s, err := save(&w.session.Experiment, w.Settings)
	if err != nil {
		return err
	}
	files, err := w.session.Made()
	if err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(w.folder, experimentFile), s); err != nil {
		return err
	}
	at, err := filepath.Abs(w.folder)
	if err != nil {
		return err
	}
	w.session.Keep()
	plan := make([]experiment.Planned, len(places))
	for k, i := range places {
		plan[k] = w.plan[i]
	}
	for n, g := range w.groups(plan) {
		l := list{Experiment: s, Files: files}
		for _, k := range g.runs {
			identity, err := w.session.Identity(plan[k])
			if err != nil {
				return err
			}
			l.Runs = append(l.Runs, listed{plan[k], identity})
		}
		if g.memory, err = w.session.LeastMemory(plan[g.runs[0]]); err != nil {
			return err
		}
		name := fmt.Sprintf("harness-%s-%04x-%d", w.now().UTC().Format("20060102-150405"), rand.Uint32N(1<<16), n)
		if err := writeJSON(filepath.Join(w.folder, name+listSuffix), l); err != nil {
			return err
		}
		a := w.array(at, s.Work, name, g)
		id, err := w.executor.Submit(ctx, a)
		if err != nil {
			// Nothing was submitted, so nobody is to look for it.
			return errors.Join(err, durable.Remove(filepath.Join(w.folder, name+listSuffix)))
		}
		if err := writeText(filepath.Join(w.folder, name+idSuffix), id); err != nil {
			return err
		}
		w.submitted(a, id, places, g)
	}
	return nil
}

// submitted notes the tasks of an array.
func (w *watch) submitted(a executor.Array, id string, places []int, g group) {
	w.arrays[id] = a
	for t, k := range g.runs {
		if a.Together {
			t = 0
		}
		r := &w.runs[places[k]]
		r.task, r.gone, r.restarts = executor.Task{Array: id, Task: t}, time.Time{}, 0
		if stop := w.stop(places[k]); stop != nil {
			r.stopped = stop.Time
		}
	}
	if w.executor.Traits().Survives {
		w.note("submitted as %s %s: %s", w.On, id, spelling.Count(len(g.runs), "run"))
	}
}

func writeText(path, text string) error {
	return durable.WriteFile(path, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, text)
		return err
	})
}
