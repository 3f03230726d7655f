package train_test

import (
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/harness/train"
)

// TestTurns: jobs take turns, every other batch in reverse, and train as a run does; the first two steps are not timed.
func TestTurns(t *testing.T) {
	e := load(t)
	var order []string
	losses := map[string][]float64{}
	watched := func(name, spec string) train.Job {
		j := e.job(spec, t.TempDir())
		j.Plugins.(plugins).backend.(*hooked).step = func(_ backend.Step, _ backend.Memory, r *backend.StepResult) error {
			order, losses[name] = append(order, name), append(losses[name], r.Losses.MaskedLM.Sum)
			return nil
		}
		return j
	}
	var timed [][2]int
	turns := train.Turns{Jobs: []train.Job{watched("a", "ipu"), watched("b", "gpu-ref")}, Steps: 3,
		Observe: func(p *train.TimedPhase) error {
			timed = append(timed, [2]int{len(p.Seconds[0]), len(p.Seconds[1])})
			return nil
		}}
	if err := turns.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(order[:6], " "); got != "a b b a a b" {
		t.Errorf("the order of steps is %s, want a b b a a b", got)
	}
	if want := [][2]int{{3, 3}, {3, 3}, {3, 3}}; !slices.Equal(timed, want) {
		t.Errorf("steps timed are %v, want %v", timed, want)
	}
	for name, spec := range map[string]string{"a": "ipu", "b": "gpu-ref"} {
		e.run(watched("run of "+name, spec))
		if got, want := losses[name][:5], losses["run of "+name][:5]; !slices.Equal(got, want) {
			t.Errorf("%s: losses of the first phase are %v, those of a run %v", spec, got, want)
		}
	}
}
