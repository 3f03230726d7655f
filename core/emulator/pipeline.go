package emulator

import (
	"context"
	"slices"
	"sync"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
)

// pipeline is a plan bound to memory. It has the stages of one replica; replicas use it one after the other.
type pipeline struct {
	plan    Plan
	table   timetable
	stages  []*stage // forward stages
	devices [][]int  // stages of both directions by device, in the order in which the device runs them in a cycle
	// words are the gradients of the tied word embeddings for the micro-batches between the decoder's backward pass and that of the embeddings, where
	// these are in different stages. On the machine both add to one accumulator; here the sum has the order that it has without a pipeline.
	words [][]float32
}

// stage is a row of units with what it holds of the micro-batches in the pipeline.
type stage struct {
	Stage
	slots []*slot   // micro-batch m has slot m modulo their number
	spans []span    // of the gradients
	out   []float32 // hidden states that leave the stage in this cycle; the backward pass of another micro-batch may compute those again in their place
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
func newPipeline(m *bert.Model, plan Plan, params, grads []float32, limit bert.Shape, accumulation int) (*pipeline, error) {
	p := &pipeline{plan: plan, table: plan.timetable(), devices: make([][]int, plan.Devices())}
	for i, s := range plan.Stages {
		st := &stage{Stage: s, spans: spansOf(m, s)}
		part := bert.Part{First: s.First, End: s.End, Recompute: plan.Recompute, Workspace: &bert.Workspace{}}
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
	for s := range p.table.stages {
		part, _, _ := p.table.work(s)
		d := plan.Stages[part].Device
		p.devices[d] = append(p.devices[d], s)
	}
	if m.Head.Task == bert.Pretraining && len(p.stages) > 1 {
		words, _ := m.Layout.Lookup("bert.embeddings.word_embeddings.weight")
		p.words = append(p.words, words.Of(grads))
		decoder := p.table.stages - p.table.forward // the first stage of the backward pass
		for range min(p.table.between(decoder, p.table.stages-1), accumulation) - 1 {
			p.words = append(p.words, make([]float32, words.Len()))
		}
	}
	return p, nil
}

// spansOf are the gradients of a stage, neighbours together, each up to where the next tensor may begin.
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

// replica is what one replica does in a step.
type replica struct {
	*pipeline
	device    *Device
	objective *bert.Objective
	pass      bert.Pass      // without a micro-batch
	count     int            // micro-batches
	first     int            // how many were added to sum before
	grads     []float32      // of a micro-batch
	sum       []float32      // nil: there is one micro-batch, and grads are the sum
	clock     *backend.Clock // of a single device; nil: devices work at the same time

	tracing *tracing // of the first micro-batch; nil: nobody watches

	record  bool // what was done, in log
	taken   int
	done    []int         // by stage: the micro-batch that it had in the cycle, -1 for none; written by who did the work
	batches []*bert.Batch // in the pipeline: micro-batch m has place m modulo their number
	losses  *bert.Losses  // of the step
	latest  bert.Losses   // of the micro-batch that the heads had in this cycle
	log     [][]int       // done of each cycle
}

// take runs the cycles from the one in which a micro-batch enters to the one before the next may, or to the end after the last one.
func (r *replica) take(ctx context.Context, b *bert.Batch) error {
	if r.batches == nil {
		r.batches, r.done = make([]*bert.Batch, r.table.stash(0)), make([]int, r.table.stages)
	}
	m := r.taken
	r.batches[m%len(r.batches)] = b
	r.taken++
	end := r.table.period * r.taken
	if r.taken == r.count {
		end = r.table.cycles(r.count)
	}
	for c := r.table.period * m; c < end; c++ {
		if err := r.cycle(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// cycle lets every device do its stages' work, all at the same time, and then exchanges what goes from stage to stage.
func (r *replica) cycle(ctx context.Context, c int) error {
	for s := range r.done {
		r.done[s] = -1
	}
	r.latest = bert.Losses{}
	work := func(device int) error {
		for _, s := range r.devices[device] {
			if m, busy := r.table.at(c, s, r.count); busy {
				if err := r.do(ctx, s, m); err != nil {
					return err
				}
				r.done[s] = m
			}
		}
		return nil
	}
	if err := together(len(r.devices), work); err != nil {
		return err
	}
	r.losses.Add(r.latest)
	r.exchange()
	if r.record {
		r.log = append(r.log, slices.Clone(r.done))
	}
	return nil
}

// together runs work for every device, each on a goroutine of its own, and returns the first device's error. A panic is raised again in the caller.
func together(devices int, work func(device int) error) error {
	if devices == 1 {
		return work(0)
	}
	errs, panics := make([]error, devices), make([]any, devices)
	var all sync.WaitGroup
	for d := range devices {
		all.Go(func() {
			defer func() { panics[d] = recover() }()
			errs[d] = work(d)
		})
	}
	all.Wait()
	for d := range devices {
		if panics[d] != nil {
			panic(panics[d])
		}
		if errs[d] != nil {
			return errs[d]
		}
	}
	return nil
}

// do is the work of a stage on a micro-batch.
func (r *replica) do(ctx context.Context, s, m int) error {
	part, forward, backward := r.table.work(s)
	st := r.stages[part]
	slot := st.slots[m%len(st.slots)]
	device := bert.Device(r.device)
	if r.tracing != nil && r.first+m == 0 {
		device = r.tracing.device
	}
	if forward {
		slot.pass = r.pass
		if err := slot.network.Load(&slot.pass, r.batches[m%len(r.batches)], true); err != nil {
			return err
		}
		losses, err := slot.run(ctx, device, r.objective, slot.forward)
		if err != nil {
			return err
		}
		if part == len(r.stages)-1 {
			r.latest = losses
		} else {
			copy(st.out, slot.network.Hidden())
		}
		r.lap("forward")
	}
	if backward {
		if r.words != nil {
			slot.network.TieWords(r.words[m%len(r.words)])
		}
		if _, err := slot.run(ctx, device, r.objective, slot.backward); err != nil {
			return err
		}
		r.lap("backward")
		r.gradients(part, m, func(grad []float32, begin int) {
			r.device.count(grad)
			if r.sum != nil {
				r.device.accumulate(&slot.pass, r.sum[begin:begin+len(grad)], grad, begin, r.first+m)
			}
		})
		if r.sum != nil {
			r.lap("accumulation")
		}
	}
	return nil
}

// run runs units; a cancelled context ends it between two of them.
func (s *slot) run(ctx context.Context, d bert.Device, o *bert.Objective, work []bert.Work) (losses bert.Losses, err error) {
	for _, w := range work {
		if err := ctx.Err(); err != nil {
			return losses, err
		}
		losses = s.network.Run(d, &s.pass, o, w)
	}
	return losses, ctx.Err()
}

func (r *replica) lap(name string) {
	if r.clock != nil {
		r.clock.Lap(name)
	}
}

// gradients calls body for the pieces of a stage's gradient of micro-batch m, with the element at which each begins.
func (r *replica) gradients(part, m int, body func(grad []float32, begin int)) {
	st := r.stages[part]
	for _, s := range st.spans {
		if st.First == 0 && s.begin == 0 && r.words != nil {
			// The layout begins with the word embeddings.
			words := r.words[m%len(r.words)]
			body(words, 0)
			s.begin = len(words)
		}
		body(r.grads[s.begin:s.end], s.begin)
	}
}

// exchange hands over, after a cycle, what the stages did in it: hidden states go up, their gradients go down.
func (r *replica) exchange() {
	for s, m := range r.done {
		part, forward, _ := r.table.work(s)
		if m >= 0 && forward && part+1 < len(r.stages) {
			to := r.stages[part+1]
			copy(to.slots[m%len(to.slots)].network.Input(), r.stages[part].out)
		}
	}
	// From the last stage of the backward pass to the first: a stage has one buffer for all micro-batches, and it is read before it is written.
	for s := len(r.done) - 1; s >= 0; s-- {
		part, _, backward := r.table.work(s)
		if m := r.done[s]; m >= 0 && backward && part > 0 {
			from, to := r.stages[part], r.stages[part-1]
			copy(to.slots[m%len(to.slots)].network.HiddenGrad(), from.slots[m%len(from.slots)].network.HiddenGrad())
		}
	}
}

// schedule is what the replica did, as it did it.
func (r *replica) schedule(c *bert.Config) *backend.Schedule {
	fill := r.table.period * (r.table.stash(0) - 1)
	s := &backend.Schedule{Name: string(r.plan.Schedule), Recompute: string(r.plan.Recompute), Fill: fill, Drain: fill, Cycles: r.log}
	for i := range r.table.stages {
		part, forward, backward := r.table.work(i)
		st := r.stages[part]
		of := backend.ScheduledStage{Device: st.Device, Forward: forward, Backward: backward, Stash: len(st.slots)}
		for u := st.First; u < st.End; u++ {
			of.Units = append(of.Units, c.UnitName(u))
		}
		s.Stages = append(s.Stages, of)
	}
	return s
}
