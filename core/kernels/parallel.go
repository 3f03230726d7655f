package kernels

import (
	"runtime"
	"sync"
)

// Parallel calls body on shares of [0, n) that are contiguous, cover it, and number at most GOMAXPROCS; it returns when all are done.
//
// The shares run on goroutines that live as long as the process. One Parallel at a time has them: a call made inside a body, or while
// another goroutine's call is under way, runs body(0, n) on the caller. So body must compute the same whatever its share. A panic in a
// body is raised again in the caller.
func Parallel(n int, body func(i0, i1 int)) {
	if n <= 0 {
		return
	}
	shares := min(n, runtime.GOMAXPROCS(0))
	if shares == 1 || !workers.busy.TryLock() {
		body(0, n)
		return
	}
	defer workers.busy.Unlock()
	workers.run(n, shares, body)
}

// pool is a set of parked goroutines, one fewer than the most shares that were ever asked for: the caller works too.
type pool struct {
	busy sync.Mutex
	wake []chan task
	done sync.WaitGroup

	failure sync.Mutex
	failed  any // the first panic of the call under way
}

type task struct {
	i0, i1 int
	body   func(i0, i1 int)
}

var workers pool

func (p *pool) run(n, shares int, body func(i0, i1 int)) {
	for len(p.wake) < shares-1 {
		wake := make(chan task)
		p.wake = append(p.wake, wake)
		go func() {
			for t := range wake {
				p.share(t)
			}
		}()
	}
	p.done.Add(shares)
	for w := 1; w < shares; w++ {
		p.wake[w-1] <- task{w * n / shares, (w + 1) * n / shares, body}
	}
	p.share(task{0, n / shares, body})
	p.done.Wait()
	if failed := p.failed; failed != nil {
		p.failed = nil
		panic(failed)
	}
}

func (p *pool) share(t task) {
	defer p.done.Done()
	defer func() {
		if failed := recover(); failed != nil {
			p.failure.Lock()
			if p.failed == nil {
				p.failed = failed
			}
			p.failure.Unlock()
		}
	}()
	t.body(t.i0, t.i1)
}
