package emulator_test

import (
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/emulator"
	"harness.invalid/core/kernels"
)

// deep has layers enough for pipelines.
var deep = func() bert.Config {
	c := small
	c.NumHiddenLayers, c.HiddenSize, c.IntermediateSize = 4, 12, 20
	return c
}()

// cut is a plan with a stage for each row of units.
func cut(recompute bert.Recompute, schedule emulator.Schedule, devices []int, ends ...int) emulator.Plan {
	p := emulator.Plan{Schedule: schedule, Recompute: recompute}
	first := 0
	for i, end := range ends {
		p.Stages = append(p.Stages, emulator.Stage{First: first, End: end, Device: devices[i]})
		first = end
	}
	return p
}

// outcome is what a step and an evaluation leave.
type outcome struct {
	grads    []float32
	losses   bert.Losses
	schedule *backend.Schedule
	outputs  []float32
}

// trains runs a step of accumulation x replicas micro-batches of one sequence each.
func trains(
	t *testing.T, task bert.Task, policy emulator.Policy, plan emulator.Plan, accumulation, replicas int,
) outcome {
	t.Helper()
	n := accumulation * replicas
	micro := 1
	if task == bert.MultipleChoice {
		micro = 2
	}
	b := newBench(t, deep, task, n*micro)
	p := backend.Program{
		Model: deep, Head: b.model.Head, Seed: 3, Length: b.limit.Length,
		MicroBatch: micro, Accumulation: accumulation, Replicas: replicas,
	}
	if task == bert.Pretraining {
		p.MaxPredictions = b.limit.Predictions
	}
	s, err := emulator.NewTrainer(p, backend.Memory{Layout: b.model.Layout, Params: b.params, Grads: b.grads}, policy, plan)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	batches := func(yield func(*bert.Batch, error) bool) {
		for i := range n {
			if !yield(b.batch.Slice(i*micro, (i+1)*micro), nil) {
				return
			}
		}
	}
	step := backend.Step{Step: 2, Sequences: n * micro, MaskedWeight: b.batch.MaskedWeight(), LabelWeight: b.batch.LabelWeight()}
	r, err := s.Step(t.Context(), step, batches, 64)
	if err != nil {
		t.Fatal(err)
	}
	o := outcome{grads: slices.Clone(b.grads), losses: r.Losses, schedule: r.Schedule}
	// A second step finds the stages as the first one left them.
	if r, err = s.Step(t.Context(), step, batches, 64); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(b.grads, o.grads) || r.Schedule != nil {
		t.Error("a second step on the same batch has other gradients than the first, or tells its schedule again")
	}
	names := bert.OutputNames(deep, b.model.Head)
	collect := func(outputs backend.Outputs) error {
		for _, name := range names {
			o.outputs = append(o.outputs, outputs[name].Values...)
		}
		return nil
	}
	if _, err := s.Evaluate(t.Context(), backend.Evaluation{Outputs: names}, batches, collect); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestPipelineIsTheSame: gradients, losses and outputs of any cut into stages, any schedule and any recomputation
// have the bits of the whole model on one device, in FP32 and with stochastic rounding everywhere, for every task,
// over replicas, and on any number of CPUs.
func TestPipelineIsTheSame(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	defer func() { kernels.CheckInputs = true }()
	none, layer, stage := bert.RecomputeNone, bert.RecomputeLayer, bert.RecomputeStage
	plans := map[string]emulator.Plan{
		"one device, layers recomputed":         {Recompute: layer},
		"one device, all recomputed":            {Recompute: stage},
		"as published":                          cut(none, emulator.Grouped, []int{0, 1, 2, 0}, 3, 7, 9, 10),
		"as published, layers recomputed":       cut(layer, emulator.Grouped, []int{0, 1, 2, 0}, 3, 7, 9, 10),
		"as published, stages recomputed":       cut(stage, emulator.Grouped, []int{0, 1, 2, 0}, 3, 7, 9, 10),
		"half layers":                           cut(layer, emulator.Grouped, []int{0, 1, 2}, 2, 6, 10),
		"half layers, stages recomputed":        cut(stage, emulator.Grouped, []int{0, 1, 2}, 4, 8, 10),
		"interleaved":                           cut(none, emulator.Interleaved, []int{0, 1, 2, 0}, 1, 5, 9, 10),
		"interleaved, stages recomputed":        cut(stage, emulator.Interleaved, []int{0, 1, 2, 3}, 3, 5, 7, 10),
		"sequential":                            cut(none, emulator.Sequential, []int{0, 1, 2, 0}, 1, 5, 9, 10),
		"sequential, layers recomputed":         cut(layer, emulator.Sequential, []int{0, 0, 0}, 3, 5, 10),
		"a stage for each unit of three layers": cut(none, emulator.Interleaved, []int{0, 1, 2, 3, 4, 5, 6}, 1, 2, 3, 4, 5, 6, 10),
	}
	running := half(true)
	running.RunningMean = true
	for i, c := range []struct {
		task         bert.Task
		policy       emulator.Policy
		name         string
		accumulation int
		replicas     int
	}{
		{bert.Pretraining, emulator.Policy{}, "fp32", 8, 1},
		{bert.Pretraining, half(true), "fp16", 7, 2},
		{bert.QuestionAnswering, running, "fp16, running mean", 8, 1},
		{bert.MultipleChoice, half(true), "fp16", 7, 1},
		{bert.TokenClassification, half(true), "fp16", 7, 1},
	} {
		if testing.Short() && c.replicas == 1 && c.task != bert.QuestionAnswering {
			continue
		}
		kernels.CheckInputs = c.name != "fp32" // which has every input
		want := trains(t, c.task, c.policy, emulator.Plan{}, c.accumulation, c.replicas)
		for j, name := range slices.Sorted(maps.Keys(plans)) {
			if c.replicas == 1 && j%2 != i%2 {
				continue // every plan with two replicas, and with half of the other cases
			}
			runtime.GOMAXPROCS(1 + len(name)%3)
			got := trains(t, c.task, c.policy, plans[name], c.accumulation, c.replicas)
			switch {
			case !slices.Equal(got.grads, want.grads):
				t.Errorf("%s in %s: %s has other gradients", c.task, c.name, name)
			case got.losses != want.losses:
				t.Errorf("%s in %s: %s has losses %+v, want %+v", c.task, c.name, name, got.losses, want.losses)
			case !slices.Equal(got.outputs, want.outputs):
				t.Errorf("%s in %s: %s has other outputs", c.task, c.name, name)
			}
		}
	}
}

// TestSchedule holds what the stages did against what PopART's documentation draws: F stages make P = 2F - 1 visits,
// micro-batch m makes visit v in cycle m + v, there are G + P - 1 cycles, and five stages hold 9, 7, 5, 3 and 1
// micro-batches.
func TestSchedule(t *testing.T) {
	const G = 12
	plan := cut(bert.RecomputeStage, emulator.Grouped, []int{0, 1, 2, 3, 0}, 3, 5, 7, 9, 10)
	s := trains(t, bert.Pretraining, emulator.Policy{}, plan, G, 1).schedule
	if s == nil || len(s.Stages) != 9 || len(s.Cycles) != G+9-1 || s.Fill != 8 || s.Drain != 8 {
		t.Fatalf("schedule is %+v, want 9 stages, %d cycles, 8 of them to fill and 8 to drain", s, G+8)
	}
	for c, cycle := range s.Cycles {
		for stage, m := range cycle {
			want := c - stage
			if want < 0 || want >= G {
				want = -1
			}
			if m != want {
				t.Errorf("cycle %d: stage %d had micro-batch %d, want %d", c, stage, m, want)
			}
		}
	}
	var devices, stash []int
	for _, st := range s.Stages {
		devices, stash = append(devices, st.Device), append(stash, st.Stash)
	}
	if want := []int{0, 1, 2, 3, 0, 3, 2, 1, 0}; !slices.Equal(devices, want) {
		t.Errorf("stages are on devices %v, want %v", devices, want)
	}
	if want := []int{9, 7, 5, 3, 1, 3, 5, 7, 9}; !slices.Equal(stash, want) {
		t.Errorf("stashes hold %v, want %v", stash, want)
	}
	if first, last := s.Stages[0], s.Stages[4]; !first.Forward || first.Backward || !last.Forward || !last.Backward ||
		!slices.Equal(first.Units, []string{"embeddings", "layer.0.attention", "layer.0.feed_forward"}) ||
		!slices.Equal(last.Units, []string{"heads"}) {
		t.Errorf("the first stage is %+v, the middle one %+v", first, last)
	}

	// Interleaved: every stage alternates between the directions, and no stage ever has two micro-batches.
	plan.Schedule = emulator.Interleaved
	s = trains(t, bert.Pretraining, emulator.Policy{}, plan, G, 1).schedule
	if len(s.Stages) != 10 || len(s.Cycles) != 2*(G-1)+10 || s.Stages[0].Stash != 5 || s.Stages[4].Stash != 1 {
		t.Errorf("%d stages, %d cycles, stashes of %d and %d, want 10, %d, 5 and 1",
			len(s.Stages), len(s.Cycles), s.Stages[0].Stash, s.Stages[4].Stash, 2*(G-1)+10)
	}
	for c, cycle := range s.Cycles {
		for f := range 5 {
			if cycle[f] >= 0 && cycle[9-f] >= 0 {
				t.Errorf("cycle %d: the units of stage %d work forward and backward", c, f)
			}
		}
	}

	plan.Schedule = emulator.Sequential
	s = trains(t, bert.Pretraining, emulator.Policy{}, plan, 3, 1).schedule
	if len(s.Cycles) != 27 || s.Fill != 0 || s.Stages[0].Stash != 1 {
		t.Errorf("sequential: %d cycles, %d to fill, a stash of %d, want 27, 0 and 1",
			len(s.Cycles), s.Fill, s.Stages[0].Stash)
	}
	for c, cycle := range s.Cycles {
		if busy := 9 - len(slices.DeleteFunc(cycle, func(m int) bool { return m >= 0 })); busy != 1 {
			t.Errorf("sequential: %d stages work in cycle %d, want 1", busy, c)
		}
	}
}

// TestPlanErrors: an accumulation that would leave stages without work is refused, with the smallest that would
// not, and so are plans with gaps.
func TestPlanErrors(t *testing.T) {
	five := func(s emulator.Schedule) emulator.Plan {
		return cut(bert.RecomputeNone, s, []int{0, 1, 2, 3, 0}, 3, 5, 7, 9, 10)
	}
	for name, c := range map[string]struct {
		plan         emulator.Plan
		accumulation int
		want         string
	}{
		"grouped":     {five(emulator.Grouped), 8, "the smallest accumulation is 9"},
		"interleaved": {five(emulator.Interleaved), 4, "the smallest accumulation is 5"},
		"schedule":    {five("round robin"), 9, "want one of grouped, interleaved, sequential"},
		"recompute":   {emulator.Plan{Recompute: "some"}, 1, "want one of none, layer, stage"},
		"gap": {
			emulator.Plan{Stages: []emulator.Stage{{First: 0, End: 3}, {First: 4, End: 10}}}, 9, "want them to begin at 3",
		},
		"short": {
			emulator.Plan{Stages: []emulator.Stage{{First: 0, End: 9}}}, 9, "the stages have 9 units, the model has 10",
		},
	} {
		b := newBench(t, deep, bert.Classification, 1)
		p := backend.Program{
			Model: deep, Head: b.model.Head, Length: 20, MicroBatch: 1, Accumulation: c.accumulation, Replicas: 1,
		}
		m := backend.Memory{Layout: b.model.Layout, Params: b.params, Grads: b.grads}
		if _, err := emulator.NewTrainer(p, m, emulator.Policy{}, c.plan); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, c.want)
		}
	}
}
