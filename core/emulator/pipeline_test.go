package emulator_test

import (
	"fmt"
	"math"
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
func trains(t *testing.T, task bert.Task, policy emulator.Policy, plan emulator.Plan, accumulation, replicas int) outcome {
	t.Helper()
	n := accumulation * replicas
	micro := 1
	if task == bert.MultipleChoice {
		micro = 2
	}
	b := newBench(t, deep, task, n*micro)
	p := backend.Program{Model: deep, Head: b.model.Head, Seed: 3, Length: b.limit.Length, MicroBatch: micro, Accumulation: accumulation, Replicas: replicas}
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
	step := backend.Step{Step: 2, Sequences: n * micro, MaskedWeight: b.batch.MaskedWeight()}
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
	if _, err := s.Evaluate(t.Context(), backend.Evaluation{Outputs: bert.OutputNames(deep, b.model.Head)}, batches, func(outputs backend.Outputs) error {
		for _, name := range bert.OutputNames(deep, b.model.Head) {
			o.outputs = append(o.outputs, outputs[name].Values...)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestPipelineIsTheSame: gradients, losses and outputs of any cut into stages, any schedule and any recomputation have the bits of the whole model on one
// device, in FP32 and with stochastic rounding of everything, for every task, over replicas, and on any number of CPUs.
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
	for _, c := range []struct {
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
	} {
		if testing.Short() && c.replicas == 1 && c.task != bert.QuestionAnswering {
			continue
		}
		kernels.CheckInputs = c.name != "fp32" // which has every input
		want := trains(t, c.task, c.policy, emulator.Plan{}, c.accumulation, c.replicas)
		for name, plan := range plans {
			runtime.GOMAXPROCS(1 + len(name)%3)
			got := trains(t, c.task, c.policy, plan, c.accumulation, c.replicas)
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

// TestSchedule holds what the stages did against what PopART's documentation draws: F forward stages make 2F - 1 stages, micro-batch m is in stage s in
// cycle m + s, there are G + P - 1 cycles, and the stashes of five stages hold 9, 7, 5, 3 and 1.
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
		!slices.Equal(first.Units, []string{"embeddings", "layer.0.attention", "layer.0.feed_forward"}) || !slices.Equal(last.Units, []string{"heads"}) {
		t.Errorf("the first stage is %+v, the middle one %+v", first, last)
	}

	// Interleaved: every stage alternates between the directions, and no stage ever has two micro-batches.
	plan.Schedule = emulator.Interleaved
	s = trains(t, bert.Pretraining, emulator.Policy{}, plan, G, 1).schedule
	if len(s.Stages) != 10 || len(s.Cycles) != 2*(G-1)+10 || s.Stages[0].Stash != 5 || s.Stages[4].Stash != 1 {
		t.Errorf("%d stages, %d cycles, stashes of %d and %d, want 10, %d, 5 and 1", len(s.Stages), len(s.Cycles), s.Stages[0].Stash, s.Stages[4].Stash, 2*(G-1)+10)
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
		t.Errorf("sequential: %d cycles, %d to fill, a stash of %d, want 27, 0 and 1", len(s.Cycles), s.Fill, s.Stages[0].Stash)
	}
	for c, cycle := range s.Cycles {
		if busy := 9 - len(slices.DeleteFunc(cycle, func(m int) bool { return m >= 0 })); busy != 1 {
			t.Errorf("sequential: %d stages work in cycle %d, want 1", busy, c)
		}
	}
}

// TestPlanErrors: an accumulation that would leave stages without work is refused, with the smallest that is not, and so are plans with gaps.
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
		"gap":         {emulator.Plan{Stages: []emulator.Stage{{First: 0, End: 3}, {First: 4, End: 10}}}, 9, "want them to begin at 3"},
		"short":       {emulator.Plan{Stages: []emulator.Stage{{First: 0, End: 9}}}, 9, "the stages have 9 units, the model has 10"},
	} {
		b := newBench(t, deep, bert.Classification, 1)
		p := backend.Program{Model: deep, Head: b.model.Head, Length: 20, MicroBatch: 1, Accumulation: c.accumulation, Replicas: 1}
		m := backend.Memory{Layout: b.model.Layout, Params: b.params, Grads: b.grads}
		if _, err := emulator.NewTrainer(p, m, emulator.Policy{}, c.plan); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, c.want)
		}
	}
}

// TestPacking: the losses and gradients of sequences that are packed into rows are those of rows of their own, but for the order of FP32 sums.
func TestPacking(t *testing.T) {
	c := small
	c.HiddenDropoutProb, c.AttentionProbsDropoutProb = 0, 0
	const rows, perRow = 2, 3
	lengths := [rows][]int{{9, 4, 5}, {11, 7}} // of the sequences in rows of 20
	loose := newBench(t, c, bert.Pretraining, 5)
	b := loose.batch
	b.AttentionMask = make([]int32, len(b.InputIDs))
	packed := &bert.Batch{Size: rows, Length: 20, Predictions: 9, Sequences: perRow,
		InputIDs: make([]int32, 40), TokenTypeIDs: make([]int32, 40), AttentionMask: make([]int32, 40), PositionIDs: make([]int32, 40),
		MaskedLMPositions: make([]int32, rows*9), MaskedLMIDs: make([]int32, rows*9), MaskedLMWeights: make([]float32, rows*9),
		FirstPositions: make([]int32, rows*perRow), NextSentenceLabels: make([]int32, rows*perRow), NextSentenceWeights: make([]float32, rows*perRow)}
	i := 0 // sequence
	for row, ls := range lengths {
		at := 0
		for q, length := range ls {
			for j := range length {
				b.AttentionMask[i*20+j] = 1
				to := row*20 + at + j
				packed.InputIDs[to], packed.TokenTypeIDs[to] = b.InputIDs[i*20+j], b.TokenTypeIDs[i*20+j]
				packed.AttentionMask[to], packed.PositionIDs[to] = int32(q+1), int32(j)
			}
			for k := range 3 {
				b.MaskedLMPositions[i*3+k] %= int32(length)
				to := row*9 + q*3 + k
				packed.MaskedLMPositions[to] = int32(at) + b.MaskedLMPositions[i*3+k]
				packed.MaskedLMIDs[to], packed.MaskedLMWeights[to] = b.MaskedLMIDs[i*3+k], b.MaskedLMWeights[i*3+k]
			}
			packed.FirstPositions[row*perRow+q] = int32(at)
			packed.NextSentenceLabels[row*perRow+q], packed.NextSentenceWeights[row*perRow+q] = b.NextSentenceLabels[i], 1
			at += length
			i++
		}
	}
	d := emulator.New(emulator.Policy{})
	want := loose.run(t, d, b)
	tight := newBench(t, c, bert.Pretraining, 1)
	var err error
	if tight.network, err = bert.NewNetwork(tight.model, tight.params, tight.grads, bert.Shape{Size: rows, Length: 20, Predictions: 9, Sequences: perRow}); err != nil {
		t.Fatal(err)
	}
	tight.objective = bert.Objective{Scale: 1, Sequences: packed.NextSentenceWeight(), MaskedWeight: packed.MaskedWeight()}
	got := tight.run(t, d, packed)
	if packed.NextSentenceWeight() != 5 || got.NextSentence.Weight != 5 || got.MaskedLM.Weight != want.MaskedLM.Weight || got.MaskedLM.Correct != want.MaskedLM.Correct {
		t.Errorf("packed losses are %+v, want the weights of %+v", got, want)
	}
	for name, l := range map[string][2]float64{"masked LM": {got.MaskedLM.Mean(), want.MaskedLM.Mean()}, "next sentence": {got.NextSentence.Mean(), want.NextSentence.Mean()}} {
		if math.Abs(l[0]/l[1]-1) > 1e-6 {
			t.Errorf("%s loss %.9g, unpacked %.9g", name, l[0], l[1])
		}
	}
	if e := relative(tight.grads, loose.grads); e > 2e-6 {
		t.Errorf("gradients of packed rows differ by %.2g", e)
	}

	// In a program, on one device and on two.
	var first []float32
	for _, plan := range []emulator.Plan{{}, cut(bert.RecomputeStage, emulator.Sequential, []int{0, 1}, 3, 6)} {
		p := backend.Program{Model: c, Head: tight.model.Head, Seed: 3, Length: 20, MaxPredictions: 9, SequencesPerPack: perRow, MicroBatch: 1, Accumulation: rows, Replicas: 1}
		s, err := emulator.NewTrainer(p, backend.Memory{Layout: tight.model.Layout, Params: tight.params, Grads: tight.grads}, half(true), plan)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		batches := func(yield func(*bert.Batch, error) bool) {
			_ = yield(packed.Slice(0, 1), nil) && yield(packed.Slice(1, 2), nil)
		}
		step := backend.Step{Step: 1, Sequences: rows, MaskedWeight: packed.MaskedWeight(), NextSentenceWeight: packed.NextSentenceWeight()}
		if _, err := s.Step(t.Context(), step, batches, 64); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = slices.Clone(tight.grads)
		} else if !slices.Equal(tight.grads, first) {
			t.Error("gradients of packed rows on two devices differ from those on one")
		}
		step.NextSentenceWeight--
		if _, err := s.Step(t.Context(), step, batches, 64); err == nil || !strings.Contains(err.Error(), "next sentence weight 4 was announced") {
			t.Errorf("a wrong weight: %v, want an error", err)
		}
	}
	for name, spoil := range map[string]func(b *bert.Batch){
		"position_ids has 0 values":              func(b *bert.Batch) { b.PositionIDs = nil },
		"first_positions[1] is 20":               func(b *bert.Batch) { b.FirstPositions = slices.Clone(b.FirstPositions); b.FirstPositions[1] = 20 },
		"attention_mask[0] is 4":                 func(b *bert.Batch) { b.AttentionMask = slices.Clone(b.AttentionMask); b.AttentionMask[0] = 4 },
		"next_sentence_weights has 0":            func(b *bert.Batch) { b.NextSentenceWeights = nil },
		"want them in packed rows alone":         func(b *bert.Batch) { b.Sequences = 0; b.AttentionMask = make([]int32, 40) },
		"next_sentence_labels has 2 values":      func(b *bert.Batch) { b.NextSentenceLabels = b.NextSentenceLabels[:2] },
		fmt.Sprintf("packs of %d sequences", 21): func(b *bert.Batch) { b.Sequences = 21 },
	} {
		bad := *packed
		spoil(&bad)
		if err := bad.Validate(c, bert.Head{Task: bert.Pretraining}, true); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want an error with %q", err, name)
		}
	}
}

// TestSteadyAllocation: once buffers are there, a step allocates no more the longer it goes on, and no more for a larger model, so no tensors.
func TestSteadyAllocation(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector allocates, too")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // each further worker allocates its scratch memory when it is first needed
	wide := small
	wide.HiddenSize, wide.IntermediateSize, wide.VocabSize = 192, 384, 2000
	perStep := func(c bert.Config, policy emulator.Policy) (early, late uint64) {
		b := newBench(t, c, bert.Pretraining, 4)
		p := backend.Program{Model: c, Head: b.model.Head, Seed: 3, Length: b.limit.Length, MicroBatch: 2, Accumulation: 2, Replicas: 1, MaxPredictions: b.limit.Predictions}
		s, err := emulator.NewTrainer(p, backend.Memory{Layout: b.model.Layout, Params: b.params, Grads: b.grads}, policy, emulator.Plan{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		done := 0
		steps := func(n int) uint64 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range n {
				done++
				if _, err := s.Step(t.Context(), backend.Step{Step: done, Sequences: 4, MaskedWeight: b.batch.MaskedWeight()}, func(yield func(*bert.Batch, error) bool) {
					_ = yield(b.batch.Slice(0, 2), nil) && yield(b.batch.Slice(2, 4), nil)
				}, 64); err != nil {
					t.Fatal(err)
				}
			}
			runtime.ReadMemStats(&after)
			return (after.TotalAlloc - before.TotalAlloc) / uint64(n)
		}
		steps(3)
		return steps(6), steps(6)
	}
	for name, policy := range map[string]emulator.Policy{"fp32": {}, "fp16": half(true)} {
		early, late := perStep(small, policy)
		large, _ := perStep(wide, policy)
		const slack = 2 << 10 // of the runtime; the smallest tensor of the larger model, the tokens that heads read, has 6 KB
		if late > early+slack || large > early+slack {
			t.Errorf("%s: a step allocates %d bytes, later %d, in a large model %d", name, early, late, large)
		}
	}
}
