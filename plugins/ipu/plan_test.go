package ipu

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/recipe"
)

// TestRunsWhatIsPriced draws recipes with their options, runs a step of each and prices it: both have the same visits
// of the same IPUs in the same order, stashes, recomputation, and parameters on each IPU.
func TestRunsWhatIsPriced(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := drawProgram(r)
		e, err := New().Estimate(t.Context(), p, backend.Machine{System: "bow-pod64"})
		if err != nil {
			r.Fatal(err)
		}
		s, m, err := start(t, p)
		if err != nil {
			r.Fatal(err)
		}
		defer s.Close()
		step := backend.Step{Step: 1, Sequences: p.GlobalBatch()}
		if p.Head.Task == bert.Pretraining {
			step.MaskedWeight = float64(p.GlobalBatch() * p.MaxPredictions)
		}
		done, err := s.Step(t.Context(), step, drawnBatches(p))
		if err != nil {
			r.Fatal(err)
		}
		ran := done.Schedule
		if ran == nil { // one IPU without phases has no schedule to tell
			if len(e.Memory) != 1 || len(e.Pipeline.Stages) != 1 || e.Pipeline.Stages[0].Stash != 1 || e.Pipeline.Cycles != p.Accumulation {
				r.Fatalf("%v ran on one IPU and is priced as %+v", p.Options, e.Pipeline)
			}
			return
		}
		sameVisits(r, &p, ran, &e)
		sameParameters(r, &p, ran, &e, m)
	})
}

// drawProgram draws a recipe and makes its program.
func drawProgram(r *rapid.T) backend.Program {
	layers := rapid.IntRange(1, 4).Draw(r, "layers")
	options := map[string]string{
		"schedule":                rapid.SampledFrom([]string{"grouped", "interleaved", "sequential"}).Draw(r, "schedule"),
		"recomputation":           rapid.SampledFrom([]string{"none", "layer", "stage"}).Draw(r, "recomputation"),
		"embedding_serialization": fmt.Sprint(rapid.IntRange(1, 3).Draw(r, "parts")),
		"optimizer_state":         rapid.SampledFrom([]string{"auto", "onchip", "offchip"}).Draw(r, "state"),
	}
	if rapid.IntRange(0, 4).Draw(r, "phased") == 0 {
		options["execution"], options["layers_per_phase"] = "phased", fmt.Sprint(rapid.IntRange(1, 2).Draw(r, "perPhase"))
	} else {
		var list []string
		for left := 2 * layers; left > 0; {
			least := 1
			if len(list) == 0 {
				least = 0 // the embeddings alone
			}
			halves := rapid.IntRange(least, left).Draw(r, "halves")
			list = append(list, fmt.Sprint(float64(halves)/2))
			left -= halves
		}
		options["pipeline"] = strings.Join(list, ",")
	}
	task := rapid.SampledFrom([]string{
		"task: pretraining, max_predictions: 2", "task: classification, dataset: mrpc",
		"task: question_answering, question_answering: {doc_stride: 2, max_query_length: 2, max_answer_length: 2}",
	}).Draw(r, "task")
	var set []string
	for name, value := range options {
		set = append(set, fmt.Sprintf("backends.ipu.options.%s=%q", name, value))
	}
	slices.Sort(set)
	text := fmt.Sprintf(`
model:
  {num_hidden_layers: %d, hidden_size: 8, num_attention_heads: 2, intermediate_size: 16, max_position_embeddings: 8, vocab_size: 40}
phases:
- {name: one, %s, length: 8, micro_batch: 1, accumulation: %d, replicas: %d, steps: 1,
   schedule: {learning_rate: 1}, optimizer: {name: lamb}}
`, layers, task, 2*(2*layers+2)+1+rapid.IntRange(0, 2).Draw(r, "more"), rapid.IntRange(1, 2).Draw(r, "replicas"))
	of, err := recipe.Parse("drawn", []byte(text), set...)
	if err != nil {
		r.Fatal(err)
	}
	p, err := of.Program(&of.Phases[0], "ipu", "fp16.16", 40, 1)
	if err != nil {
		r.Fatal(err)
	}
	return p
}

// drawnBatches are micro-batches of one sequence each.
func drawnBatches(p backend.Program) iter.Seq2[*bert.Batch, error] {
	return func(yield func(*bert.Batch, error) bool) {
		for i := range p.GlobalBatch() {
			b := &bert.Batch{Size: 1, Sample: i, Length: 8, InputIDs: make([]int32, 8), TokenTypeIDs: make([]int32, 8)}
			b.AttentionMask = []int32{1, 1, 1, 1, 1, 1, 1, 0}
			switch p.Head.Task {
			case bert.Pretraining:
				b.Predictions, b.MaskedLMPositions, b.MaskedLMIDs = 2, []int32{1, 3}, []int32{7, 30}
				b.MaskedLMWeights, b.NextSentenceLabels = []float32{1, 1}, []int32{1}
			case bert.QuestionAnswering:
				b.StartPositions, b.EndPositions = []int32{2}, []int32{3}
			default:
				b.Labels = []int32{1}
			}
			if !yield(b, nil) {
				return
			}
		}
	}
}

// sameVisits holds the visits that ran, and the cycles in which they did, against those that are priced.
func sameVisits(r *rapid.T, p *backend.Program, ran *backend.Schedule, e *backend.Estimate) {
	priced := e.Pipeline.Stages
	if len(priced) != len(ran.Stages) {
		r.Fatalf("%v: %d visits ran, %d are priced", p.Options, len(ran.Stages), len(priced))
	}
	has := func(v int, name string) bool {
		return slices.ContainsFunc(priced[v].Parts, func(part backend.Phase) bool { return part.Name == name })
	}
	forwards := (len(ran.Stages) + 1) / 2
	for v, st := range ran.Stages {
		if st.Device != priced[v].Device || st.Stash != priced[v].Stash || st.Forward != has(v, "forward") || st.Backward != has(v, "backward") {
			r.Fatalf("%v: visit %d was %+v, priced is %+v", p.Options, v, st, priced[v])
		}
		// Whatever is recomputed is before a backward pass that does not follow at once.
		again := ran.Recompute != "none" && v >= forwards
		if ran.Name == "interleaved" {
			again = again && v > forwards // the last stage goes back at once there, too
		}
		if again != has(v, "recomputation") {
			r.Fatalf("%v: visit %d recomputes: %v, priced is %+v", p.Options, v, again, priced[v])
		}
		first := slices.IndexFunc(ran.Cycles, func(cycle []int) bool { return cycle[v] == 0 })
		at := priced[v].Offset
		if ran.Name == "interleaved" { // a cycle that is priced is two turns
			if at *= 2; priced[v].Start > 0 {
				at++
			}
		}
		if first != at {
			r.Fatalf("%v: visit %d of the first micro-batch was in cycle %d, priced is %d", p.Options, v, first, at)
		}
	}
	cycles := e.Pipeline.Cycles
	switch ran.Name {
	case "interleaved":
		cycles *= 2
	case "sequential":
		cycles *= len(priced)
	}
	if cycles != len(ran.Cycles) {
		r.Fatalf("%v: %d cycles ran, %d are priced", p.Options, len(ran.Cycles), cycles)
	}
}

// sameParameters holds the parameters on each IPU, by the units that it ran, against the weights that are priced there.
func sameParameters(r *rapid.T, p *backend.Program, ran *backend.Schedule, e *backend.Estimate, m backend.Memory) {
	if p.Options["execution"] == "phased" {
		return // weights lie in Streaming Memory, those of a phase at a time on the one IPU
	}
	const bytes = 2 // fp16.16
	on := map[string]int{}
	for _, st := range ran.Stages {
		for _, unit := range st.Units {
			on[unit] = st.Device
		}
	}
	want := make([]int64, len(e.Memory))
	for _, t := range m.Layout.Tensors() {
		want[on[p.Model.UnitName(p.Model.UnitOf(t.Name))]] += bytes * int64(t.Len())
	}
	for d, of := range e.Memory {
		if got := of.Parts[0]; got.Name != "weights" || got.Bytes != want[d] {
			r.Fatalf("%v: IPU %d has %d bytes of parameters, priced is %+v", p.Options, d, want[d], got)
		}
	}
}
