package kernels

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Parallel cuts [0, n) into at most GOMAXPROCS contiguous shares, calls body on each, and returns when all are done.
//
// The shares run on goroutines that live as long as the process. Only one Parallel at a time has them: a call
// inside a body, or during another goroutine's call, runs body(0, n) on the caller. So the results of body must not
// depend on how the work is shared. A panic in a body is raised again in the caller.
func Parallel(n int, body func(i0, i1 int)) {
	if n <= 0 {
		return
	}
	shares := min(n, runtime.GOMAXPROCS(0))
	if shares == 1 || !crew.busy.TryLock() {
		body(0, n)
		return
	}
	defer crew.busy.Unlock()
	crew.run(n, shares, body)
}

// Waking a parked thread takes 50 to 150 µs on a virtual machine (measured), as long as a small matrix product. The
// calls of a training step follow each other within microseconds, so a waiting goroutine polls for a while before
// it parks.
const patience = 200 * time.Microsecond

// A latch is opened by one goroutine and awaited by another.
type latch struct {
	state atomic.Uint32
	wake  chan struct{}
}

// The states of a latch.
const (
	latchClosed = iota
	latchOpen
	latchParked // closed, and the waiting goroutine must be woken
)

func newLatch() latch { return latch{wake: make(chan struct{}, 1)} }

func (l *latch) open() {
	if l.state.Swap(latchOpen) == latchParked {
		l.wake <- struct{}{}
	}
}

// await returns when the latch is open and closes it.
func (l *latch) await() {
	for start := time.Now(); ; {
		for range 100 { // a few microseconds
			if l.state.Load() == latchOpen {
				l.state.Store(latchClosed)
				return
			}
			pause()
		}
		if time.Since(start) > patience {
			break
		}
		runtime.Gosched()
	}
	if l.state.CompareAndSwap(latchClosed, latchParked) {
		<-l.wake
	}
	l.state.Store(latchClosed)
}

// workers are the goroutines of Parallel, one fewer than the most shares that any call had, as the caller works, too.
type workers struct {
	busy sync.Mutex
	all  []*worker

	running atomic.Int32
	done    latch

	failure sync.Mutex
	failed  any // the first panic of the call under way
}

type worker struct {
	start  latch
	i0, i1 int
	body   func(i0, i1 int)
}

var crew = workers{done: newLatch()}

func (c *workers) run(n, shares int, body func(i0, i1 int)) {
	for len(c.all) < shares-1 {
		w := &worker{start: newLatch()}
		c.all = append(c.all, w)
		go func() {
			for {
				w.start.await()
				c.share(w.i0, w.i1, w.body)
				w.body = nil
				if c.running.Add(-1) == 0 {
					c.done.open()
				}
			}
		}()
	}
	c.running.Store(int32(shares - 1))
	for i, w := range c.all[:shares-1] {
		w.i0, w.i1, w.body = (i+1)*n/shares, (i+2)*n/shares, body
		w.start.open()
	}
	c.share(0, n/shares, body)
	c.done.await()
	if failed := c.failed; failed != nil {
		c.failed = nil
		panic(failed)
	}
}

func (c *workers) share(i0, i1 int, body func(i0, i1 int)) {
	defer func() {
		if failed := recover(); failed != nil {
			c.failure.Lock()
			if c.failed == nil {
				c.failed = failed
			}
			c.failure.Unlock()
		}
	}()
	body(i0, i1)
}
