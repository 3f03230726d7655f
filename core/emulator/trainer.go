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
	"harness.invalid/core/spelling"
	"harness.invalid/core/tensor"
)

// Trainer runs a program on emulated devices. It is what the sessions of all emulated backends have in common; a session adds its loss scale and its
// state.
//
// Replicas take their micro-batches one after the other: replica r has micro-batches r·accumulation to (r+1)·accumulation - 1 of the global batch.
// Each sums its own gradients, micro-batch by micro-batch; then the sums are reduced in ring order (see Device.reduce).
type Trainer struct {
	program   backend.Program
	memory    backend.Memory
	train     *Device
	evaluate  *Device
	network   *bert.Network
	micro     []float32   // gradient of a micro-batch; Memory.Grads itself where there is one micro-batch only
	replicas  [][]float32 // sums of replicas; Memory.Grads itself where there is one replica only
	committed bool
	closed    bool
}

// ErrClosed is returned by the calls of a closed session.
var ErrClosed = errors.New("session is closed")

// NewTrainer prepares a program over the host's memory.
func NewTrainer(p backend.Program, m backend.Memory, policy Policy) (*Trainer, error) {
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
	t := &Trainer{program: p, memory: m, train: New(policy), evaluate: New(policy.Nearest()), micro: m.Grads, replicas: [][]float32{m.Grads}}
	if p.Accumulation*p.Replicas > 1 {
		t.micro = make([]float32, m.Layout.Len())
	}
	if p.Replicas > 1 {
		t.replicas = make([][]float32, p.Replicas)
		for i := range t.replicas {
			t.replicas[i] = make([]float32, m.Layout.Len())
		}
	}
	t.network, err = bert.NewNetwork(model, m.Params, t.micro, bert.Shape{Size: p.MicroBatch, Length: p.Length, Predictions: p.MaxPredictions})
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
	if t.averages() {
		scaled *= float64(p.Accumulation)
		if !t.train.policy.RunningMean {
			divisor = scaled
		}
	}
	objective := bert.Objective{Scale: scaled, Sequences: s.Sequences, MaskedWeight: s.MaskedWeight}
	losses, err := t.microBatches(ctx, s, batches, &objective, &clock)
	if err != nil {
		return backend.StepResult{}, fmt.Errorf("step %d: %w", s.Step, err)
	}
	if p.Replicas > 1 {
		pass := t.pass(s.Step)
		t.train.reduce(&pass, t.memory.Grads, t.replicas)
		clock.Lap("reduction")
	}
	finite := scale(t.memory.Grads, float32(1/divisor))
	clock.Lap("unscale")
	return backend.StepResult{Losses: losses, Finite: finite, LossScale: lossScale, Overflows: t.train.TakeOverflows(), Phases: clock.Phases()}, nil
}

// averages reports whether a replica's sum is over mean losses of micro-batches.
func (t *Trainer) averages() bool {
	return t.train.policy.RunningMean || t.train.policy.Accumulate != Store{}
}

func (t *Trainer) pass(step int) bert.Pass {
	return bert.Pass{Seed: t.program.Seed, Step: uint32(step), Size: 1}
}

// microBatches computes and sums the gradients of all micro-batches.
func (t *Trainer) microBatches(ctx context.Context, s backend.Step, batches iter.Seq2[*bert.Batch, error], o *bert.Objective, clock *backend.Clock) (bert.Losses, error) {
	p := &t.program
	var losses bert.Losses
	count, want := 0, p.Accumulation*p.Replicas
	for b, err := range batches {
		if err != nil {
			return losses, err
		}
		clock.Lap("data")
		switch {
		case count == want:
			return losses, fmt.Errorf("more than %d micro-batches, want accumulation %d x replicas %d", want, p.Accumulation, p.Replicas)
		case b == nil || b.Size != p.MicroBatch:
			return losses, fmt.Errorf("micro-batch %d has %d sequences, want micro_batch %d", count, size(b), p.MicroBatch)
		case b.Sample != count*p.MicroBatch:
			return losses, fmt.Errorf("micro-batch %d begins at sample %d, want %d", count, b.Sample, count*p.MicroBatch)
		}
		pass := t.pass(s.Step)
		pass.Train, pass.Replica = true, count/p.Accumulation
		l, err := t.forward(ctx, t.train, &pass, b, o)
		if err != nil {
			return losses, fmt.Errorf("micro-batch %d: %w", count, err)
		}
		clock.Lap("forward")
		if err := t.backward(ctx, &pass); err != nil {
			return losses, fmt.Errorf("micro-batch %d: %w", count, err)
		}
		clock.Lap("backward")
		if want > 1 {
			t.train.accumulate(&pass, t.replicas[pass.Replica], t.micro, count%p.Accumulation)
			clock.Lap("accumulation")
		}
		losses.Add(l)
		count++
	}
	if count < want {
		return losses, fmt.Errorf("%d micro-batches, want accumulation %d x replicas %d = %d", count, p.Accumulation, p.Replicas, want)
	}
	// A wrong denominator would train at another learning rate without a sign.
	if w := losses.MaskedLM.Weight; p.Head.Task == bert.Pretraining && math.Abs(w-s.MaskedWeight) > 1e-6*w {
		return losses, fmt.Errorf("masked weight %g was announced, the micro-batches have %g", s.MaskedWeight, w)
	}
	return losses, nil
}

func size(b *bert.Batch) int {
	if b == nil {
		return 0
	}
	return b.Size
}

// forward runs the units of the forward pass; a cancelled context ends it between two of them.
func (t *Trainer) forward(ctx context.Context, d *Device, p *bert.Pass, b *bert.Batch, o *bert.Objective) (bert.Losses, error) {
	if err := t.network.Load(p, b, o != nil); err != nil {
		return bert.Losses{}, err
	}
	t.network.Embeddings(d, p)
	for i := range t.program.Model.NumHiddenLayers {
		if err := ctx.Err(); err != nil {
			return bert.Losses{}, err
		}
		t.network.Layer(d, p, i)
	}
	return t.network.Heads(d, p, o), ctx.Err()
}

func (t *Trainer) backward(ctx context.Context, p *bert.Pass) error {
	t.network.HeadsBackward(t.train, p)
	for i := t.program.Model.NumHiddenLayers - 1; i >= 0; i-- {
		if err := ctx.Err(); err != nil {
			return err
		}
		t.network.LayerBackward(t.train, p, i)
	}
	t.network.EmbeddingsBackward(t.train, p)
	return nil
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
	t.train.TakeOverflows()
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
			pass := t.pass(0)
			l, err := t.forward(ctx, t.evaluate, &pass, b.Slice(i, min(b.Size, i+t.program.MicroBatch)), o)
			if err != nil {
				return losses, fmt.Errorf("evaluation batch %d: %w", count, err)
			}
			losses.Add(l)
			t.collect(outputs, e.Outputs, b.Size)
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

// collect appends the outputs of a micro-batch to those of its batch of size sequences.
func (t *Trainer) collect(outputs backend.Outputs, names []string, size int) {
	for _, name := range names {
		shape, values, _ := t.network.Output(name)
		o, ok := outputs[name]
		if !ok {
			o.Shape = append(tensor.Shape{size}, shape[1:]...)
			o.Values = make([]float32, 0, o.Shape.Len())
		}
		o.Values = append(o.Values, values...)
		outputs[name] = o
	}
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
