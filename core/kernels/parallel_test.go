package kernels

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

func TestParallel(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, procs := range []int{1, 2, 3, 8} {
		runtime.GOMAXPROCS(procs)
		for _, n := range []int{-1, 0, 1, 2, 3, 7, 100} {
			seen := make([]int, max(n, 0))
			var shares atomic.Int32
			Parallel(n, func(i0, i1 int) {
				shares.Add(1)
				for i := i0; i < i1; i++ {
					seen[i]++
				}
			})
			for i, times := range seen {
				if times != 1 {
					t.Fatalf("GOMAXPROCS %d, n %d: index %d was seen %d times", procs, n, i, times)
				}
			}
			if want := min(procs, max(n, 0)); int(shares.Load()) != want {
				t.Errorf("GOMAXPROCS %d, n %d: %d shares, want %d", procs, n, shares.Load(), want)
			}
		}
	}
}

// TestParallelInside: nested calls and calls from several goroutines at once neither deadlock nor lose work.
func TestParallelInside(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	var sum atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				Parallel(10, func(i0, i1 int) {
					for i := i0; i < i1; i++ {
						Parallel(10, func(j0, j1 int) { sum.Add(int64(j1 - j0)) })
					}
				})
			}
		})
	}
	all.Wait()
	if sum.Load() != 8*100*10*10 {
		t.Errorf("%d calls were made, want %d", sum.Load(), 8*100*10*10)
	}
}

func TestParallelPanics(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	func() {
		defer func() {
			if got := recover(); got != "in a share" {
				t.Errorf("recovered %v", got)
			}
		}()
		Parallel(2, func(i0, i1 int) {
			if i1 == 2 {
				panic("in a share")
			}
		})
	}()
	n := 0
	Parallel(1, func(i0, i1 int) { n++ })
	if n != 1 {
		t.Error("the pool does not work after a panic")
	}
}
