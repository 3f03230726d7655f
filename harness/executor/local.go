package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"harness.invalid/core/bounded"
	"harness.invalid/core/durable"
)

// local runs tasks beside each other on this machine, as processes that end with this one. Each has cores of its own,
// those that this process may use divided by the number of jobs, and GPUs of its own where there are enough.
type local struct {
	places []place
	free   chan place // those of places that no task has
	memory int64      // that was available at the start; 0: not known

	mu     sync.Mutex
	arrays map[string]*localArray
}

// place is the part of the machine that a task gets.
type place struct {
	cores []int
	gpus  []string // what CUDA_VISIBLE_DEVICES names
}

// localArray is an array that was submitted.
type localArray struct {
	states  []State
	tasks   []*exec.Cmd // that run
	stopped bool
}

func init() { Register("local", newLocal) }

func newLocal(o Options) (Executor, error) {
	jobs := max(1, o.Jobs)
	cores := allowedCores()
	if jobs > len(cores) {
		return nil, fmt.Errorf("%d jobs on %d cores: want at most one a core", jobs, len(cores))
	}
	l := &local{places: divide(jobs, cores, visibleGPUs()), free: make(chan place, jobs), memory: availableMemory(),
		arrays: map[string]*localArray{}}
	for _, p := range l.places {
		l.free <- p
	}
	return l, nil
}

// divide splits a machine. The first places get the cores that are left over. With fewer GPUs than jobs, several jobs
// share one.
func divide(jobs int, cores []int, gpus []string) []place {
	places := make([]place, jobs)
	for i := range places {
		places[i].cores = cores[i*len(cores)/jobs : (i+1)*len(cores)/jobs]
		switch {
		case len(gpus) >= jobs:
			places[i].gpus = gpus[i*len(gpus)/jobs : (i+1)*len(gpus)/jobs]
		case len(gpus) > 0:
			places[i].gpus = gpus[i%len(gpus):][:1]
		}
	}
	return places
}

// coresByNumber are as many as there are.
func coresByNumber() []int {
	cores := make([]int, runtime.NumCPU())
	for i := range cores {
		cores[i] = i
	}
	return cores
}

// gpuVariable names the GPUs that a process of CUDA sees.
const gpuVariable = "CUDA_VISIBLE_DEVICES"

// visibleGPUs are the GPUs that this process may use: those of the environment, or all that the driver lists.
func visibleGPUs() []string {
	text, limited := os.LookupEnv(gpuVariable)
	if !limited {
		out, err := exec.Command("nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader").Output()
		if err != nil {
			return nil // there is no driver
		}
		text = strings.ReplaceAll(string(out), "\n", ",")
	}
	return strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ' ' })
}

// Traits implements Executor.
func (l *local) Traits() Traits { return Traits{Interval: 200 * time.Millisecond} }

// DryRun implements Executor.
func (l *local) DryRun(a Array) (string, error) {
	var out strings.Builder
	at := len(l.places)
	if a.AtOnce > 0 {
		at = min(at, a.AtOnce)
	}
	fmt.Fprintf(&out, "# %d tasks on this machine, %d at once\n", a.Tasks, at)
	for i, p := range l.places[:at] {
		fmt.Fprintf(&out, "# place %d: cores %s", i, strings.Trim(fmt.Sprint(p.cores), "[]"))
		if len(p.gpus) > 0 {
			fmt.Fprintf(&out, ", GPUs %s", strings.Join(p.gpus, ","))
		}
		fmt.Fprintln(&out)
	}
	fmt.Fprintf(&out, "%s TASK\n", quoteAll(a.Command))
	return out.String(), nil
}

// Submit implements Executor.
func (l *local) Submit(_ context.Context, a Array) (string, error) {
	if len(a.Settings) > 0 {
		return "", fmt.Errorf("setting %s: this machine has no scheduler that takes settings", a.Settings[0].Name)
	}
	if l.memory > 0 && a.Memory > l.memory {
		return "", fmt.Errorf("a run needs at least %d MiB of memory, and this machine has %d MiB available: "+
			"make the micro-batch or the model smaller, or train on another machine", a.Memory>>20, l.memory>>20)
	}
	at := len(l.places)
	if a.Memory > 0 && l.memory > 0 {
		at = min(at, int(l.memory/a.Memory))
	}
	if a.AtOnce > 0 {
		at = min(at, a.AtOnce)
	}
	x := &localArray{states: make([]State, a.Tasks), tasks: make([]*exec.Cmd, a.Tasks)}
	for i := range x.states {
		x.states[i] = Waiting
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	id := strconv.Itoa(len(l.arrays) + 1)
	l.arrays[id] = x
	next := make(chan int, a.Tasks)
	for i := range a.Tasks {
		next <- i
	}
	close(next)
	for range at {
		go func() {
			for i := range next {
				p := <-l.free // of all arrays
				if !l.cancelled(x, i) {
					l.task(a, x, i, p)
				}
				l.free <- p
			}
		}()
	}
	return id, nil
}

// cancelled reports whether an array was cancelled before a task of it began. Nothing is written for such a task.
func (l *local) cancelled(x *localArray, task int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x.stopped {
		x.states[task] = Cancelled
	}
	return x.stopped
}

// task runs a task to its end, on a thread that is used for nothing else: its cores and the signal that follows its end
// are handed to the process that it starts.
func (l *local) task(a Array, x *localArray, i int, p place) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends here
		if err := l.start(a, x, i, p); err != nil {
			l.say(a, i, err)
		}
	}()
	<-done
}

// start starts a task and waits for it.
func (l *local) start(a Array, x *localArray, i int, p place) error {
	log, err := durable.Append(a.Log(i))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(a.Command[0], append(a.Command[1:len(a.Command):len(a.Command)], strconv.Itoa(i))...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = a.Work, log, log, endsWithParent()
	cmd.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(len(p.cores)))
	if len(p.gpus) > 0 {
		cmd.Env = append(cmd.Env, gpuVariable+"="+strings.Join(p.gpus, ","))
	}
	l.mu.Lock()
	if x.stopped {
		x.states[i] = Cancelled
		l.mu.Unlock()
		return nil
	}
	err = useCores(p.cores)
	if err == nil {
		err = cmd.Start()
	}
	x.states[i] = Running
	if err != nil {
		x.states[i] = Ended
	} else {
		x.tasks[i] = cmd
	}
	l.mu.Unlock()
	if err != nil {
		return err
	}
	err = cmd.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	x.states[i], x.tasks[i] = Ended, nil
	if x.stopped {
		x.states[i] = Cancelled
	} else if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() < 0 {
		x.states[i] = Lost // a signal that it did not ask for
	}
	return nil
}

// say leaves an error in a task's log.
func (l *local) say(a Array, i int, err error) {
	if log, e := durable.Append(a.Log(i)); e == nil {
		fmt.Fprintf(log, "the task was not started: %v\n", err)
		_ = log.Close()
	}
}

// Describe implements Executor.
func (l *local) Describe(_ context.Context, ids []string) (*Queue, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := NewQueue()
	for _, id := range ids {
		x := l.arrays[id]
		if x == nil {
			continue // of an earlier process
		}
		for i, s := range x.states {
			q.Add(Task{id, i}, Status{State: s, Word: s.String()})
		}
	}
	return q, nil
}

// List implements Executor: nothing outlives the process that knows its id.
func (l *local) List(context.Context) ([]Listed, error) { return nil, nil }

// Cancel implements Executor. A task may take its time: training saves a checkpoint.
func (l *local) Cancel(_ context.Context, ids []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, id := range ids {
		x := l.arrays[id]
		if x == nil {
			continue
		}
		x.stopped = true
		for i, cmd := range x.tasks {
			if cmd != nil {
				if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
					errs = append(errs, err)
				}
			} else if x.states[i] == Waiting {
				x.states[i] = Cancelled
			}
		}
	}
	return errors.Join(errs...)
}

// Logs implements Executor.
func (l *local) Logs(a Array, task, most int) string { return endOf(a.Log(task), most) }

// mostLog is the size of a log of which the end is read.
const mostLog = bounded.GiB

// endOf is the end of a file, from the beginning of a line; "" if there is none.
func endOf(path string, most int) string {
	f, err := bounded.OpenIn(filepath.Dir(path), filepath.Base(path), mostLog)
	if err != nil {
		return ""
	}
	defer f.Close()
	size, err := f.Seek(0, 2)
	if err != nil {
		return ""
	}
	text := make([]byte, min(size, int64(most)))
	n, _ := f.ReadAt(text, size-int64(len(text)))
	text = text[:n]
	if size > int64(len(text)) {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return strings.TrimRight(string(text), "\n")
}
