package train_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/plugin/host"
	"harness.invalid/core/tensor"
	"harness.invalid/harness/train"
)

// mortal are plugins that die: their backend and optimizer at some calls, after they changed what they may change. From
// then on every call fails, until they are started again.
type mortal struct {
	plugins
	die      func(call string, step int) bool
	dead     bool
	restarts int
	spoil    func(m train.Memory, call string) // what a dying plugin leaves; nil: nothing
	memory   train.Memory
}

func (m *mortal) Restart(context.Context) error {
	m.dead = false
	m.restarts++
	return nil
}

func (m *mortal) Allocate(l *tensor.Layout, slots int) (train.Memory, error) {
	var err error
	m.memory, err = m.plugins.Allocate(l, slots)
	return m.memory, err
}

// call reports whether a call finds its plugin dead.
func (m *mortal) call(name string, step int) error {
	if !m.dead && m.die(name, step) {
		m.dead = true
		if m.spoil != nil {
			m.spoil(m.memory, name)
		}
	}
	if m.dead {
		return fmt.Errorf("%s %d: %w (signal: killed)", name, step, host.ErrDied)
	}
	return nil
}

func (m *mortal) Optimizer(ctx context.Context, name string) (optimizer.Optimizer, error) {
	o, err := m.plugins.Optimizer(ctx, name)
	return mortalOptimizer{o, m}, err
}

type mortalOptimizer struct {
	optimizer.Optimizer
	of *mortal
}

type mortalRule struct {
	optimizer.Session
	of *mortal
}

func (o mortalOptimizer) Open(ctx context.Context, options map[string]string, m optimizer.Memory) (optimizer.Session, error) {
	s, err := o.Optimizer.Open(ctx, options, m)
	return mortalRule{s, o.of}, err
}

func (r mortalRule) Step(ctx context.Context, s optimizer.Step) (optimizer.StepResult, error) {
	if err := r.of.call("update", s.Step); err != nil {
		return optimizer.StepResult{}, err
	}
	return r.Session.Step(ctx, s)
}

// mortals are the plugins of a job as mortal ones.
func mortals(name string, die func(call string, step int) bool) *mortal {
	m := &mortal{die: die}
	h := &hooked{Backend: builtIn(name)}
	h.step = func(s backend.Step, _ backend.Memory, _ *backend.StepResult) error { return m.call("step", s.Step) }
	h.save = func(step int) error { return m.call("save", step) }
	h.committed = func(step int) error { return m.call("commit", step) }
	m.plugins = plugins{backend: h}
	return m
}

// TestRestart kills plugins at every kind of call. The run goes on by itself and ends with the bits of one in which
// nobody died.
func TestRestart(t *testing.T) {
	sets := []string{"phases.phase1.steps=4", "phases.phase2.steps=3", "phases.squad.steps=3", "phases.phase1.evaluation.every=2",
		"phases.phase1.checkpoint_every=2", "backends.gpu-ref.options.init_scale=1048576", "backends.gpu-ref.options.growth_interval=2"}
	e := load(t, sets...)
	for spec, calls := range map[string]map[string][]int{
		"ipu":          {"step": {1, 6}, "update": {3}, "commit": {3, 6, 10}, "save": {4}},
		"gpu-ref:fp16": {"step": {1, 4}},
	} {
		whole := e.run(e.job(spec, t.TempDir()))
		name, _, _ := strings.Cut(spec, ":")
		for call, steps := range calls {
			for _, at := range steps {
				died := false
				m := mortals(name, func(c string, step int) bool {
					now := !died && c == call && step == at
					died = died || now
					return now
				})
				m.spoil = func(memory train.Memory, call string) {
					if call == "update" || call == "commit" { // they were changing it
						memory.Params[0]++
					}
				}
				j := e.job(spec, t.TempDir())
				j.Plugins, j.Restarts = m, 1
				got := e.run(j)
				again := func(note string) bool { return strings.Contains(note, "a plugin was started again") }
				i := slices.IndexFunc(got.result.Notes, again)
				if m.restarts != 1 || i < 0 {
					t.Fatalf("%s: %s %d: %d restarts, notes %q, want one of each", spec, call, at, m.restarts, got.result.Notes)
				}
				if want := fmt.Sprintf("after step %d:", at-1); call == "step" && !strings.Contains(got.result.Notes[i], want) {
					t.Errorf("%s: died in step %d: note %q, want %q: no step is lost", spec, at, got.result.Notes[i], want)
				}
				got.result.Notes = slices.DeleteFunc(got.result.Notes, again)
				if d := whole.differs(got); d != "" {
					t.Errorf("%s: died at %s %d and differs in %s", spec, call, at, d)
				}
			}
		}
	}
}

// TestRestarts: a plugin that dies again and again ends the run, which can be resumed later.
func TestRestarts(t *testing.T) {
	e := load(t, "phases.phase1.steps=4", "phases.phase2.steps=1", "phases.squad.steps=1")
	whole := e.run(e.job("gpu-ref", t.TempDir()))
	m := mortals("gpu-ref", func(call string, step int) bool { return call == "step" && step == 3 })
	j := e.job("gpu-ref", t.TempDir())
	j.Plugins, j.Restarts = m, 2
	_, err := train.Run(t.Context(), j)
	if !errors.Is(err, host.ErrDied) || !strings.Contains(err.Error(), "after 2 restarts: phase phase1: step 3: ") || m.restarts != 2 {
		t.Fatalf("error %v after %d restarts, want two", err, m.restarts)
	}
	j = e.job("gpu-ref", j.Dir)
	j.Resume = true
	got := e.run(j)
	if len(got.result.Notes) == 0 {
		t.Error("the restarts are not in the record")
	}
	got.result.Notes = whole.result.Notes
	if d := whole.differs(got); d != "" {
		t.Errorf("resumed differs in %s", d)
	}
	// Without leave the first death is the end.
	m = mortals("gpu-ref", func(call string, step int) bool { return call == "step" && step == 3 })
	j = e.job("gpu-ref", t.TempDir())
	j.Plugins = m
	if _, err := train.Run(t.Context(), j); !errors.Is(err, host.ErrDied) || m.restarts != 0 {
		t.Errorf("error %v after %d restarts, want none", err, m.restarts)
	}
}

// TestBeside: checkpoints after every step, written while training goes on, change no bit, and the newest is whole
// whenever the run stops.
func TestBeside(t *testing.T) {
	sets := []string{"phases.phase1.steps=6", "phases.phase2.steps=2", "phases.squad.steps=2"}
	e := load(t, sets...)
	whole := e.run(e.job("ipu", t.TempDir()))
	every := load(t, append(sets, "phases.*.checkpoint_every=1")...)
	if d := whole.differs(every.run(every.job("ipu", t.TempDir()))); d != "" {
		t.Errorf("with a checkpoint after every step it differs in %s", d)
	}
}
