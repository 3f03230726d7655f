// Package gpuref is a GPU as a backend: the mixed precision that PyTorch's autocast has on NVIDIA's tensor cores,
// emulated on the CPU.
//
// Parameters and the optimizer's state are FP32 throughout (master weights): Commit leaves them alone. What is
// rounded where follows autocast's operator lists (pytorch docs/source/amp.rst): matrix products take FP16 or BF16
// inputs, accumulate in FP32 and store in the narrow format; softmax, layer norm and losses run in FP32; the rest
// runs in the format of its input. All rounding is to nearest, ties to even; what is too large for FP16 becomes
// infinite. N is the narrow format of fp16 and bf16; nothing is rounded in fp32; in tf32 only the inputs of matrix
// products are, to TF32.
//
//	Operator                     Inputs  Computes in  Result                      Gradient of inputs   Gradient of parameters
//	embeddings                   FP32    FP32         FP32                        FP32                 FP32
//	linear X·Wᵀ + B              N       FP32         N                           N                    N, added up in FP32
//	GELU, tanh                   N       FP32         N                           N
//	dropout of hidden states     N       FP32         N                           N
//	residual sum                 N, FP32 FP32         FP32                        FP32 (to N in the branch)
//	layer norm                   FP32    FP32         FP32                        FP32                 FP32
//	Q·Kᵀ                         N       FP32         N, then scaled in N         N
//	mask, softmax, dropout       FP32    FP32         FP32                        FP32
//	P·V                          N       FP32         N                           N
//	losses                       N       FP32         FP32                        N
//	sum over micro-batches       FP32    FP32         FP32
//	sum over replicas            FP32    FP32         FP32, in the order of a ring
//
// policies/ has this table for each precision, as YAML that emulator.ParsePolicy reads; the option policy gives another.
//
// The tied word embeddings get FP32 gradients from the lookup and N gradients from the decoder, added in FP32.
//
// In fp16-o2 the whole model is FP16, as NVIDIA's apex casts it at its level O2: N is everywhere but inside softmax,
// layer norm and losses, which compute in FP32, and gradients are added up and reduced in FP16, divided by the number
// of replicas before. The optimizer updates FP32 masters, of which Commit makes an FP16 copy, rounded to nearest, to
// compute with. (NVIDIA's LAMB keeps its updates in FP16 too: optimizer option update_format=fp16.)
//
// Replicas are reduced as DistributedDataParallel does it: in buckets of bucket_cap_mb (the first of 1 MiB), from the
// last tensor to the first, each in the order of a ring. With allreduce_post_accumulation=false they are reduced
// after every micro-batch: each replica then adds its gradient to the mean of those before. checkpoint_activations
// keeps only the inputs of layers and computes the rest again, with the same bits. plugins/gpu-ref/execution reads
// these options, and the model of the machine prices what it reads.
//
// The loss scale is dynamic in fp16 and fp16-o2, as torch.amp.GradScaler's: the host skips a step with an infinite or
// NaN gradient, which halves the scale; 2000 good steps double it. It is the session's only state. As with
// DistributedDataParallel, it scales the mean loss of a replica, and replicas are averaged.
package gpuref

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"strconv"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/emulator"
	"harness.invalid/core/numerics"
	"harness.invalid/core/option"
	"harness.invalid/plugins/gpu-ref/execution"
)

// Backend is the plugin. Its zero value works.
type Backend struct{}

var _ backend.Backend = (*Backend)(nil)

// New returns the backend.
func New() *Backend { return &Backend{} }

// Describe implements backend.Backend.
func (*Backend) Describe(context.Context) (backend.Info, error) { return info, nil }

// Open implements backend.Backend.
func (*Backend) Open(_ context.Context, p backend.Program, m backend.Memory) (backend.Session, error) {
	s, err := open(p, m)
	if err != nil {
		return nil, fmt.Errorf("gpu-ref: %w", err)
	}
	return s, nil
}

func open(p backend.Program, m backend.Memory) (*session, error) {
	v, err := option.Read(info.Options, p.Options)
	if err != nil {
		return nil, err
	}
	table, err := readPolicy(p.Precision, v)
	if err != nil {
		return nil, err
	}
	scaler, err := readScaler(&table, v)
	if err != nil {
		return nil, err
	}
	plan, err := execution.Parse(&p)
	if err != nil {
		return nil, err
	}
	table.BucketBytes, table.FirstBucketBytes, table.ReduceFirst = plan.BucketBytes, firstBucketBytes, plan.ReduceEach
	every := v.Int(backend.InspectOption, 0, math.MaxInt32)
	if err := v.Err(); err != nil {
		return nil, err
	}
	t, err := emulator.NewTrainer(p, m, table, plan.Plan)
	if err != nil {
		return nil, err
	}
	t.Inspect(every)
	return &session{Trainer: t, scaler: scaler}, nil
}

// readScaler makes the loss scaler that the options ask for.
func readScaler(p *emulator.Policy, v *option.Values) (*numerics.LossScaler, error) {
	dynamic := numerics.NewDynamicLossScaler()
	dynamic.Scale = float32(v.Float("init_scale", math.SmallestNonzeroFloat32, math.MaxFloat32))
	dynamic.GrowthInterval = v.Int("growth_interval", 1, math.MaxInt32)
	scale := v.Text("loss_scale")
	if scale == "auto" {
		scale = "1"
		if scaled(p) {
			scale = "dynamic"
		}
	}
	if scale == "dynamic" {
		return dynamic, v.Err()
	}
	if err := v.Err(); err != nil {
		return nil, err
	}
	s, err := strconv.ParseFloat(scale, 32)
	if err != nil || !(s > 0 && s <= math.MaxFloat32) {
		return nil, fmt.Errorf("option loss_scale is %q, want auto, dynamic or a positive number", scale)
	}
	return numerics.NewStaticLossScaler(float32(s)), nil
}

var _ backend.Tracer = (*session)(nil)

// session is an opened program.
type session struct {
	*emulator.Trainer
	scaler *numerics.LossScaler
}

// Step implements backend.Session. The scale moves after the step, by whether its gradients were finite.
func (s *session) Step(ctx context.Context, step backend.Step, batches iter.Seq2[*bert.Batch, error]) (backend.StepResult, error) {
	r, err := s.Trainer.Step(ctx, step, batches, float64(s.scaler.Scale))
	if err != nil {
		return r, fmt.Errorf("gpu-ref: %w", err)
	}
	s.scaler.Update(r.Finite)
	return r, nil
}

// Trace implements backend.Tracer.
func (s *session) Trace(
	ctx context.Context, step backend.Step, batches iter.Seq2[*bert.Batch, error], yield func(backend.Traced) error,
) (backend.StepResult, error) {
	defer s.Watch(yield)()
	return s.Step(ctx, step, batches)
}

// state is what a session saves: the keys of the loss scaler, and those of FP8 scales that follow a history.
type state struct {
	*numerics.LossScaler
	Scaling json.RawMessage `json:"scaling,omitempty"`
}

// Save implements backend.Session.
func (s *session) Save(context.Context) ([]byte, error) {
	scaling, err := s.SaveScaling()
	if err != nil {
		return nil, fmt.Errorf("gpu-ref: %w", err)
	}
	return json.Marshal(state{s.scaler, scaling})
}

// Load implements backend.Session.
func (s *session) Load(_ context.Context, text []byte) error {
	var read state
	err := s.scaler.UnmarshalBinary(text)
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	if err == nil {
		err = s.LoadScaling(read.Scaling)
	}
	if err != nil {
		return fmt.Errorf("gpu-ref: %w", err)
	}
	return nil
}
