package train_test

import (
	"context"
	"math"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
)

// withoutAnswers has a machine model for pre-training only.
type withoutAnswers struct{ *hooked }

func (b withoutAnswers) Estimate(ctx context.Context, p backend.Program, on backend.Machine) (backend.Estimate, error) {
	if p.Head.Task == bert.QuestionAnswering {
		return backend.Estimate{}, backend.ErrUnsupported
	}
	return b.hooked.Estimate(ctx, p, on)
}

// TestModelledClock: the clock goes on from phase to phase, and stops where a phase has no model.
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
				t.Errorf("step %d: %g modelled seconds in the phase and %g in the run, want %g and %g", i+1, s.ModelledPhaseSeconds, s.ModelledTotalSeconds, inPhase, total)
			}
		}
		for _, p := range o.result.Phases {
			if modelled := whole || p.Name != "squad"; modelled != (p.ModelledSeconds > 0) || modelled != (p.System == "bow-pod16") {
				t.Errorf("phase %s: %g modelled seconds on system %q", p.Name, p.ModelledSeconds, p.System)
			}
		}
	}
}
