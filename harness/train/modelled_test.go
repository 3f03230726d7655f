package train_test

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/harness/train"
)

// withoutAnswers is a backend that models pre-training only.
type withoutAnswers struct{ *hooked }

func (b withoutAnswers) Estimate(ctx context.Context, p backend.Program, on backend.Machine) (backend.Estimate, error) {
	if p.Head.Task == bert.QuestionAnswering {
		return backend.Estimate{}, backend.ErrUnsupported
	}
	return b.hooked.Estimate(ctx, p, on)
}

// TestModelledClock: the clock continues from phase to phase, and stops at a phase without a model.
func TestModelledClock(t *testing.T) {
	e := load(t, "phases.phase1.steps=2", "phases.phase2.steps=2", "phases.squad.steps=2", "phases.squad.target.value=0")
	for _, whole := range []bool{true, false} {
		j := e.job("ipu", t.TempDir())
		if !whole {
			j.Plugins = plugins{backend: withoutAnswers{&hooked{Backend: builtIn("ipu")}}}
		}
		o := e.run(j)
		sum, inPhase, phase := 0., 0., ""
		for i, s := range o.steps {
			if s.Phase != phase {
				phase, inPhase = s.Phase, 0
			}
			modelled := whole || phase != "squad"
			if modelled != (s.ModelledSeconds > 0) {
				t.Errorf("step %d of %s: %g modelled seconds", s.Step, s.Phase, s.ModelledSeconds)
			}
			sum, inPhase = sum+s.ModelledSeconds, inPhase+s.ModelledSeconds
			total := sum
			if !modelled {
				total = 0
			}
			if math.Abs(s.ModelledTotalSeconds-total) > 1e-12 || math.Abs(s.ModelledPhaseSeconds-inPhase) > 1e-12 {
				t.Errorf("step %d: %g modelled seconds in the phase and %g in the run, want %g and %g",
					i+1, s.ModelledPhaseSeconds, s.ModelledTotalSeconds, inPhase, total)
			}
		}
		for _, p := range o.result.Phases {
			if modelled := whole || p.Name != "squad"; modelled != (p.ModelledSeconds > 0) || modelled != (p.System == "bow-pod16") {
				t.Errorf("phase %s: %g modelled seconds on system %q", p.Name, p.ModelledSeconds, p.System)
			}
		}
	}
}

// tooSmall is a backend on whose system pre-training fits and question answering does not.
type tooSmall struct{ *hooked }

func (b tooSmall) Estimate(ctx context.Context, p backend.Program, on backend.Machine) (backend.Estimate, error) {
	e, err := b.hooked.Estimate(ctx, p, on)
	if p.Head.Task == bert.QuestionAnswering && p.Options["system"] != "none" {
		e.Memory, e.Advice = []backend.DeviceMemory{{Device: "IPU 0", Bytes: 1, Parts: []backend.MemoryPart{{Name: "weights", Bytes: 2}}}}, "less"
	}
	return e, err
}

// TestUnfit: if the recipe names a system that cannot run a phase, there is an error before the first step and no record.
// If the system is the backend's default, there is a doubt, reported before training and noted. Without a system there is
// neither.
func TestUnfit(t *testing.T) {
	for named, want := range map[string]struct {
		fails  bool
		doubts int
	}{"bow-pod16": {fails: true}, "": {doubts: 1}, "none": {}} {
		sets := []string{"phases.phase1.steps=1", "phases.phase2.steps=1", "phases.squad.steps=1"}
		if named != "" {
			sets = append(sets, "backends.ipu.options.system="+named)
		}
		e := load(t, sets...)
		dir := filepath.Join(t.TempDir(), "run")
		j := e.job("ipu", dir)
		j.Plugins = plugins{backend: tooSmall{&hooked{Backend: builtIn("ipu")}}}
		steps, doubts := 0, 0
		j.Observe = func(ev train.Event) {
			switch {
			case ev.Doubt == "":
				steps++
			case steps > 0:
				t.Errorf("system %q: %q is told after training began", named, ev.Doubt)
			default:
				doubts++
			}
		}
		asked := j.Model(t.Context())
		result, err := train.Run(t.Context(), j)
		if !want.fails {
			if err != nil || asked != nil || doubts != want.doubts || len(result.Notes) != want.doubts {
				t.Errorf("system %q: %v, %v, %d doubts, notes %v", named, err, asked, doubts, result)
			}
			continue
		}
		var u train.Unfit
		if !errors.As(err, &u) || len(u) != 1 || u[0].Phase != "squad" || u[0].Advice != "less" ||
			!errors.Is(err, backend.ErrOutOfMemory) || !errors.As(asked, &u) {
			t.Errorf("system %q: %v, %v", named, err, asked)
		}
		if _, err := os.Stat(dir); steps > 0 || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("system %q: %d steps were done, record: %v", named, steps, err)
		}
	}
}
