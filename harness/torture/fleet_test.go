//go:build unix

package torture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"harness.invalid/core/arena"
	"harness.invalid/core/backend"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
	"harness.invalid/harness/train"
)

// markerVariable marks the processes of a trial, and those that they start.
const markerVariable = "HARNESS_TORTURE"

// fleet are plugins in processes that the test binary plays, a backend and an optimizer.
type fleet struct {
	*devices // their memory, and what counts their calls
	roles    map[plugin.Kind]string
	marker   string
	timeouts host.Timeouts
	started  map[plugin.Kind]*host.Process
}

var _ train.Restarter = (*fleet)(nil)

// newFleet starts no process yet.
func newFleet(marker string, t host.Timeouts) (*fleet, error) {
	a, err := arena.New()
	return &fleet{
		devices: &devices{arena: a}, roles: maps.Clone(recipeNames),
		marker: marker, timeouts: t, started: map[plugin.Kind]*host.Process{},
	}, err
}

func (f *fleet) start(ctx context.Context, kind plugin.Kind) (*host.Process, error) {
	if p := f.started[kind]; p != nil {
		return p, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p, err := host.Launch(ctx, host.Spec{
		Kind: kind, Name: f.roles[kind], Path: self, Args: []string{playArgument, f.roles[kind]}, Threads: 1, Arena: f.arena,
		Transport: host.Memory, Env: []string{markerVariable + "=" + f.marker}, Timeouts: f.timeouts,
	})
	if err == nil {
		f.started[kind] = p
	}
	return p, err
}

// Backend implements train.Plugins. A backend that does not start fails when it is opened.
func (f *fleet) Backend() backend.Backend {
	p, err := f.start(background, plugin.Backend)
	if err != nil {
		return unstarted{err}
	}
	return device{p.Backend(), f.devices}
}

// Optimizer implements train.Plugins.
func (f *fleet) Optimizer(ctx context.Context, name string) (optimizer.Optimizer, error) {
	p, err := f.start(ctx, plugin.Optimizer)
	if err != nil {
		return nil, err
	}
	return rule{p.Optimizer(), f.devices}, f.call("optimizer start", func() error { return nil })
}

// Restart implements train.Restarter.
func (f *fleet) Restart(ctx context.Context) error {
	_ = f.end() // whatever dead ones say
	f.times++
	_, err := f.start(ctx, plugin.Backend)
	return err
}

func (f *fleet) end() error {
	var errs []error
	for _, p := range f.started {
		errs = append(errs, p.Close())
	}
	clear(f.started)
	return errors.Join(errs...)
}

// close ends the processes and frees the memory.
func (f *fleet) close() error { return errors.Join(f.end(), f.devices.close()) }

// unstarted is a backend that did not start.
type unstarted struct{ err error }

func (u unstarted) Describe(context.Context) (backend.Info, error) { return backend.Info{}, u.err }
func (u unstarted) Open(context.Context, backend.Program, backend.Memory) (backend.Session, error) {
	return nil, u.err
}

// marked are the processes that carry a marker. A zombie has no environment any more.
func marked(marker string) map[int]string {
	found := map[int]string{}
	environments, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environments {
		env, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(env, []byte(markerVariable+"="+marker+"\x00")) {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			found[pid] = string(bytes.ReplaceAll(line, []byte{0}, []byte{' '}))
		}
	}
	return found
}

// gone waits until no process with a marker is left.
func gone(marker string) error {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		left := marked(marker)
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("it left the processes %v", left)
		}
	}
}

// TestFleet: plugins in processes give the bits of those in this process.
func TestFleet(t *testing.T) {
	e := whole(t)
	marker := fmt.Sprint("fleet-", os.Getpid())
	f, err := newFleet(marker, host.Timeouts{})
	if err != nil {
		t.Fatal(err)
	}
	o, err := e.run(e.job(filepath.Join(scratch, "fleet"), f))
	if err = errors.Join(err, f.close(), gone(marker)); err != nil {
		t.Fatal(err)
	}
	if d := e.whole.differs(o); d != "" {
		t.Errorf("differs in %s", d)
	}
}
