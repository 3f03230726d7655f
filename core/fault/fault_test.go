package fault_test

import (
	"errors"
	"testing"

	"harness.invalid/core/fault"
)

// TestDo: an interceptor sees operations and decides what becomes of them, as long as it is there.
func TestDo(t *testing.T) {
	broken := errors.New("broken")
	done := 0
	do := func() error { done++; return nil }
	remove := fault.Intercept(func(op *fault.Op, do func() error) error {
		if op.Path == "bad" {
			return broken
		}
		return do()
	})
	bad, good := &fault.Op{Kind: fault.Sync, Path: "bad"}, &fault.Op{Kind: fault.Sync, Path: "good"}
	if err := fault.Do(bad, do); !errors.Is(err, broken) || done != 0 {
		t.Errorf("%v, done %d times, want %v and never", err, done, broken)
	}
	if err := fault.Do(good, do); err != nil || done != 1 {
		t.Errorf("%v, done %d times, want once", err, done)
	}
	remove()
	if err := fault.Do(bad, do); err != nil || done != 2 {
		t.Errorf("without an interceptor: %v, done %d times, want twice", err, done)
	}
}

// BenchmarkDo measures an operation without an interceptor.
func BenchmarkDo(b *testing.B) {
	op, do := &fault.Op{Kind: fault.Sync}, func() error { return nil }
	for b.Loop() {
		_ = fault.Do(op, do)
	}
}
