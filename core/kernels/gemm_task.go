package kernels

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

// A gemmTask computes C[i0:i1, j0:j1], one block of B after the other. Its worker takes the rows of a block, and
// workers that have run out of tasks help, since cores that are shared are seldom equally fast. Which worker
// computes what does not change the result.
type gemmTask struct {
	area
	p gemmPlan
	g *Gemm

	// The block of B. It changes only when all rows are taken and nobody helps; only workers that have taken rows read it.
	b     []float32 // packed
	j, k0 int

	row     atomic.Int64 // the first that is not taken
	helpers atomic.Int32 // other workers that may have taken some
	done    atomic.Bool
}

// set makes a task of a part of C.
func (t *gemmTask) set(p *gemmPlan, g *Gemm, i0, i1, j0, j1 int) {
	t.area, t.p, t.g = p.area(g, i0, i1, j0, j1), *p, g
	t.row.Store(int64(i1))
}

// share computes all tasks; each worker takes the next when it is done with one. It has a copy of the plan, which
// moves to the heap, so that the plan of a serial run stays on the stack.
func (p gemmPlan) share(g *Gemm, workers int) {
	tasks := make([]gemmTask, p.rowTasks*p.colTasks)
	for i := range tasks {
		r, c := i/p.colTasks, i%p.colTasks
		tasks[i].set(&p, g, cut(g.M, p.rowTasks, r, p.unit), cut(g.M, p.rowTasks, r+1, p.unit),
			cut(g.N, p.colTasks, c, segment), cut(g.N, p.colTasks, c+1, segment))
	}
	var next atomic.Int64
	Parallel(min(workers, len(tasks)), func(_, _ int) {
		for {
			t := int(next.Add(1)) - 1
			if t >= len(tasks) {
				break
			}
			tasks[t].run()
		}
		if !p.tiles {
			help(tasks)
		}
	})
}

// help takes rows of other workers' tasks until all are done.
func help(tasks []gemmTask) {
	for {
		for range 100 { // some microseconds
			done := true
			for i := range tasks {
				if t := &tasks[i]; !t.done.Load() {
					t.help()
					done = false
				}
			}
			if done {
				return
			}
			pause()
		}
		runtime.Gosched()
	}
}

func (t *gemmTask) help() {
	if t.row.Load() >= int64(t.i1) {
		return
	}
	t.helpers.Add(1)
	defer t.helpers.Add(-1)
	buf := gemmPool.Get().(*gemmBuffers)
	t.take(buf, false)
	gemmPool.Put(buf)
}

// run computes the task.
func (t *gemmTask) run() {
	defer t.done.Store(true)
	g, p := t.g, &t.p
	if p.tiles {
		g.tileTask(t.i0, t.i1, t.j0, t.j1)
		return
	}
	buf, nr := gemmPool.Get().(*gemmBuffers), p.level.nr
	if t.packB {
		buf.b = grow(buf.b, min(t.depth, (g.K+t.kc-1)/t.kc*t.kc)*((t.cols+nr-1)/nr*nr))
		t.b = buf.b
	}
	for t.j = t.j0; t.j < t.j1; t.j += t.cols {
		for t.k0 = 0; t.k0 < g.K; t.k0 += t.depth {
			if t.packB {
				p.packB(g, t.b, t.k0, min(g.K, t.k0+t.depth), t.j, min(t.cols, t.j1-t.j))
			}
			t.row.Store(int64(t.i0))
			t.take(buf, true)
			for t.helpers.Load() > 0 {
				pause()
			}
		}
	}
	gemmPool.Put(buf)
}

// take multiplies rows with the block of B until all are taken. The task's own worker prefetches what comes next.
func (t *gemmTask) take(buf *gemmBuffers, own bool) {
	next, told := ahead{idle: uintptr(unsafe.Pointer(&t.g.A[0]))}, !own
	for {
		i := int(t.row.Add(int64(t.chunk))) - t.chunk
		if i >= t.i1 {
			return
		}
		// Having taken rows, this worker can rely on the block of B.
		if !told && i >= t.bAhead {
			next.b, told = t.nextB(t.g, t.j, t.k0), true
		}
		n, nr, k1 := min(t.cols, t.j1-t.j), t.p.level.nr, min(t.g.K, t.k0+t.depth)
		for k := t.k0; k < k1; k += t.kc {
			if own && (i-t.i0)%t.rows == 0 {
				next.a = t.nextA(t.g, i, t.j, k)
			}
			kc := min(t.kc, k1-k)
			b := operandB{b: t.g.B, at: k*t.g.LDB + t.j, next: nr, along: t.g.LDB}
			if t.packB {
				b = operandB{b: t.b, at: (k - t.k0) * ((n + nr - 1) / nr * nr), next: kc * nr, along: nr}
			}
			t.p.block(t.g, buf, i, min(t.chunk, t.i1-i), t.j, n, k, kc, b, &next)
		}
	}
}
