// Package gpuref is a GPU as a backend: the mixed precision that PyTorch's autocast has on NVIDIA's tensor cores, emulated on the CPU.
//
// Parameters and the optimizer's state are FP32 throughout (master weights): Commit leaves them alone. What is rounded where follows autocast's
// operator lists (pytorch docs/source/amp.rst): matrix products take FP16 or BF16 inputs, accumulate in FP32 and store in the narrow format; softmax,
// layer norm and losses run in FP32; the rest runs in the format of its input. All rounding is to nearest, ties to even; what is too large for FP16
// becomes infinite. N is the narrow format of fp16 and bf16; nothing is rounded in fp32; in tf32 only the inputs of matrix products are,
// to TF32.
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
// The tied word embeddings get FP32 gradients from the lookup and N gradients from the decoder, added in FP32.
//
// In fp16-o2 the whole model is FP16, as NVIDIA's apex casts it at its level O2: N is everywhere but inside softmax, layer norm and losses, which compute
// in FP32, and gradients are added up and reduced in FP16, divided by the number of replicas before. The optimizer updates FP32 masters, of which Commit
// makes an FP16 copy, rounded to nearest, to compute with. (NVIDIA's LAMB keeps its updates in FP16 too: optimizer option update_format=fp16.)
//
// Replicas are reduced as DistributedDataParallel does it: in buckets of bucket_cap_mb (the first of 1 MiB), from the last tensor to the first, each in the
// order of a ring. With allreduce_post_accumulation=false they are reduced after every micro-batch: then each replica adds its gradient to the mean of what
// was before. checkpoint_activations keeps the inputs of layers alone and computes the rest again, with the same bits.
//
// The loss scale is dynamic in fp16 and fp16-o2, as torch.amp.GradScaler's: a step with an infinite or NaN gradient is skipped by the host and halves it, 2000
// good steps double it. It is the session's only state. As with DistributedDataParallel, it scales the mean loss of a replica, and replicas are averaged.
package gpuref

import (
	"context"
	"fmt"
	"iter"
	"math"
	"strconv"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/emulator"
	"harness.invalid/core/numerics"
	"harness.invalid/core/option"
)

// Backend is the plugin. Its zero value works.
type Backend struct{}

var _ backend.Backend = (*Backend)(nil)

// New returns the backend.
func New() *Backend { return &Backend{} }

// info describes the backend; the default precision comes first. The errors that the tolerances bound are measured by
// TestTolerances of core/backend/backendtest.
var info = backend.Info{
	Name: "gpu-ref", Version: "1", Doc: "GPU with autocast's mixed precision and FP32 master weights",
	Precisions: []backend.Precision{
		{Name: "fp32", Doc: "FP32 throughout", OutputTolerance: 2e-5, GradientTolerance: 1e-4,
			Reason: "FP32 has unit roundoff 6e-8; sums over a few hundred products and a few layers stay below 1e-5"},
		{Name: "tf32", Doc: "matrix products of TF32 inputs, else FP32", OutputTolerance: 4e-3, GradientTolerance: 2e-2,
			Reason: "TF32 inputs have unit roundoff u = 2^-11 = 4.9e-4: outputs after a few layers within 8u, gradients within 40u"},
		{Name: "bf16", Doc: "autocast to BF16 with FP32 master weights", OutputTolerance: 3.2e-2, GradientTolerance: 1.6e-1,
			Reason: "BF16 has unit roundoff u = 2^-8 = 3.9e-3: outputs after a few layers within 8u, gradients within 40u"},
		{Name: "fp16", Doc: "autocast to FP16 with FP32 master weights and a dynamic loss scale", OutputTolerance: 4e-3, GradientTolerance: 2e-2,
			Reason: "FP16 has unit roundoff u = 2^-11 = 4.9e-4: outputs after a few layers within 8u, gradients within 40u"},
		{Name: "fp16-o2", Doc: "FP16 throughout with FP32 master weights and a dynamic loss scale, as apex at level O2", OutputTolerance: 4e-3, GradientTolerance: 2e-2,
			Reason: "FP16 has unit roundoff u = 2^-11 = 4.9e-4; weights and every result are rounded to nearest: outputs within 8u, gradients within 40u"},
	},
	RepeatsSteps: true,
	Options: []option.Option{
		{Name: "loss_scale", Default: "auto", Doc: "dynamic, a number, or auto: dynamic in fp16 and fp16-o2, 1 in other formats"},
		{Name: "init_scale", Default: "65536", Doc: "first scale of a dynamic loss scale"},
		{Name: "growth_interval", Default: "2000", Doc: "good steps in a row after which a dynamic loss scale doubles"},
		{Name: "bucket_cap_mb", Default: "25", Doc: "MiB of gradients that replicas reduce at a time"},
		{Name: "allreduce_post_accumulation", Default: "true", Doc: "reduce after the last micro-batch; false: after each"},
		{Name: "checkpoint_activations", Default: "false", Doc: "keep the inputs of layers alone and compute the rest again"},
		{Name: "system", Default: "dgx-a100-80gb", Doc: "whose time and memory are modelled, see harness estimate; none: nothing is"},
		{Name: "length_bins", Default: "64", Doc: "width of the bins of lengths that the modelled loader deals pre-training in above 128 tokens; 0: all are padded in full"},
	},
}

// policy is the table of a precision.
func policy(precision string) emulator.Policy {
	switch precision {
	case "tf32":
		return emulator.Policy{Inputs: numerics.TF32}
	case "bf16":
		return autocast(numerics.BF16)
	case "fp16":
		return autocast(numerics.FP16)
	case "fp16-o2":
		return pure(numerics.FP16)
	}
	return emulator.Policy{}
}

// pure is the table of a model that was cast to a narrow format as a whole.
func pure(f numerics.Format) emulator.Policy {
	n := emulator.Store{Format: f}
	row := emulator.Row{Out: n, Grad: n, Weight: n}
	return emulator.Policy{
		Inputs: f,
		Embed:  row, Linear: row, Pointwise: row, Residual: row, Norm: row, Scores: row, Probabilities: row,
		LossGrad: n, Accumulate: n, Shares: true, Reduce: n, Divide: true, Working: n,
	}
}

// firstBucketBytes is the size of DistributedDataParallel's first bucket, so that the reduction begins early. Source: pytorch,
// torch/csrc/distributed/c10d/reducer.hpp (kDefaultFirstBucketBytes).
const firstBucketBytes = 1 << 20

// autocast is PyTorch's table for a narrow format.
func autocast(f numerics.Format) emulator.Policy {
	n := emulator.Store{Format: f}
	return emulator.Policy{
		Inputs:    f,
		Linear:    emulator.Row{Out: n, Grad: n, Weight: n},
		Pointwise: emulator.Row{Out: n, Grad: n},
		Scores:    emulator.Row{Out: n, Grad: n},
		LossGrad:  n,
	}
}

// Describe implements backend.Backend.
func (*Backend) Describe(context.Context) (backend.Info, error) { return info, nil }

// Open implements backend.Backend.
func (*Backend) Open(_ context.Context, p backend.Program, m backend.Memory) (backend.Session, error) {
	precision, err := info.Precision(p.Precision)
	if err != nil {
		return nil, fmt.Errorf("gpu-ref: %w", err)
	}
	s, err := open(precision.Name, p, m)
	if err != nil {
		return nil, fmt.Errorf("gpu-ref: %w", err)
	}
	return s, nil
}

func open(precision string, p backend.Program, m backend.Memory) (*session, error) {
	v, err := option.Read(info.Options, p.Options)
	if err != nil {
		return nil, err
	}
	scaler, err := readScaler(precision, v)
	if err != nil {
		return nil, err
	}
	table, plan := policy(precision), emulator.Plan{}
	table.BucketBytes, table.FirstBucketBytes = v.Int("bucket_cap_mb", 1, 1<<20)<<20, firstBucketBytes
	table.ReduceFirst = !v.Bool("allreduce_post_accumulation")
	if v.Bool("checkpoint_activations") {
		plan.Recompute = bert.RecomputeLayer
	}
	if err := v.Err(); err != nil {
		return nil, err
	}
	t, err := emulator.NewTrainer(p, m, table, plan)
	if err != nil {
		return nil, err
	}
	return &session{Trainer: t, scaler: scaler}, nil
}

// readScaler makes the loss scaler that the options ask for.
func readScaler(precision string, v *option.Values) (*numerics.LossScaler, error) {
	dynamic := numerics.NewDynamicLossScaler()
	dynamic.Scale = float32(v.Float("init_scale", math.SmallestNonzeroFloat32, math.MaxFloat32))
	dynamic.GrowthInterval = v.Int("growth_interval", 1, math.MaxInt32)
	scale := v.Text("loss_scale")
	if scale == "auto" {
		scale = "1"
		if precision == "fp16" || precision == "fp16-o2" {
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
func (s *session) Trace(ctx context.Context, step backend.Step, batches iter.Seq2[*bert.Batch, error], yield func(backend.Traced) error) (backend.StepResult, error) {
	defer s.Watch(yield)()
	return s.Step(ctx, step, batches)
}

// Save implements backend.Session.
func (s *session) Save(context.Context) ([]byte, error) { return s.scaler.MarshalBinary() }

// Load implements backend.Session.
func (s *session) Load(_ context.Context, state []byte) error {
	if err := s.scaler.UnmarshalBinary(state); err != nil {
		return fmt.Errorf("gpu-ref: %w", err)
	}
	return nil
}
