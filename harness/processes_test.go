package main

import (
	"io"
	"os"
	"testing"
	"time"

	"harness.invalid/core/backend"
	"harness.invalid/core/plugin"
)

// TestDiedWaiting: a run takes the processes that were asked, unless one of them has died meanwhile.
func TestDiedWaiting(t *testing.T) {
	t.Setenv(programVariable, t.Name())
	e := &experiment{progress: newProgress(io.Discard, true), described: map[string]backend.Info{}}
	defer func() {
		if err := e.dismiss(); err != nil {
			t.Error(err)
		}
	}()
	ask := func() (backend, rule *plugin.Process) {
		t.Helper()
		p, err := e.waiting(t.Context(), "gpu-ref")
		if err != nil {
			t.Fatal(err)
		}
		if rule, err = p.rule(t.Context(), "adamw"); err != nil {
			t.Fatal(err)
		}
		return p.backend, rule
	}
	kill := func(p *plugin.Process) {
		t.Helper()
		process, err := os.FindProcess(p.PID())
		if err == nil {
			err = process.Kill()
		}
		if err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(10 * time.Second); !p.Exited(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("a process was killed and is not gone")
			}
		}
	}
	first, rule := ask()
	if again, _ := ask(); again != first {
		t.Error("a process that waits was started a second time")
	}
	kill(first)
	second, rule2 := ask()
	if second == first || rule2 == rule || second.Exited() {
		t.Error("the backend died, and it or its optimizer was kept")
	}
	kill(rule2)
	p, err := e.take(t.Context(), "gpu-ref")
	if err != nil {
		t.Fatal(err)
	}
	if p.backend == second || p.died() {
		t.Error("an optimizer died, and a run took it")
	}
	if third, _ := ask(); third == p.backend {
		t.Error("a process was taken and waits for another run")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
