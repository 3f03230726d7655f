package emulator

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/numerics"
	"harness.invalid/core/spelling"
	"harness.invalid/core/tensor"
)

// Trainer runs a program on emulated devices. It is what the sessions of all emulated backends have in common; a session adds its loss scale and its
// state.
//
// Replicas take their micro-batches one after the other, each through its pipeline: replica r has micro-batches r·accumulation to
// (r+1)·accumulation - 1 of the global batch. Each sums its own gradients, micro-batch by micro-batch; then the sums are reduced in the order of a
// ring. Replicas have the same parameters, and are left with the same gradients: one copy stands for all.
type Trainer struct {
	program   backend.Program
	memory    backend.Memory
	model     *bert.Model
	train     *Device
	evaluate  *Device
	pipeline  *pipeline
	micro     []float32   // gradient of a micro-batch; Memory.Grads itself where there is one micro-batch only
	replicas  [][]float32 // sums of replicas; Memory.Grads itself where there is one replica only
	ring      *ring
	params    []float32 // what the device computes with: Memory.Params, or a narrow copy of these masters
	recorded  bool      // a step told its schedule
	tracing   *tracing  // nil: nobody watches
	committed bool
	closed    bool
}

// ErrClosed is returned by the calls of a closed session.
var ErrClosed = errors.New("session is closed")

// NewTrainer prepares a program over the host's memory.
func NewTrainer(p backend.Program, m backend.Memory, policy Policy, plan Plan) (*Trainer, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if err := policy.Validate(); err != nil {
		return nil, err
	}
	model, err := bert.New(p.Model, p.Head)
	if err != nil {
		return nil, err
	}
	if m.Layout == nil || !model.Layout.Equal(m.Layout) {
		return nil, fmt.Errorf("emulator: the memory's layout is not that of the program's model")
	}
	if len(m.Params) != m.Layout.Len() || len(m.Grads) != m.Layout.Len() {
		return nil, fmt.Errorf("emulator: memory has %d parameters and %d gradients, want %d", len(m.Params), len(m.Grads), m.Layout.Len())
	}
	plan, err = plan.complete(&model.Config, p.Accumulation)
	if err != nil {
		return nil, err
	}
	t := &Trainer{program: p, memory: m, model: model, train: New(policy), evaluate: New(policy.Nearest()), micro: m.Grads, replicas: [][]float32{m.Grads}}
	if p.Accumulation*p.Replicas > 1 {
		t.micro = make([]float32, m.Layout.Len())
	}
	if p.Replicas > 1 {
		t.replicas = make([][]float32, p.Replicas)
		for i := range t.replicas {
			t.replicas[i] = make([]float32, m.Layout.Len())
		}
	}
	t.ring, t.params = newRing(m.Layout, p.Replicas, &policy), m.Params
	if policy.Working.Format != numerics.FP32 {
		t.params = make([]float32, m.Layout.Len())
	}
	if policy.ReduceFirst && p.Replicas > 1 && len(plan.Stages) > 1 {
		return nil, fmt.Errorf("emulator: %d replicas are reduced after every micro-batch, want one device without a pipeline for each", p.Replicas)
	}
	limit := bert.Shape{Size: p.MicroBatch, Length: p.Length, Predictions: p.MaxPredictions, Sequences: p.SequencesPerPack}
	t.pipeline, err = newPipeline(model, plan, t.params, t.micro, limit, p.Accumulation)
	return t, err
}

// Step computes a global batch and leaves the unscaled FP32 gradient of its mean loss in Memory.Grads.
//
// The loss of a micro-batch is scaled so that it is, but for the loss scale, the micro-batch's mean loss where micro-batches are averaged
// (RunningMean, or a narrow accumulator), and its share of the replica's mean loss where they are added up: the magnitudes that the real machine
// has in its narrow formats. Replicas are always averaged.
func (t *Trainer) Step(ctx context.Context, s backend.Step, batches iter.Seq2[*bert.Batch, error], lossScale float64) (backend.StepResult, error) {
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
	objective := bert.Objective{Scale: scaled, Sequences: float64(s.Sequences), MaskedWeight: s.MaskedWeight}
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
	return backend.StepResult{Losses: losses, Finite: finite, LossScale: lossScale, Overflows: t.train.TakeOverflows(), Invalid: t.train.TakeInvalid(), Phases: clock.Phases(), Schedule: schedule}, nil
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

func (t *Trainer) pass(step int) bert.Pass {
	return bert.Pass{Seed: t.program.Seed, Step: uint32(step), Size: 1}
}

// microBatches computes and sums the gradients of all micro-batches. The first step of a session tells the schedule of its first replica.
func (t *Trainer) microBatches(ctx context.Context, s backend.Step, batches iter.Seq2[*bert.Batch, error], o *bert.Objective, clock *backend.Clock) (losses bert.Losses, schedule *backend.Schedule, err error) {
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
			return losses, nil, fmt.Errorf("more than %d micro-batches, want accumulation %d x replicas %d", want, p.Accumulation, p.Replicas)
		case b == nil || b.Size != p.MicroBatch:
			return losses, nil, fmt.Errorf("micro-batch %d has %d sequences, want micro_batch %d", count, size(b), p.MicroBatch)
		case b.Sample != count*p.MicroBatch:
			return losses, nil, fmt.Errorf("micro-batch %d begins at sample %d, want %d", count, b.Sample, count*p.MicroBatch)
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
		return losses, nil, fmt.Errorf("%d micro-batches, want accumulation %d x replicas %d = %d", count, p.Accumulation, p.Replicas, want)
	}
	if waiting != nil {
		if err := t.reduceFirst(ctx, s.Step, waiting, o, &losses, clock); err != nil {
			return losses, nil, err
		}
	}
	// A wrong denominator would train at another learning rate without a sign.
	if w := losses.MaskedLM.Weight; p.Head.Task == bert.Pretraining && math.Abs(w-s.MaskedWeight) > 1e-6*w {
		return losses, nil, fmt.Errorf("masked weight %g was announced, the micro-batches have %g", s.MaskedWeight, w)
	}
	if w := losses.NextSentence.Weight; p.SequencesPerPack > 1 && math.Abs(w-s.NextSentenceWeight) > 1e-6*w {
		return losses, nil, fmt.Errorf("next sentence weight %g was announced, the micro-batches have %g", s.NextSentenceWeight, w)
	}
	return losses, schedule, nil
}

// reduceFirst lets every replica compute its k-th micro-batch and add the gradient to its sum, and then replaces all sums by their mean, for every k: as
// DistributedDataParallel does when it is not told to wait (no_sync).
func (t *Trainer) reduceFirst(ctx context.Context, step int, batches []*bert.Batch, o *bert.Objective, losses *bert.Losses, clock *backend.Clock) error {
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
	r := &replica{pipeline: t.pipeline, device: t.train, objective: o, pass: t.pass(step), losses: losses, count: t.program.Accumulation, grads: t.micro, record: !t.recorded && index == 0 && len(t.pipeline.stages) > 1}
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

// predict runs the stages of the forward pass one after the other, without dropout.
func (t *Trainer) predict(ctx context.Context, b *bert.Batch, o *bert.Objective) (losses bert.Losses, err error) {
	for i, st := range t.pipeline.stages {
		slot := st.slots[0]
		slot.pass = t.pass(0)
		if err := slot.network.Load(&slot.pass, b, o != nil); err != nil {
			return losses, err
		}
		if i > 0 {
			copy(slot.network.Input(), t.pipeline.stages[i-1].slots[0].network.Hidden())
		}
		if losses, err = slot.run(ctx, t.evaluate, o, slot.forward); err != nil {
			return losses, err
		}
	}
	return losses, nil
}

// Commit rounds the parameters as the policy keeps them. It is idempotent: values of the format stay as they are.
func (t *Trainer) Commit(ctx context.Context, step int) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	if step < 0 || step > math.MaxUint32 {
		return fmt.Errorf("commit %d: want a step from 0 to %d", step, uint32(math.MaxUint32))
	}
	pass := t.pass(step)
	t.train.storeParameters(&pass, t.memory.Params)
	if t.train.policy.Working.Format != numerics.FP32 {
		copy(t.params, t.memory.Params)
		t.train.storeWorking(&pass, t.params)
	}
	t.train.TakeOverflows()
	t.train.TakeInvalid()
	t.committed = true
	return nil
}

// Evaluate runs forward without dropout, rounding to nearest. A batch larger than a micro-batch is cut.
func (t *Trainer) Evaluate(ctx context.Context, e backend.Evaluation, batches iter.Seq2[*bert.Batch, error], yield func(backend.Outputs) error) (bert.Losses, error) {
	var losses bert.Losses
	if err := t.ready(ctx); err != nil {
		return losses, err
	}
	names := bert.OutputNames(t.program.Model, t.program.Head)
	for _, name := range e.Outputs {
		if !slices.Contains(names, name) {
			return losses, fmt.Errorf("no output is named %q%s (known: %s)", name, spelling.Hint(name, names), strings.Join(names, ", "))
		}
	}
	var o *bert.Objective
	if e.Labels {
		o = &bert.Objective{}
	}
	count := 0
	for b, err := range batches {
		if err != nil {
			return losses, err
		}
		if b == nil || b.Size < 1 {
			return losses, fmt.Errorf("evaluation batch %d has no sequences", count)
		}
		if err := b.Validate(t.program.Model, t.program.Head, e.Labels); err != nil {
			return losses, fmt.Errorf("evaluation batch %d: %w", count, err)
		}
		outputs := backend.Outputs{}
		for i := 0; i < b.Size; i += t.program.MicroBatch {
			l, err := t.predict(ctx, b.Slice(i, min(b.Size, i+t.program.MicroBatch)), o)
			if err != nil {
				return losses, fmt.Errorf("evaluation batch %d: %w", count, err)
			}
			losses.Add(l)
			t.collect(outputs, e.Outputs)
		}
		t.evaluate.TakeOverflows()
		if yield != nil {
			if err := yield(outputs); err != nil {
				return losses, err
			}
		}
		count++
	}
	return losses, nil
}

// collect appends the outputs of a micro-batch to those of its batch.
func (t *Trainer) collect(outputs backend.Outputs, names []string) {
	for _, name := range names {
		shape, values := t.output(name)
		o := outputs[name]
		if o.Shape == nil {
			o.Shape = append(tensor.Shape{0}, shape[1:]...)
		}
		o.Shape[0] += shape[0]
		o.Values = append(o.Values, values...)
		outputs[name] = o
	}
}

// output finds an output in the stage that has it.
func (t *Trainer) output(name string) (tensor.Shape, []float32) {
	for _, st := range t.pipeline.stages {
		if shape, values, ok := st.slots[0].network.Output(name); ok {
			return shape, values
		}
	}
	panic("emulator: an output that the model has is in no stage")
}

// Close ends the session.
func (t *Trainer) Close() error {
	t.closed = true
	return nil
}

func (t *Trainer) ready(ctx context.Context) error {
	if t.closed {
		return ErrClosed
	}
	return ctx.Err()
}
