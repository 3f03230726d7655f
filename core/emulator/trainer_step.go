package emulator

import (
	"context"
	"fmt"
	"iter"
	"math"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
)

// Step computes a global batch and leaves the unscaled FP32 gradient of its mean loss in Memory.Grads.
//
// The loss of a micro-batch is scaled to the magnitude that it has in the narrow formats of the real machine. Apart
// from the loss scale, that is the mean loss of the micro-batch where micro-batches are averaged (RunningMean, or a
// narrow accumulator), and its share of the replica's mean loss where they are added up. Replicas are always
// averaged.
func (t *Trainer) Step(
	ctx context.Context, s backend.Step, batches iter.Seq2[*bert.Batch, error], lossScale float64,
) (backend.StepResult, error) {
	if err := t.ready(ctx); err != nil {
		return backend.StepResult{}, err
	}
	if !t.committed {
		return backend.StepResult{}, fmt.Errorf("step %d: no parameters were committed, want Commit before the first Step", s.Step)
	}
	p := &t.program
	if s.Step < 1 || s.Step > math.MaxUint32 {
		return backend.StepResult{}, fmt.Errorf("step %d: want 1 to %d", s.Step, uint32(math.MaxUint32))
	}
	if s.Sequences != p.GlobalBatch() {
		return backend.StepResult{}, fmt.Errorf("step %d: global batch of %d sequences, want micro_batch %d x accumulation %d x replicas %d = %d",
			s.Step, s.Sequences, p.MicroBatch, p.Accumulation, p.Replicas, p.GlobalBatch())
	}
	var clock backend.Clock
	clock.Start()
	scaled := lossScale * float64(p.Replicas)
	divisor := scaled
	if t.divides() {
		divisor = lossScale // the replicas have divided
	}
	if t.averages() {
		scaled *= float64(p.Accumulation)
		if !t.train.policy.RunningMean {
			divisor *= float64(p.Accumulation)
		}
	}
	t.train.TakeHistogram() // of a step that broke off
	t.train.effects.take(nil)
	objective := bert.Objective{Scale: scaled, Sequences: float64(s.Sequences), MaskedWeight: s.MaskedWeight, LabelWeight: s.LabelWeight}
	if p.SequencesPerPack > 1 {
		objective.Sequences = s.NextSentenceWeight
	}
	if t.tracing != nil {
		t.tracing.scale = scaled
	}
	t.model.ClearPadding(t.memory.Grads)
	losses, schedule, err := t.microBatches(ctx, s, batches, &objective, &clock)
	if err == nil && t.tracing != nil {
		err = t.tracing.err
	}
	if err != nil {
		return backend.StepResult{}, fmt.Errorf("step %d: %w", s.Step, err)
	}
	if p.Replicas > 1 {
		if !t.train.policy.ReduceFirst {
			t.reduce(s.Step)
		}
		t.ring.collect(t.memory.Grads, t.replicas)
		clock.Lap("reduction")
	}
	finite := scale(t.memory.Grads, float32(1/divisor))
	clock.Lap("unscale")
	return backend.StepResult{
		Losses: losses, Finite: finite, LossScale: lossScale, Overflows: t.train.TakeOverflows(), Invalid: t.train.TakeInvalid(),
		Phases: clock.Phases(), Schedule: schedule, Quantised: t.train.effects.take(t.names),
	}, nil
}

// TakeHistogram is that of the device that trains, see Device.TakeHistogram.
func (t *Trainer) TakeHistogram() (large, all int64) { return t.train.TakeHistogram() }

// averages reports whether a replica's sum is over mean losses of micro-batches.
func (t *Trainer) averages() bool {
	p := &t.train.policy
	return p.RunningMean || p.Accumulate != Store{} && !p.Shares
}

// divides reports whether replicas divide by their number before they reduce.
func (t *Trainer) divides() bool {
	return t.program.Replicas > 1 && (t.train.policy.Divide || t.train.policy.ReduceFirst)
}

// reduce adds up the replicas' sums, or takes their mean.
func (t *Trainer) reduce(step int) {
	if t.divides() {
		for i, sum := range t.replicas {
			pass := t.pass(step)
			pass.Sample = i
			t.train.divide(&pass, sum, len(t.replicas))
		}
	}
	pass := t.pass(step)
	t.train.reduceScatter(&pass, t.ring, t.replicas)
}

// microBatches computes and sums the gradients of all micro-batches. The first step of a session returns the
// schedule of its first replica.
func (t *Trainer) microBatches(
	ctx context.Context, s backend.Step, batches iter.Seq2[*bert.Batch, error], o *bert.Objective, clock *backend.Clock,
) (losses bert.Losses, schedule *backend.Schedule, err error) {
	p := &t.program
	var r *replica
	var waiting []*bert.Batch // until all are there
	count, want := 0, p.Accumulation*p.Replicas
	for b, err := range batches {
		if err != nil {
			return losses, nil, err
		}
		clock.Lap("data")
		switch {
		case count == want:
			return losses, nil, fmt.Errorf("more than %d micro-batches, want accumulation %d x replicas %d",
				want, p.Accumulation, p.Replicas)
		case b == nil || b.Size != p.MicroBatch:
			return losses, nil, fmt.Errorf("micro-batch %d has %d sequences, want micro_batch %d", count, size(b), p.MicroBatch)
		case b.Sample != count*p.MicroBatch:
			return losses, nil, fmt.Errorf("micro-batch %d begins at sample %d, want %d",
				count, b.Sample, count*p.MicroBatch)
		}
		if count == 0 && t.tracing != nil {
			t.tracing.batch = b
		}
		if t.train.policy.ReduceFirst && p.Replicas > 1 {
			waiting = append(waiting, b)
			count++
			continue
		}
		if count%p.Accumulation == 0 {
			r = t.replica(s.Step, count/p.Accumulation, o, &losses, clock)
		}
		if err := r.take(ctx, b); err != nil {
			return losses, nil, fmt.Errorf("micro-batch %d: %w", count, err)
		}
		if r.clock == nil {
			clock.Lap("pipeline")
		}
		if count++; count == p.Accumulation && r.record {
			schedule, t.recorded = r.schedule(&p.Model), true
		}
	}
	if count < want {
		return losses, nil, fmt.Errorf("%d micro-batches, want accumulation %d x replicas %d = %d",
			count, p.Accumulation, p.Replicas, want)
	}
	if waiting != nil {
		if err := t.reduceFirst(ctx, s.Step, waiting, o, &losses, clock); err != nil {
			return losses, nil, err
		}
	}
	return losses, schedule, t.checkWeights(&s, &losses)
}

// checkWeights reports a denominator of the loss that is not that of the batch: it would silently change the
// learning rate.
func (t *Trainer) checkWeights(s *backend.Step, losses *bert.Losses) error {
	p := &t.program
	if w := losses.MaskedLM.Weight; p.Head.Task == bert.Pretraining && math.Abs(w-s.MaskedWeight) > 1e-6*w {
		return fmt.Errorf("masked weight %g was announced, the micro-batches have %g", s.MaskedWeight, w)
	}
	if w := losses.NextSentence.Weight; p.SequencesPerPack > 1 && math.Abs(w-s.NextSentenceWeight) > 1e-6*w {
		return fmt.Errorf("next sentence weight %g was announced, the micro-batches have %g", s.NextSentenceWeight, w)
	}
	if w := losses.Labels.Weight; p.Head.Task == bert.TokenClassification && w != s.LabelWeight {
		return fmt.Errorf("%g labelled tokens were announced, the micro-batches have %g", s.LabelWeight, w)
	}
	return nil
}

// reduceFirst replaces all sums by their mean after every micro-batch, not only after the last: for every k each
// replica adds the gradient of its k-th micro-batch to its sum, and the sums are reduced. DistributedDataParallel
// does so unless it is told to wait (no_sync).
func (t *Trainer) reduceFirst(
	ctx context.Context, step int, batches []*bert.Batch, o *bert.Objective, losses *bert.Losses, clock *backend.Clock,
) error {
	for k := range t.program.Accumulation {
		for i := range t.program.Replicas {
			at := i*t.program.Accumulation + k
			r := t.replica(step, i, o, losses, clock)
			r.count, r.first = 1, k
			if err := r.take(ctx, batches[at]); err != nil {
				return fmt.Errorf("micro-batch %d: %w", at, err)
			}
		}
		t.reduce(step)
		t.ring.allGather(t.replicas)
		clock.Lap("reduction")
	}
	return nil
}

// replica begins a replica's part of a step.
func (t *Trainer) replica(step, index int, o *bert.Objective, losses *bert.Losses, clock *backend.Clock) *replica {
	r := &replica{
		pipeline: t.pipeline, device: t.train, objective: o, pass: t.pass(step), losses: losses, count: t.program.Accumulation,
		grads: t.micro, record: !t.recorded && index == 0 && len(t.pipeline.stages) > 1,
	}
	r.pass.Train, r.pass.Replica = true, index
	if index == 0 {
		r.tracing = t.tracing
	}
	if t.program.Accumulation*t.program.Replicas > 1 {
		r.sum = t.replicas[index]
	}
	if len(t.pipeline.devices) == 1 {
		r.clock = clock
	}
	return r
}

func size(b *bert.Batch) int {
	if b == nil {
		return 0
	}
	return b.Size
}
