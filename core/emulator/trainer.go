package emulator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/numerics"
)

// Trainer runs a program on emulated devices. The sessions of all emulated backends are made of it; a session adds its
// loss scale and its state.
//
// Replicas take their micro-batches one after the other, each through its pipeline: replica r has micro-batches
// r·accumulation to (r+1)·accumulation - 1 of the global batch. Each adds up its own gradients, micro-batch by
// micro-batch; the sums are then reduced in the order of a ring. All replicas have the same parameters and end with the
// same gradients, so one copy stands for all.
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
	params    []float32            // what the device computes with: Memory.Params, or a narrow copy of these masters
	recorded  bool                 // a step told its schedule
	tracing   *tracing             // nil: nobody watches
	names     map[bert.Site]string // of operators, where effects are asked for
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
		return nil, fmt.Errorf("emulator: memory has %d parameters and %d gradients, want %d",
			len(m.Params), len(m.Grads), m.Layout.Len())
	}
	plan, err = plan.Complete(&model.Config, p.Accumulation)
	if err != nil {
		return nil, err
	}
	policy.Products.layers = p.Model.NumHiddenLayers
	t := &Trainer{
		program: p, memory: m, model: model, train: New(policy), evaluate: New(policy.Nearest()),
		micro: m.Grads, replicas: [][]float32{m.Grads},
	}
	t.evaluate.scaling = t.train.scaling
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
		return nil, fmt.Errorf("emulator: %d replicas are reduced after every micro-batch, want no pipeline", p.Replicas)
	}
	limit := bert.Shape{Size: p.MicroBatch, Length: p.Length, Predictions: p.MaxPredictions, Sequences: p.SequencesPerPack}
	t.pipeline, err = newPipeline(model, plan, t.params, t.micro, limit, p.Accumulation)
	return t, err
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

// SaveScaling returns the state of delayed scaling as JSON, nil where the policy has none. It grows with the operands of
// linear operators, and with the logarithm of the history.
func (t *Trainer) SaveScaling() (json.RawMessage, error) {
	if t.train.scaling == nil {
		return nil, nil
	}
	return t.train.scaling.save()
}

// LoadScaling restores what SaveScaling returned. A run may change its policy: without a state there is no history yet,
// and a state that the policy has no use for is ignored.
func (t *Trainer) LoadScaling(state json.RawMessage) error {
	if t.train.scaling == nil || len(state) == 0 {
		return nil
	}
	return t.train.scaling.load(state)
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

func (t *Trainer) pass(step int) bert.Pass {
	return bert.Pass{Seed: t.program.Seed, Step: uint32(step), Size: 1}
}
