package emulator

import "harness.invalid/core/bert"

// pipeline is a plan bound to memory: the stages of one replica. Replicas use it one after the other.
type pipeline struct {
	plan    Plan
	table   timetable
	stages  []*stage
	devices [][]int // visits by device, in the order in which the device makes them in a cycle
	// words are gradients of the tied word embeddings. Where decoder and embeddings are in different stages, each
	// micro-batch between the two backward passes has one. A machine adds both to one accumulator; here the sum keeps the
	// order that it has without a pipeline.
	words [][]float32
}

// stage is a row of units with what it holds of the micro-batches in the pipeline.
type stage struct {
	Stage
	slots []*slot // micro-batch m has slot m modulo their number
	spans []span  // of the gradients
	// out holds the hidden states that leave the stage in this cycle, since the backward pass of another micro-batch may
	// recompute its own in their place.
	out []float32
}

// slot is a stage's stash for one micro-batch.
type slot struct {
	network           *bert.Network
	forward, backward []bert.Work
	pass              bert.Pass
}

// span is a range of a section.
type span struct{ begin, end int }

// newPipeline allocates the stages of a complete plan; grads is the gradient of a micro-batch.
func newPipeline(
	m *bert.Model, plan Plan, params, grads []float32, limit bert.Shape, accumulation int,
) (*pipeline, error) {
	p := &pipeline{plan: plan, table: plan.timetable(), devices: make([][]int, plan.Devices())}
	for i, s := range plan.Stages {
		st := &stage{Stage: s, spans: spansOf(m, s)}
		part := bert.Part{First: s.First, End: s.End, Recompute: plan.recompute(i), Workspace: &bert.Workspace{}}
		for range min(p.table.stash(i), accumulation) {
			n, err := bert.NewPart(m, params, grads, limit, part)
			if err != nil {
				return nil, err
			}
			st.slots = append(st.slots, &slot{network: n, forward: n.ForwardWork(), backward: n.BackwardWork()})
		}
		if i+1 < len(plan.Stages) {
			st.out = make([]float32, limit.Size*limit.Length*m.Config.HiddenSize)
		}
		p.stages = append(p.stages, st)
	}
	for v := range p.table.visits {
		stage, _, _ := p.table.work(v)
		d := plan.Stages[stage].Device
		p.devices[d] = append(p.devices[d], v)
	}
	if m.Head.Task == bert.Pretraining && len(p.stages) > 1 {
		words, _ := m.Layout.Lookup("bert.embeddings.word_embeddings.weight")
		p.words = append(p.words, words.Of(grads))
		decoder := p.table.visits - p.table.forward // the first visit of the backward pass
		for range min(p.table.between(decoder, p.table.visits-1), accumulation) - 1 {
			p.words = append(p.words, make([]float32, words.Len()))
		}
	}
	return p, nil
}

// spansOf are the gradients of a stage: neighbours joined, each up to where the next tensor may begin.
func spansOf(m *bert.Model, s Stage) []span {
	var spans []span
	tensors := m.Layout.Tensors()
	for i, t := range tensors {
		if u := m.Config.UnitOf(t.Name); u < s.First || u >= s.End {
			continue
		}
		end := m.Layout.Len()
		if i+1 < len(tensors) {
			end = tensors[i+1].Offset
		}
		if n := len(spans); n > 0 && spans[n-1].end == t.Offset {
			spans[n-1].end = end
		} else {
			spans = append(spans, span{t.Offset, end})
		}
	}
	return spans
}
