package recipe

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func parsed(t *testing.T, text string, overrides ...string) *Recipe {
	t.Helper()
	r, err := Parse("r.yaml", []byte(text), overrides...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestBatchScaling: Goyal et al. train at 0.1 for 256 images, and at 3.2 for 8192; You et al.'s LAMB has 5e-4·√2
// for 1024 where it has 5e-4 for 512.
func TestBatchScaling(t *testing.T) {
	for _, test := range []struct {
		kind          string
		rate          string
		of, for_      string
		want, andThen float64
	}{
		{"linear", "0.1", "256", "8192", 3.2, 0.1},
		{"sqrt", "5e-4", "512", "1024", 5e-4 * math.Sqrt2, 5e-4 * 0.25},
	} {
		sets := []string{"phases.0.global_batch=" + test.for_,
			"phases.0.schedule={learning_rate: " + test.rate + ", batch_scaling: " + test.kind + ", reference_batch: " + test.of + "}"}
		p := parsed(t, small, sets...).Phases[0]
		if got := p.OptimizerNamed("").LearningRate; math.Abs(got-test.want) > 1e-15 {
			t.Errorf("%s: the rate is %g, want %g", test.kind, got, test.want)
		}
		// A recipe that is written out and read again is not scaled twice.
		again := parsed(t, string(written(t, parsed(t, small, sets...)))).Phases[0]
		if diff := cmp.Diff(p, again); diff != "" {
			t.Error(diff)
		}
		// A rate of the optimizer's own is one of the reference batch, too.
		p = parsed(t, small, append(sets, "phases.0.optimizer.learning_rate="+test.rate)...).Phases[0]
		if got := p.OptimizerNamed("").LearningRate; math.Abs(got-test.want) > 1e-15 {
			t.Errorf("%s: the optimizer's rate is %g, want %g", test.kind, got, test.want)
		}
	}
}

func written(t *testing.T, r *Recipe) []byte {
	t.Helper()
	var out strings.Builder
	if err := r.Write(&out); err != nil {
		t.Fatal(err)
	}
	return []byte(out.String())
}

// TestGradualSchedule holds what goes beyond the published kinds against values worked out by hand.
func TestGradualSchedule(t *testing.T) {
	for name, test := range map[string]struct {
		schedule    Schedule
		step, total int
		want        float64
	}{
		"gradual warm-up, first":            {Schedule{Kind: Linear, StartLearningRate: 0.1, WarmupSteps: 10, Power: 1}, 1, 100, 0.1},
		"gradual warm-up, half":             {Schedule{Kind: Constant, StartLearningRate: 0.1, WarmupSteps: 10, Power: 1}, 6, 100, 1.65},
		"gradual warm-up, over":             {Schedule{Kind: Constant, StartLearningRate: 0.1, WarmupSteps: 10, Power: 1}, 11, 100, 3.2},
		"decay every 32, first":             {Schedule{Kind: Linear, WarmupSteps: 20, Power: 1, DecayEvery: 32}, 21, 120, 3.2},
		"decay every 32, last of the first": {Schedule{Kind: Linear, WarmupSteps: 20, Power: 1, DecayEvery: 32}, 52, 120, 3.2},
		"decay every 32, second":            {Schedule{Kind: Linear, WarmupSteps: 20, Power: 1, DecayEvery: 32}, 53, 120, 3.2 * 0.68},
		"decay every 32, warm-up":           {Schedule{Kind: Linear, WarmupSteps: 20, Power: 1, DecayEvery: 32}, 11, 120, 1.6},
		"decay every 32, beyond":            {Schedule{Kind: Linear, WarmupSteps: 20, Power: 1, DecayEvery: 32}, 121, 120, 0},
		"a step ahead, first":               {Schedule{Kind: Linear, WarmupSteps: 20, Power: 1, StepsAhead: 1}, 1, 120, 0.16},
		"a step ahead, last":                {Schedule{Kind: Linear, WarmupSteps: 20, Power: 1, StepsAhead: 1}, 120, 120, 0},
	} {
		if got := test.schedule.With(3.2).LR(test.step, test.total); math.Abs(got-test.want) > 1e-14 {
			t.Errorf("%s: %g, want %g", name, got, test.want)
		}
	}
}

func TestOptionsByStep(t *testing.T) {
	// As in graphcore/examples v2.1.0, applications/tensorflow/bert/configs/pretrain_large_128_phase1_POD128.json:
	// {0: 128, 1500: 64, 3000: 128}.
	b := mustLoad(t, "graphcore/tensorflow/large-phase1-pod128").ForBackend("ipu", "", "phase1")
	for done, want := range map[int]string{0: "128", 1499: "128", 1500: "64", 2999: "64", 3000: "128", 7031: "128"} {
		if got := b.OptionsAt(done)["loss_scale"]; got != want {
			t.Errorf("after %d steps the loss scale is %s, want %s", done, got, want)
		}
	}
	if got := b.OptionsAt(1500)["pipeline"]; got != "3,7,7,7" {
		t.Errorf("after 1500 steps the pipeline is %q, want the options that did not change as well", got)
	}
	// Steps are in the order of numbers: 1000 comes after 200.
	b = parsed(t, small, `backends={x: {options_by_step: {1000: {a: late}, 200: {a: early}}}}`).ForBackend("x", "", "one")
	if got := b.OptionsAt(5000)["a"]; got != "late" {
		t.Errorf("after all changes the option is %s, want late", got)
	}
}

func TestFeatureErrors(t *testing.T) {
	for set, want := range map[string]string{
		"phases.0.schedule.batch_scaling=quadratic":                   `batch_scaling: is "quadratic", want one of linear, sqrt`,
		"phases.0.schedule.batch_scaling=linear":                      `phases.one.schedule.reference_batch: is 0, want 1 to`,
		"phases.0.schedule.reference_batch=256":                       `batch_scaling does not say`,
		"phases.0.schedule.start_learning_rate=1e-4":                  `there is no warm-up`,
		"phases.0.schedule.start_learning_rate=1":                     `want 0 to the highest rate`,
		"phases.0.schedule.decay_every=-1":                            `decay_every: is -1`,
		"phases.0.schedule.steps_ahead=-1":                            `steps_ahead: is -1`,
		"phases.0.carry_optimizer_state=true":                         `no phase before it has the optimizer adamw`,
		"backends={x: {options_by_step: {soon: {a: 1}}}}":             `backends.x.options_by_step: a key is "soon", want a number of steps`,
		"backends={x: {phases: {one: {options_by_step: {-1: {}}}}}}":  `backends.x.phases.one.options_by_step`,
		"backends={x: {phases: {one: {options_by_step: {007: {}}}}}}": `a key is "007"`,
	} {
		if _, err := Parse("r.yaml", []byte(small), set); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--set %s: error is %v, want in it %s", set, err, want)
		}
	}
}

// TestExtendsSeveral lays recipes over each other.
func TestExtendsSeveral(t *testing.T) {
	r := parsed(t, "extends: [google/base-phase1, google/base-phase2-512]\nphases: [{name: phase2, carry_optimizer_state: true}]\n")
	if len(r.Phases) != 2 || r.Phases[0].Length != 128 || r.Phases[1].Length != 512 || r.Phases[1].Steps != 100000 {
		t.Errorf("phases are %+v, want those of both", r.Phases)
	}
	if _, err := Parse("r.yaml", []byte("extends: [quick, quik]\n")); err == nil ||
		!strings.Contains(err.Error(), `r.yaml:1:18: extends: no recipe is named "quik", did you mean quick?`) {
		t.Errorf("error is %v, want the place of the second name", err)
	}
	packed := []string{"data.kind=prepared", "phases.0={steps: , epochs: 1, sequences_per_pack: 3}"}
	if _, err := Parse("r.yaml", []byte(small), packed...); err == nil ||
		!strings.Contains(err.Error(), "number of packs of an epoch is not known") {
		t.Errorf("error is %v, want that packs are not known before", err)
	}
	if _, err := Parse("r.yaml", []byte("extends: nvidia/large-phase3\n")); err == nil ||
		!strings.Contains(err.Error(), "did you mean nvidia/large-phase1?") {
		t.Errorf("error is %v, want the nearest name", err)
	}
}
