//go:build linux && !portable

package host_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"harness.invalid/core/optimizer"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
)

func init() {
	badRoles["parent"] = badOptimizer(func(context.Context, optimizer.Memory) error {
		return bear(false)
	})
	badRoles["dying-parent"] = badOptimizer(func(context.Context, optimizer.Memory) error {
		_ = bear(false)
		os.Exit(3)
		return nil
	})
	badRoles["dying-parent-of-an-escapee"] = badOptimizer(func(context.Context, optimizer.Memory) error {
		_ = bear(true)
		os.Exit(3)
		return nil
	})
}

// floodBytes is how much the role "flood" prints in each of two ways: without an end of line, and as lines.
const floodBytes = 64 << 20

func init() {
	badRoles["flood"] = badOptimizer(func(context.Context, optimizer.Memory) error {
		stderr := os.NewFile(2, "stderr")
		for _, text := range []string{strings.Repeat("x", 1<<16), strings.Repeat(strings.Repeat("y", 127)+"\n", 1<<9)} {
			for range floodBytes >> 16 {
				if _, err := stderr.WriteString(text); err != nil {
					return err
				}
			}
			_, _ = stderr.WriteString("\n")
		}
		_, _ = stderr.WriteString("tile 311 is on fire\n")
		os.Exit(3)
		return nil
	})
}

func init() {
	badRoles["flood-of-output"] = badOptimizer(func(context.Context, optimizer.Memory) error {
		_, err := os.NewFile(1, "stdout").WriteString(strings.Repeat("z", 4<<20))
		return err
	})
}

// bear starts a process that lives for minutes and holds the standard error of this one. It prints its number.
func bear(escapes bool) error {
	stderr := os.NewFile(2, "stderr") // Go's os.Stderr of a plugin that is served is another pipe
	cmd := exec.Command("sleep", "300")
	cmd.Stderr, cmd.SysProcAttr = stderr, &syscall.SysProcAttr{Setsid: escapes}
	if err := cmd.Start(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(stderr, "child %d\n", cmd.Process.Pid)
	return err
}

// childOf is the number of the process that bear started. The process is killed after the test at the latest.
func childOf(t *testing.T, printed *buffer) int {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		_, text, _ := strings.Cut(printed.String(), "child ")
		number, _, ok := strings.Cut(text, "\n")
		if pid, err := strconv.Atoi(number); ok && err == nil {
			t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
			return pid
		}
	}
	t.Fatalf("no child among what was printed: %q", printed)
	return 0
}

// wantGone expects that a process ends.
func wantGone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Second); alive(t, pid); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d, which the plugin started, outlives it", pid)
		}
	}
}

// TestDeadParent: nobody waits for a plugin that dies while its child holds its standard error open, and the child dies
// with it. A child that left the process group lives on, and nobody waits for it either.
func TestDeadParent(t *testing.T) {
	for _, role := range []string{"dying-parent", "dying-parent-of-an-escapee"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			var printed buffer
			s := spec(t, plugin.Optimizer, role, host.Stream)
			s.Stderr = &printed
			p := start(t, s)
			u, _ := updates(t, p)
			began := time.Now()
			_, err := u.Step(t.Context(), optimizer.Step{Step: 1, LR: 0.1})
			wants(t, err, "step 1: the plugin died (exit status 3)", "child ")
			if !errors.Is(err, host.ErrDied) {
				t.Errorf("%v is not ErrDied", err)
			}
			pid := childOf(t, &printed)
			if err := p.Close(); err != nil {
				t.Error(err)
			}
			if d := time.Since(began); d > 10*time.Second {
				t.Errorf("the host was held up for %v", d)
			}
			if role == "dying-parent" {
				wantGone(t, pid)
			}
		})
	}
}

// TestChildrenEnd: processes that a plugin started end with it, whether it ends when asked or is killed.
func TestChildrenEnd(t *testing.T) {
	for name, end := range map[string]func(p *host.Process){
		"closed": func(p *host.Process) { _ = p.Close() },
		"killed": func(p *host.Process) { p.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var printed buffer
			s := spec(t, plugin.Optimizer, "parent", host.Stream)
			s.Stderr = &printed
			p := start(t, s)
			u, _ := updates(t, p)
			if _, err := u.Step(t.Context(), optimizer.Step{Step: 1, LR: 0.1}); err != nil {
				t.Fatal(err)
			}
			pid := childOf(t, &printed)
			if !alive(t, pid) {
				t.Fatal("the child ended too early to tell anything")
			}
			end(p)
			wantGone(t, pid)
		})
	}
}

// TestScriptAroundProcess: when a start takes too long or is cancelled, a script that never says hello is killed together
// with the process that it waits for.
func TestScriptAroundProcess(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		t.Run(fmt.Sprintf("cancelled=%t", cancelled), func(t *testing.T) {
			t.Parallel()
			var printed buffer
			s := spec(t, plugin.Optimizer, "script", host.Stream)
			s.Path, s.Args, s.Stderr = "/bin/sh", []string{"-c", "sleep 300 & echo child $! >&2; wait"}, &printed
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			want := "context canceled"
			if cancelled {
				go func() {
					for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline) && !strings.Contains(printed.String(), "\n"); {
						time.Sleep(2 * time.Millisecond)
					}
					cancel()
				}()
			} else {
				s.Timeouts.Start, want = 500*time.Millisecond, "no answer within 500ms, so it was killed"
			}
			began := time.Now()
			_, err := host.Launch(ctx, s)
			wants(t, err, want)
			if d := time.Since(began); d > 10*time.Second {
				t.Errorf("the host was held up for %v", d)
			}
			wantGone(t, childOf(t, &printed))
		})
	}
}

// TestFlood: a plugin that prints without end is never blocked; part of its output is passed on, and its last words are
// kept.
func TestFlood(t *testing.T) {
	var printed buffer
	s := spec(t, plugin.Optimizer, "flood", host.Stream)
	s.Stderr = &printed
	p := start(t, s)
	u, _ := updates(t, p)
	_, err := u.Step(t.Context(), optimizer.Step{Step: 1, LR: 0.1})
	wants(t, err, "the plugin died (exit status 3)", "tile 311 is on fire")
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	text := printed.String()
	if n := len(text); n > floodBytes/4 {
		t.Errorf("of %d MiB, %d bytes are passed on", 2*floodBytes>>20, n)
	}
	wants(t, errors.New(text), "[cut: the line is longer than 64 KiB]\n", "bytes dropped: the plugin prints more than 64 KiB a second]\n")
}

// TestFloodOfOutput: a plugin that prints a line without an end on its standard output goes on.
func TestFloodOfOutput(t *testing.T) {
	u, _ := updates(t, start(t, spec(t, plugin.Optimizer, "flood-of-output", host.Stream)))
	if _, err := u.Step(t.Context(), optimizer.Step{Step: 1, LR: 0.1}); err != nil {
		t.Error(err)
	}
}
