//go:build unix

package torture

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"harness.invalid/core/fault"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/train"
)

// playHost trains in a folder, with plugins in processes, and kills a process at a point: before an operation or a call of
// a plugin. Arguments: folder, folder of the data, number of the point, from 1, whom to kill, marker. It prints how many
// points there were, and the one where it killed.
func playHost() {
	dir, data, victim, marker := os.Args[3], os.Args[4], os.Args[6], os.Args[7]
	at, err := strconv.Atoi(os.Args[5])
	if err == nil {
		err = hostRun(dir, data, at, victim, marker)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func hostRun(dir, data string, at int, victim, marker string) error {
	runtime.GOMAXPROCS(1)
	r, err := recipe.Load("../testdata/mini.yaml", tiny...)
	if err != nil {
		return err
	}
	d, err := train.OpenData(r, data, func(string) {})
	if err != nil {
		return err
	}
	f, err := newFleet(marker, host.Timeouts{})
	if err != nil {
		return err
	}
	var points atomic.Int32
	pass := func(name string) {
		if int(points.Add(1)) != at {
			return
		}
		fmt.Println("killed", victim, "at", name)
		pid := os.Getpid()
		if victim != "host" {
			p := f.started[plugin.Kind(victim)]
			if p == nil {
				return // it is not started yet
			}
			pid = p.PID()
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	f.die = func(_ int, call string) (bool, bool) {
		pass(call)
		return false, false
	}
	remove := fault.Intercept(func(op *fault.Op, do func() error) error {
		pass(point(op))
		if op.Kind == fault.Sync || op.Kind == fault.SyncDir {
			return nil
		}
		return do()
	})
	defer remove()
	e := &trained{recipe: r, data: d}
	j := e.job(dir, f)
	j.Restarts = 2
	if _, err = train.Run(background, j); err == nil {
		fmt.Println("points", points.Load())
	}
	return errors.Join(err, f.close(), d.Close())
}

// host runs playHost and returns what it printed. The error of a host that was killed is errKilled.
func (e *trained) host(dir string, at int, victim, marker string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	cmd := exec.Command(self, playArgument, "host", dir, filepath.Join(filepath.Dir(e.dir), "data"), strconv.Itoa(at), victim, marker)
	cmd.Env = append(os.Environ(), markerVariable+"="+marker)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err = cmd.Run()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
		return out.String(), errKilled
	}
	if err != nil {
		err = fmt.Errorf("%w: %s", err, &errOut)
	}
	return out.String(), err
}

// TestKills: real processes. SIGKILL for the host, the backend or the optimizer, before any operation or call: a host whose
// plugin was killed goes on by itself, a run whose host was killed is resumed, all end with the same bits, and no process
// outlives its host.
func TestKills(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("looks for processes in /proc")
	}
	e := whole(t)
	s := newSuite(t, "SIGKILL for host, backend, optimizer", 0.14)
	dir := filepath.Join(scratch, "kills")
	marker := fmt.Sprint("kills-", os.Getpid())
	out, err := e.host(dir, 0, "host", marker)
	if err != nil {
		t.Fatal(err)
	}
	var points int
	if _, err := fmt.Sscanf(out[strings.Index(out, "points"):], "points %d", &points); err != nil || points < 200 {
		t.Fatalf("%q: %d points, %v, want at least 200", out, points, err)
	}
	victims := []string{"host", "backend", "optimizer"}
	one := func(at int, victim string) {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		out, err := e.host(dir, at, victim, marker)
		if victim == "host" && errors.Is(err, errKilled) {
			err = nil
		}
		var struck []string
		if line, _, found := strings.Cut(out, "\n"); found && strings.HasPrefix(line, "killed") {
			struck = append(struck, line)
		}
		if err == nil {
			err = gone(marker)
		}
		if err == nil {
			err = e.recovers(dir)
		}
		s.trial(fmt.Sprintf("point %d, %s", at, victim), err, struck...)
	}
	draw := rand.New(rand.NewPCG(uint64(*seed), 4))
	if *long == 0 {
		one(1+draw.IntN(points), "host")
		return
	}
	for _, i := range draw.Perm(points * len(victims)) {
		if !s.more(0) {
			break
		}
		one(1+i/len(victims), victims[i%len(victims)])
	}
	t.Logf("%d points, %d trials, %d lost", points, s.trials, s.lost)
}
