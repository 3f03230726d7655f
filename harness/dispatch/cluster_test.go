package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"harness.invalid/harness/executor"
)

// cluster is an executor that plays a cluster whose controller answers in no time. Time passes when it is asked.
type cluster struct {
	nodes int
	// train is what a task does on a node, in the order of their ends.
	train func(a executor.Array, task int) error
	// begin is what a task has done when it is seen to run, before its end. nil: no task is seen to run.
	begin func(a executor.Array, task int)
	// fault says what happens to a task's attempt: Running (nothing), or the state that it ends in without having trained.
	fault func(task executor.Task, attempt int) executor.State

	mu       sync.Mutex
	arrays   []executor.Array
	states   map[executor.Task]executor.State
	attempts map[executor.Task]int
	begun    map[executor.Task]bool
	queue    []executor.Task
	calls    map[string]int
	down     int // so many questions are not answered
}

func newCluster(nodes int) *cluster {
	return &cluster{nodes: nodes, states: map[executor.Task]executor.State{}, attempts: map[executor.Task]int{},
		begun: map[executor.Task]bool{}, calls: map[string]int{},
		fault: func(executor.Task, int) executor.State { return executor.Running }}
}

func (c *cluster) Traits() executor.Traits {
	return executor.Traits{Survives: true, MostTasks: 1000, Interval: time.Microsecond}
}

func (c *cluster) DryRun(a executor.Array) (string, error) {
	return fmt.Sprintln(a.Tasks, a.Settings), nil
}

func (c *cluster) Submit(_ context.Context, a executor.Array) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls["submit"]++
	c.arrays = append(c.arrays, a)
	id := fmt.Sprint(len(c.arrays))
	for i := range a.Tasks {
		t := executor.Task{Array: id, Task: i}
		c.states[t] = executor.Waiting
		c.queue = append(c.queue, t)
	}
	return id, nil
}

// Describe lets the tasks that run end, and as many others begin as there are nodes.
func (c *cluster) Describe(_ context.Context, ids []string) (*executor.Queue, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls["describe"]++
	if c.down > 0 {
		c.down--
		return nil, errors.New("connect failure")
	}
	q := executor.NewQueue()
	wanted := map[string]bool{}
	for _, id := range ids {
		wanted[id] = true
	}
	for t, s := range c.states {
		if s == executor.Running && (c.begin == nil || c.begun[t]) {
			s = c.end(t)
		} else if s == executor.Running {
			c.begun[t] = true
			var n int
			_, _ = fmt.Sscan(t.Array, &n)
			c.begin(c.arrays[n-1], t.Task)
		}
		if wanted[t.Array] {
			q.Add(t, executor.Status{State: s, Word: s.String(), Restarts: c.attempts[t]})
		}
	}
	for range min(c.nodes, len(c.queue)) {
		c.states[c.queue[0]] = executor.Running
		c.queue = c.queue[1:]
	}
	return q, nil
}

func (c *cluster) end(t executor.Task) executor.State {
	s := c.fault(t, c.attempts[t])
	if s == executor.Running {
		s = executor.Ended
		var n int
		_, _ = fmt.Sscan(t.Array, &n)
		if err := c.train(c.arrays[n-1], t.Task); err != nil {
			s = executor.Lost
		}
	}
	if s == executor.Waiting { // its node died: requeued
		c.attempts[t]++
		c.queue = append(c.queue, t)
	}
	c.states[t] = s
	return s
}

func (c *cluster) List(context.Context) ([]executor.Listed, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls["list"]++
	var list []executor.Listed
	for i, a := range c.arrays {
		list = append(list, executor.Listed{ID: fmt.Sprint(i + 1), Name: a.Name})
	}
	return list, nil
}

func (c *cluster) Cancel(context.Context, []string) error { return nil }

func (c *cluster) Logs(executor.Array, int, int) string { return "the last words\n\x1b[31mof its log" }

// sometimes is a fault of one in so many first attempts.
func sometimes(oneIn int, state executor.State) func(executor.Task, int) executor.State {
	draws := rand.New(rand.NewPCG(1, 2))
	return func(_ executor.Task, attempt int) executor.State {
		if attempt == 0 && draws.IntN(oneIn) == 0 {
			return state
		}
		return executor.Running
	}
}
