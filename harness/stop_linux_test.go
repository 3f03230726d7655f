//go:build !portable

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// stopAfter starts the program, sends it a signal once a run has recorded so many steps, waits for its end and
// returns what it printed on standard error and its exit code, -1 when the signal ended it.
func (h *hostProcess) stopAfter(steps int, run string, sig syscall.Signal, args ...string) (stderr string, code int) {
	h.t.Helper()
	return h.disturb(steps, run, func(cmd *exec.Cmd, _ *os.File) error { return cmd.Process.Signal(sig) }, args...)
}

// disturb runs the program until a run has recorded so many steps, and does something to the process, or to the pipe from
// which its standard error is read, before the run goes on.
func (h *hostProcess) disturb(
	steps int, run string, disturb func(*exec.Cmd, *os.File) error, args ...string,
) (stderr string, code int) {
	h.t.Helper()
	path := filepath.Join(h.dir, run, "steps.jsonl")
	cmd := h.command([]string{fmt.Sprintf("%s=%s:%d", holdVariable, path, steps)}, args...)
	pipe, end, err := os.Pipe()
	if err != nil {
		h.t.Fatal(err)
	}
	cmd.Stderr = end
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	var text bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&text, pipe) // an error: it was closed
	}()
	defer pipe.Close()
	end.Close()
	over := make(chan error, 1)
	go func() { over <- cmd.Wait() }()
	for !exists(path + heldFile) {
		select {
		case err := <-over:
			h.t.Fatalf("harness %s ended before step %d, at which it is disturbed: %v", strings.Join(args, " "), steps, err)
		case <-time.After(time.Millisecond):
		}
	}
	err = disturb(cmd, pipe)
	if goOn := os.WriteFile(path+goFile, nil, 0o666); err != nil || goOn != nil {
		h.t.Fatal(err, goOn)
	}
	err = <-over
	<-read
	for _, file := range []string{path + heldFile, path + goFile} {
		if err := os.Remove(file); err != nil {
			h.t.Fatal(err)
		}
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		h.t.Fatal(err)
	}
	return text.String(), cmd.ProcessState.ExitCode()
}

// processes are those that carry the host's marker, with their command lines. A zombie has no environment any more.
func (h *hostProcess) processes() map[int]string {
	h.t.Helper()
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		h.t.Fatal(err)
	}
	found := map[int]string{}
	for _, path := range environments {
		env, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(env, []byte(programVariable+"="+h.marker+"\x00")) {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			h.t.Fatal(err)
		}
		found[pid] = string(bytes.ReplaceAll(line, []byte{0}, []byte{' '}))
	}
	return found
}

// gone waits until no process and no socket of the host is left.
func (h *hostProcess) gone() {
	h.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		left := h.processes()
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("the host is gone and left %v", left)
		}
	}
	if files, err := filepath.Glob(filepath.Join(h.temp, "*")); err != nil || len(files) > 0 {
		h.t.Errorf("the host is gone and left %v (%v)", files, err)
	}
}

// long makes a run long enough for a signal to meet it in every phase.
var long = []string{
	"--set", "phases.phase1.steps=40", "--set", "phases.phase2.steps=50", "--set", "phases.squad.steps=20",
	"--set", "phases.squad.evaluation.every=1",
}

// hangup is SIGHUP, or another signal where the tests run under nohup: what is ignored at start stays ignored.
func hangup() syscall.Signal {
	if signal.Ignored(syscall.SIGHUP) {
		return syscall.SIGUSR1
	}
	return syscall.SIGHUP
}

// TestStopped interrupts one run in each of its phases, kills it, and kills its backend. Resumed each time, it ends
// with the bits of a run that nobody disturbed.
func TestStopped(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs the program ten times")
	}
	h := newHost(t)
	// FP16.16 rounds stochastically: its streams have to go on where they were.
	args := append([]string{"run", "--backend", "ipu", "--optimizer", "lamb"}, long...)
	const arm = "ipu-lamb-seed1"
	h.run(nil, append(args, "--quiet", "--out", "whole")...)
	whole := h.read("whole/" + arm)

	resume := append(args, "--out", "stopped", "--resume", "--set", "phases.phase2.checkpoint_every=7")
	const run = "stopped/" + arm
	interrupted := func(steps int, sig syscall.Signal) {
		t.Helper()
		stderr, code := h.stopAfter(steps, run, sig, resume...)
		if code != exitInterrupted {
			t.Fatalf("%v after %d steps: exit code %d, want %d\n%s", sig, steps, code, exitInterrupted, stderr)
		}
		for _, want := range []string{
			"harness: stopped: " + arm + ": phase ", "hint: go on with: ", " --out stopped --resume\n",
		} {
			if strings.Count(stderr, want) != 1 {
				t.Errorf("stderr has not once %q:\n%s", want, stderr)
			}
		}
		h.gone()
	}
	interrupted(5, syscall.SIGINT)
	interrupted(20, hangup())
	interrupted(30, syscall.SIGTERM)
	interrupted(45, syscall.SIGUSR1)

	// Nothing is saved when the host is killed, and nothing of it stays behind.
	if _, code := h.stopAfter(60, run, syscall.SIGKILL, resume...); code != -1 {
		t.Fatalf("exit code %d after SIGKILL", code)
	}
	h.gone()

	// The backend dies: an error with its name and the step, and the run can go on as well.
	kill := func(*exec.Cmd, *os.File) error {
		for pid, line := range h.processes() {
			if strings.Contains(line, "plugin serve backend ipu") {
				return syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		return fmt.Errorf("no backend among %v", h.processes())
	}
	stderr, code := h.disturb(72, run, kill, append(resume, "--quiet", "--restarts", "0")...)
	if code != exitError {
		t.Fatalf("the backend was killed: exit code %d, want %d\n%s", code, exitError, stderr)
	}
	phase := "harness: " + arm + ": phase phase2: "
	if strings.Count(stderr, "\n") > 2 ||
		!strings.Contains(stderr, phase+"step ") && !strings.Contains(stderr, phase+"checkpoint after step ") ||
		!strings.Contains(stderr, "backend ipu: ") || !strings.Contains(stderr, "killed") {
		t.Errorf("the backend was killed:\n%s", stderr)
	}
	h.gone()

	// In the last phase a signal meets an evaluation more likely than a step.
	interrupted(93, syscall.SIGXCPU)
	if _, code := h.disturb(97, run, func(_ *exec.Cmd, stderr *os.File) error { return stderr.Close() }, resume...); code != exitInterrupted {
		t.Fatalf("exit code %d after standard error was closed, want %d", code, exitInterrupted)
	}
	h.gone()

	// By default the backend is started again.
	if stderr, code := h.disturb(105, run, kill, append(resume, "--quiet")...); code != exitOK {
		t.Fatalf("the backend was killed: exit code %d, want %d\n%s", code, exitOK, stderr)
	}
	got := h.read(run)
	if n := got.Result.Notes; len(n) != 1 || !strings.HasPrefix(n[0], "a plugin was started again, and the run went on after step ") {
		t.Errorf("notes %q, want one about the backend", n)
	}
	got.Result.Notes = whole.Result.Notes
	same(t, "stopped eight times", whole, got)
	h.gone()
}
