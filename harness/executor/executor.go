// Package executor starts tasks on this machine or on others. What goes in is an array: a command line and how many
// tasks it has. What comes out is a state for each task, and the end of what it printed. The package knows nothing of
// training: a task is a process that is told its number, and whatever it leaves lies on a file system that all machines
// share.
//
// There is no scheduler here besides the local one. An executor writes what its scheduler asks for, starts the
// scheduler's own commands, and reads their answers. A new one is a file: a type, and an init that calls Register.
//
// The interface follows torchx's schedulers (submit is plan and schedule, so that what is planned can be printed), the
// shared query follows submitit's watcher (one question for all tasks).
package executor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"harness.invalid/core/spelling"
)

// Executor starts arrays of tasks.
type Executor interface {
	// DryRun returns what Submit would hand to the scheduler, for people to read. It starts and writes nothing.
	DryRun(a Array) (string, error)
	// Submit starts an array and returns its id. The array's folder exists.
	Submit(ctx context.Context, a Array) (id string, err error)
	// Describe asks the scheduler once, however many arrays and tasks there are. An error says nothing about the tasks.
	Describe(ctx context.Context, ids []string) (*Queue, error)
	// List returns the arrays of this user that wait or run, so that one can be found whose id was lost.
	List(ctx context.Context) ([]Listed, error)
	// Cancel ends arrays. It may be called again, and does not wait until they have ended.
	Cancel(ctx context.Context, ids []string) error
	// Logs returns the end of what a task printed, at most so many bytes; "": it printed nothing, or that is not to be had.
	Logs(a Array, task, most int) string
	// Traits are what a caller has to know of the scheduler.
	Traits() Traits
}

// Traits are what a caller has to know of a scheduler.
type Traits struct {
	Survives  bool          // tasks go on when this process ends
	MostTasks int           // of one array; 0: any number
	Interval  time.Duration // between two questions
}

// Array is a number of tasks that one command line starts.
type Array struct {
	Name     string    // unique, and fit to be part of a file's name
	Folder   string    // absolute: of what the scheduler is given and of the logs; all machines see it
	Work     string    // absolute: the working folder of the tasks
	Command  []string  // of a task; its number is appended
	Tasks    int       // they are numbered from 0
	AtOnce   int       // how many may run at once; 0: as many as there is room for
	Memory   int64     // bytes that a task needs at least; 0: not known
	Together bool      // the only task is a share of the work for each node of one allocation: see Slurm
	Settings []Setting // of the scheduler
}

// Setting is an option of the scheduler, such as partition.
type Setting struct{ Name, Value string }

// Log is the file in the array's folder that gets what a task prints.
func (a Array) Log(task int) string {
	return filepath.Join(a.Folder, fmt.Sprintf("%s-%d.log", a.Name, task))
}

// Task names a task.
type Task struct {
	Array string // its id
	Task  int
}

// State is what a scheduler says of a task. Whether its work is done, the work's own folder says.
type State int

// The states.
const (
	Unknown   State = iota // the scheduler does not know the task: it was forgotten after its end, or was never there
	Waiting                // for a machine, perhaps again
	Running                // or about to, or about to end
	Ended                  // by itself, whatever its exit code
	Lost                   // its machine died, or its time or memory ran out, or it was preempted, and it is not started again
	Cancelled              // by a person
)

func (s State) String() string {
	return [...]string{"unknown", "waiting", "running", "ended", "lost", "cancelled"}[s]
}

// Status is a task's state, with the scheduler's own word for it and for its reason.
type Status struct {
	State    State
	Word     string // such as TIMEOUT
	Reason   string // such as Resources; "": none
	Node     string // where it runs or ran; "": not yet
	Restarts int    // so often the scheduler started it again
}

// Queue is what a scheduler answered.
type Queue struct {
	tasks map[Task]Status
	rest  map[string]Status // of the tasks of an array that are not named one by one
}

// NewQueue returns an empty answer.
func NewQueue() *Queue { return &Queue{map[Task]Status{}, map[string]Status{}} }

// Add tells the status of a task.
func (q *Queue) Add(t Task, s Status) { q.tasks[t] = s }

// AddRest tells the status of all tasks of an array that Add was not called for.
func (q *Queue) AddRest(array string, s Status) { q.rest[array] = s }

// Of is the status of a task.
func (q *Queue) Of(t Task) Status {
	if s, ok := q.tasks[t]; ok {
		return s
	}
	return q.rest[t.Array]
}

// Listed is an array in a scheduler's queue.
type Listed struct{ ID, Name string }

// ErrNotHere is wrapped by the error of an executor whose scheduler is not installed.
var ErrNotHere = errors.New("not installed here")

// Options are what an executor is made with.
type Options struct {
	Jobs int // tasks at once on this machine; 0: one
}

var registered = map[string]func(Options) (Executor, error){}

// Register adds an executor under a name. Files call it in their init.
func Register(name string, make func(Options) (Executor, error)) { registered[name] = make }

// Names are those of the executors, sorted.
func Names() []string { return slices.Sorted(maps.Keys(registered)) }

// New returns the executor of a name.
func New(name string, o Options) (Executor, error) {
	make, ok := registered[name]
	if !ok {
		return nil, fmt.Errorf("no executor is named %q%s (known: %s)", name, spelling.Hint(name, Names()), strings.Join(Names(), ", "))
	}
	return make(o)
}
