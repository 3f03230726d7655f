package processes

import (
	"fmt"
	"os"
	"testing"
	"time"

	"harness.invalid/core/plugin/host"
	"harness.invalid/harness/catalog"
)

// TestMain serves the built-in plugins: the catalog starts this executable again for them.
func TestMain(m *testing.M) {
	if kind, name, ok := catalog.Asked(os.Args); ok {
		if err := catalog.Serve(kind, name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// kill kills a plugin and waits until it is gone.
func kill(t *testing.T, p *host.Process) {
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

// TestDiedWaiting: a run takes the processes that were already started and asked, unless one of them has died since.
func TestDiedWaiting(t *testing.T) {
	pool := NewPool(Options{})
	defer func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	}()
	ask := func() (backend, rule *host.Process) {
		t.Helper()
		s, err := pool.Waiting(t.Context(), "gpu-ref")
		if err != nil {
			t.Fatal(err)
		}
		if rule, err = s.rule(t.Context(), "adamw"); err != nil {
			t.Fatal(err)
		}
		return s.backend, rule
	}
	first, rule := ask()
	if again, _ := ask(); again != first {
		t.Error("a process that waits was started a second time")
	}
	kill(t, first)
	second, rule2 := ask()
	if second == first || rule2 == rule || second.Exited() {
		t.Error("the backend died, and it or its optimizer was kept")
	}
	kill(t, rule2)
	s, err := pool.Take(t.Context(), "gpu-ref")
	if err != nil {
		t.Fatal(err)
	}
	if s.backend == second || s.Exited() {
		t.Error("an optimizer died, and a run took it")
	}
	if third, _ := ask(); third == s.backend {
		t.Error("a process was taken and waits for another run")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
