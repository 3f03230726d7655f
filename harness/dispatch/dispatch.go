// Package dispatch trains the runs of an experiment as tasks of an executor: beside each other on this machine, or on the
// machines of a cluster. It is an experiment.Executor. A task is one run (task.go); what it needs to know is in a list,
// which lies in the experiment's folder before anything is submitted (list.go).
//
// The folder of a run says whether it is complete, and the scheduler is asked only about the others, once for all of
// them (watch.go). So the process that submitted may end, and another one takes its place.
package dispatch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"harness.invalid/core/durable"
	"harness.invalid/core/recipe"
	"harness.invalid/core/spelling"
	"harness.invalid/harness/executor"
	"harness.invalid/harness/experiment"
	"harness.invalid/harness/hint"
	"harness.invalid/results"
)

// Settings say where and how runs are trained. They are kept with an experiment, so that it goes on in the same way.
type Settings struct {
	On       string    `json:"on"`             // the executor's name
	Jobs     int       `json:"jobs,omitempty"` // runs at once; 0: as many as the executor has room for
	Settings Scheduler `json:"settings"`
	// OneAllocation trains all runs in one allocation, one after the other, or a share of the seeds on each of its nodes:
	// the arms of a seed on the same node.
	OneAllocation bool     `json:"one_allocation,omitempty"`
	OtherCPU      OtherCPU `json:"other_cpu"`
}

// OtherCPU is what becomes of a run that was begun on a processor whose bits this one cannot reproduce.
type OtherCPU string

// The values of OtherCPU.
const (
	Wait    OtherCPU = "wait"    // the task goes back into the queue, until it is on a processor of that kind
	Restart OtherCPU = "restart" // the run starts again from its beginning
)

// Dispatcher is an experiment.Executor.
type Dispatcher struct {
	Settings
	Task   []string      // command line of a task: the list and the task's number are appended
	Detach bool          // submit, and leave the runs to themselves: Execute returns a DetachedError
	Poll   time.Duration // between two questions to the scheduler; 0: the executor's
	Arms   int           // of the experiment
	// Grace is how long a shared file system may take to show what a task wrote on another machine; 0: a minute.
	Grace    time.Duration
	executor executor.Executor
}

// DetachedError says that the runs go on without this process.
type DetachedError struct {
	Dir  string
	Runs int // that are not complete
	Err  error
}

func (e *DetachedError) Error() string {
	text := "without this process: " + spelling.Count(e.Runs, "run") + " waiting or running"
	if e.Err != nil {
		text = e.Err.Error() + "; " + text
	}
	return text
}

// Unwrap returns why the process left them, nil if it was to.
func (e *DetachedError) Unwrap() error { return e.Err }

// New returns a dispatcher, or an error if its executor is not to be had here.
func New(s Settings) (*Dispatcher, error) {
	ex, err := executor.New(s.On, executor.Options{Jobs: s.Jobs})
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return &Dispatcher{Settings: s, Task: []string{self, "runs", "execute"}, executor: ex, Arms: 1}, nil
}

// Survives reports whether runs go on when this process ends.
func (d *Dispatcher) Survives() bool { return d.executor.Traits().Survives }

var _ experiment.Executor = (*Dispatcher)(nil)

// Wave implements experiment.Executor: on a cluster as many seeds as a sequential plan takes to its first look, here as
// many as run at once.
func (d *Dispatcher) Wave() int {
	if d.executor.Traits().Survives {
		return recipe.LeastSequential
	}
	return max(1, d.Jobs/max(1, d.Arms))
}

// Execute implements experiment.Executor. Runs that fail for good do not stop the others; the error names them when all
// others are complete.
func (d *Dispatcher) Execute(ctx context.Context, s *experiment.Session, plan []experiment.Planned) (_ []*results.Run, err error) {
	w := &watch{Dispatcher: d, session: s, plan: plan, folder: filepath.Join(s.Dir, folder), now: time.Now}
	if err := durable.MkdirAll(w.folder); err != nil {
		return nil, err
	}
	unlock, err := durable.Lock(filepath.Join(w.folder, "lock"))
	if errors.Is(err, durable.ErrLocked) {
		return nil, hint.With(fmt.Errorf("%s: another process looks after these runs: %w", s.Dir, err), "harness runs list shows them; "+
			"end that process to take its place here")
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := w.find(ctx); err != nil {
		return nil, err
	}
	if err := w.submit(ctx, w.loose()); err != nil {
		return nil, err
	}
	if d.Detach && len(w.open()) > 0 {
		return nil, &DetachedError{Dir: s.Dir, Runs: len(w.open())}
	}
	if err := w.watch(ctx); err != nil {
		return nil, err
	}
	return s.Open(plan)
}

// DryRun returns what would be submitted first, for people to read.
func (d *Dispatcher) DryRun(s *experiment.Session, plan []experiment.Planned) (string, error) {
	dir := s.Dir
	if dir == "" {
		dir = filepath.Join("runs", s.Recipe.Name+"-TIME")
	}
	work, err := os.Getwd()
	if err != nil {
		return "", err
	}
	at, err := filepath.Abs(filepath.Join(dir, folder))
	if err != nil {
		return "", err
	}
	text := ""
	for i, g := range d.groups(plan) {
		script, err := d.executor.DryRun(d.array(at, work, fmt.Sprintf("harness-%d", i), g))
		if err != nil {
			return "", err
		}
		text += script
	}
	return text, nil
}

// group are planned runs, by their places in the plan, that one array trains.
type group struct {
	runs     []int
	settings []executor.Setting
	memory   int64
}

// groups divides runs among arrays: one for each set of settings, and of no more tasks than the scheduler takes.
func (d *Dispatcher) groups(plan []experiment.Planned) []group {
	var list []group
	open := map[string]int{} // by settings, the group that is not full
	most := d.executor.Traits().MostTasks
	for i, p := range plan {
		settings := d.Settings.Settings.of(p.Spec())
		key := fmt.Sprint(settings)
		g, ok := open[key]
		if !ok || !d.OneAllocation && most > 0 && len(list[g].runs) == most {
			g = len(list)
			open[key] = g
			list = append(list, group{settings: settings})
		}
		list[g].runs = append(list[g].runs, i)
	}
	return list
}

// array is the array that trains a group.
func (d *Dispatcher) array(at, work, name string, g group) executor.Array {
	a := executor.Array{Name: name, Folder: at, Work: work, Tasks: len(g.runs), AtOnce: d.Jobs, Memory: g.memory, Settings: g.settings,
		Command: append(d.Task[:len(d.Task):len(d.Task)], filepath.Join(at, name+listSuffix))}
	if d.OneAllocation {
		a.Tasks, a.Together, a.AtOnce = 1, true, 0
	}
	return a
}
