package emulator

import (
	"context"
	"slices"
	"sync"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
)

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
	done    []int         // by visit: the micro-batch that made it in the cycle, -1 for none; written by who did the work
	batches []*bert.Batch // in the pipeline: micro-batch m has place m modulo their number
	losses  *bert.Losses  // of the step
	latest  bert.Losses   // of the micro-batch that the heads had in this cycle
	log     [][]int       // done of each cycle
}

// take runs the cycles from the one in which a micro-batch enters up to the next entry, and to the end after the last.
func (r *replica) take(ctx context.Context, b *bert.Batch) error {
	if r.batches == nil {
		r.batches, r.done = make([]*bert.Batch, r.table.stash(0)), make([]int, r.table.visits)
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

// cycle lets all devices work at the same time, and then exchanges what goes from stage to stage.
func (r *replica) cycle(ctx context.Context, c int) error {
	for v := range r.done {
		r.done[v] = -1
	}
	r.latest = bert.Losses{}
	work := func(device int) error {
		for _, v := range r.devices[device] {
			if m, busy := r.table.at(c, v, r.count); busy {
				if err := r.do(ctx, v, m); err != nil {
					return err
				}
				r.done[v] = m
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

// together runs work for every device, each on a goroutine of its own, and returns the first device's error. A panic
// continues in the caller.
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

// do makes visit v of micro-batch m.
func (r *replica) do(ctx context.Context, v, m int) error {
	stage, forward, backward := r.table.work(v)
	st := r.stages[stage]
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
		if stage == len(r.stages)-1 {
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
		r.gradients(stage, m, func(grad []float32, begin int) {
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
func (s *slot) run(
	ctx context.Context, d bert.Device, o *bert.Objective, work []bert.Work,
) (losses bert.Losses, err error) {
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
func (r *replica) gradients(stage, m int, body func(grad []float32, begin int)) {
	st := r.stages[stage]
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

// exchange passes on what the stages computed in a cycle: hidden states go up, their gradients go down.
func (r *replica) exchange() {
	for v, m := range r.done {
		stage, forward, _ := r.table.work(v)
		if m >= 0 && forward && stage+1 < len(r.stages) {
			to := r.stages[stage+1]
			copy(to.slots[m%len(to.slots)].network.Input(), r.stages[stage].out)
		}
	}
	// From the last visit to the first: a stage has one buffer for all micro-batches, to be read before it is written.
	for v := len(r.done) - 1; v >= 0; v-- {
		stage, _, backward := r.table.work(v)
		if m := r.done[v]; m >= 0 && backward && stage > 0 {
			from, to := r.stages[stage], r.stages[stage-1]
			copy(to.slots[m%len(to.slots)].network.HiddenGrad(), from.slots[m%len(from.slots)].network.HiddenGrad())
		}
	}
}

// schedule is what the replica did.
func (r *replica) schedule(c *bert.Config) *backend.Schedule {
	fill := r.table.period * (r.table.stash(0) - 1)
	s := &backend.Schedule{
		Name: string(r.plan.Schedule), Recompute: string(r.plan.Recompute), Fill: fill, Drain: fill, Cycles: r.log,
	}
	for v := range r.table.visits {
		stage, forward, backward := r.table.work(v)
		st := r.stages[stage]
		of := backend.ScheduledStage{Device: st.Device, Forward: forward, Backward: backward, Stash: len(st.slots)}
		for u := st.First; u < st.End; u++ {
			of.Units = append(of.Units, c.UnitName(u))
		}
		s.Stages = append(s.Stages, of)
	}
	return s
}
