package train_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"harness.invalid/core/optimizer"
	"harness.invalid/harness/train"
)

// TestOptionsByStep follows a loss scale that changes in the middle of a phase, and stops the run around the change.
func TestOptionsByStep(t *testing.T) {
	e := load(t, "phases.phase1.steps=6", "phases.phase2.steps=2",
		"phases.squad.steps=2", "phases.squad.target=", "phases.squad.evaluation.every=0",
		"backends={ipu: {options: {loss_scale: 512}, phases: {phase1: {options_by_step: {2: {loss_scale: 64}, 4: {loss_scale: 256}}}}}}")
	h := &hooked{Backend: builtIn("ipu")}
	j := e.job("ipu", t.TempDir())
	j.Plugins = plugins{backend: h}
	whole := e.run(j)
	var scales []float64
	for _, s := range whole.steps {
		scales = append(scales, float64(s.LossScale))
	}
	if want := []float64{512, 512, 64, 64, 256, 256, 512, 512, 512, 512}; !slices.Equal(scales, want) {
		t.Errorf("loss scales are %v, want %v", scales, want)
	}
	if h.sessions != 0 {
		t.Errorf("%d sessions are still open", h.sessions)
	}
	for _, stop := range []int{1, 2, 3, 4, 5} {
		resumed(t, e, "ipu", stop, whole)
	}
}

// TestCarriedState checks the optimizer's slots where one phase ends and the next begins.
func TestCarriedState(t *testing.T) {
	for _, carries := range []string{"true", "false"} {
		e := load(t, "phases.phase1.steps=3", "phases.phase2.steps=2",
			"phases.squad.steps=1", "phases.squad.target=", "phases.squad.evaluation.every=0",
			"phases.phase2.carry_optimizer_state="+carries)
		w := &watched{plugins: plugins{backend: &hooked{Backend: builtIn("gpu-ref")}}}
		j := e.job("gpu-ref", t.TempDir())
		j.Plugins = w
		whole := e.run(j)
		if len(w.opened) != 3 || len(w.closed) != 3 {
			t.Fatalf("the optimizer was opened %d times and closed %d times, want 3", len(w.opened), len(w.closed))
		}
		for i := range w.opened[1] {
			want := make([]float32, len(w.opened[1][i]))
			if carries == "true" {
				want = w.closed[0][i] // both phases have the same parameters
			}
			if !slices.Equal(w.opened[1][i], want) {
				t.Errorf("carry_optimizer_state %s: slot %d does not begin as it should", carries, i)
			}
			if slices.ContainsFunc(w.opened[2][i], func(x float32) bool { return x != 0 }) {
				t.Errorf("carry_optimizer_state %s: slot %d of the phase after does not begin at 0", carries, i)
			}
		}
		for _, stop := range []int{2, 4, 5, 6} {
			resumed(t, e, "gpu-ref", stop, whole)
		}
	}
}

// resumed stops a run at an event, resumes it, and compares it with one that was not stopped.
func resumed(t *testing.T, e *experiment, spec string, stop int, whole outcome) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	j := e.job(spec, t.TempDir())
	n := 0
	j.Observe = func(train.Event) {
		if n++; n == stop {
			cancel()
		}
	}
	if _, err := train.Run(ctx, j); !errors.Is(err, context.Canceled) {
		t.Fatalf("stopped at event %d: %v, want %v", stop, err, context.Canceled)
	}
	j = e.job(spec, j.Dir)
	j.Resume = true
	if d := whole.differs(e.run(j)); d != "" {
		t.Errorf("stopped at event %d and resumed differs in %s", stop, d)
	}
}

// watched copies the optimizer's slots when it is opened and when it is closed.
type watched struct {
	plugins
	opened, closed [][][]float32
}

func (w *watched) Optimizer(ctx context.Context, name string) (optimizer.Optimizer, error) {
	o, err := w.plugins.Optimizer(ctx, name)
	return watchedOptimizer{o, w}, err
}

type watchedOptimizer struct {
	optimizer.Optimizer
	by *watched
}

func (o watchedOptimizer) Open(ctx context.Context, options map[string]string, m optimizer.Memory) (optimizer.Session, error) {
	o.by.opened = append(o.by.opened, copies(m.Slots))
	s, err := o.Optimizer.Open(ctx, options, m)
	return watchedSession{s, m, o.by}, err
}

type watchedSession struct {
	optimizer.Session
	memory optimizer.Memory
	by     *watched
}

func (s watchedSession) Close() error {
	s.by.closed = append(s.by.closed, copies(s.memory.Slots))
	return s.Session.Close()
}

func copies(slots [][]float32) [][]float32 {
	var all [][]float32
	for _, s := range slots {
		all = append(all, slices.Clone(s))
	}
	return all
}
