package host_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"harness.invalid/core/durable"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
)

// hostRoles are hosts for a test to kill.
var hostRoles = map[string]func(){
	// host starts the plugins that its arguments name, prints their process ids, and waits to be killed.
	"host": func() {
		self, err := os.Executable()
		if err != nil {
			panic(err)
		}
		for _, role := range os.Args[1:] {
			s := host.Spec{Kind: plugin.Optimizer, Name: role, Path: self, Env: []string{roleVariable + "=" + role}}
			p, err := host.Launch(context.Background(), s)
			if err != nil {
				panic(err)
			}
			fmt.Println(p.PID())
		}
		fmt.Println("ready")
		select {}
	},
}

// alive reports whether a process runs; a zombie does not.
func alive(t *testing.T, pid int) bool {
	t.Helper()
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(status), ") ")
	return !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

// TestKilledHost kills a host with SIGKILL and looks for what it left behind: processes, sockets.
func TestKilledHost(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("looks into /proc")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	temp, err := os.MkdirTemp("", "h") // a short name: it will hold sockets
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(temp)
	host := exec.Command(self, "adamw", "hang")
	host.Env = append(os.Environ(), roleVariable+"=host", "TMPDIR="+temp)
	host.Stderr = os.Stderr
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []int
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "ready"; {
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	if len(pids) != 2 || !alive(t, pids[0]) || !alive(t, pids[1]) {
		t.Fatalf("host started %v, want two processes that run", pids)
	}
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = host.Wait()
	for _, pid := range pids {
		for deadline := time.Now().Add(5 * time.Second); alive(t, pid); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("plugin %d outlives its host", pid)
			}
		}
	}
	left, err := filepath.Glob(filepath.Join(temp, "*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// TestLifeline tests the second line of defence, for systems whose kernel does not kill a child with its parent.
func TestLifeline(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there the plugin watches the host's process")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := spec(t, plugin.Optimizer, "sgd", host.Memory)
	s.Path = self
	p, err := host.Launch(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.CutLifeline(); err != nil {
		t.Fatal(err)
	}
	if got := p.ExitStatus(); got != "exit status 1" {
		t.Errorf("after the lifeline was cut the process has status %q, want exit status 1", got)
	}
	_, err = p.Optimizer().Describe(t.Context())
	wants(t, err, "the plugin died (exit status 1)", "the host is gone")
	_ = p.Close()
}

// TestClose: Close is quick, may be called twice, and leaves a process whose calls fail.
func TestClose(t *testing.T) {
	p, err := host.Launch(t.Context(), spec(t, plugin.Optimizer, "sgd", host.Memory))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for range 2 {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if d := time.Since(began); d > 2*time.Second {
		t.Errorf("close took %v", d)
	}
	_, err = p.Optimizer().Describe(t.Context())
	wants(t, err, "optimizer sgd: describe")
}

// TestByHand: a plugin that is started by hand says what it is, and fails.
func TestByHand(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleVariable+"=sgd")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("%v, want exit status 1", err)
	}
	wants(t, fmt.Errorf("%s", out), "This binary is a plugin")
}

func TestSocketFolders(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("TCP there")
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	long := filepath.Join(temp, strings.Repeat("x", 120))
	old, young, other := filepath.Join(temp, "harness-plugin-1"), filepath.Join(temp, "harness-plugin-2"), filepath.Join(temp, "other")
	for _, folder := range []string{long, old, young, other} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	day := time.Now().Add(-24 * time.Hour)
	for _, folder := range []string{old, other} {
		if err := os.Chtimes(folder, day, day); err != nil {
			t.Fatal(err)
		}
	}
	host.Sweep(temp, time.Now())
	for folder, want := range map[string]bool{old: false, young: true, other: true} {
		if _, err := os.Stat(folder); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", folder, err == nil, want)
		}
	}
	// One that a host holds stays however old it is, and goes with the next sweep once nobody holds it.
	held := filepath.Join(temp, "harness-plugin-3")
	if err := os.Mkdir(held, 0o700); err != nil {
		t.Fatal(err)
	}
	unlock, err := durable.Lock(filepath.Join(held, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		host.Sweep(temp, time.Now().Add(time.Hour))
		if _, err := os.Stat(held); (err == nil) != want {
			t.Errorf("a folder that is held: %v; it is there: %v", want, err == nil)
		}
		if err := unlock(); err != nil {
			t.Fatal(err)
		}
	}
	// A folder for temporary files whose name leaves no room for a socket's is not used.
	t.Setenv("TMPDIR", long)
	folder, remove, err := host.NewSocketFolder()
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	if filepath.Dir(folder) != "/tmp" {
		t.Errorf("folder %s, want one in /tmp", folder)
	}
}
