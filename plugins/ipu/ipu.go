// Package ipu is Graphcore's IPU as a backend, emulated on the CPU: FP16 weights without masters, stochastic rounding, and FP16 sums.
//
// The parameters are FP16: Commit rounds what the optimizer left in FP32 and writes it back. Every store of FP16 is rounded stochastically (or to
// nearest, see the option), in the forward and the backward pass, in sums of gradients and in the update of the weights. Evaluation rounds to nearest.
//
//	Operator                Computes in                               Result                   Gradient of inputs  Gradient of parameters
//	embeddings              FP32 sum of three                         FP16                     FP16                FP16, summed in FP32 over tokens
//	linear X·Wᵀ + B         fp16.16: chunks of products in FP32,      FP16                     FP16                FP16; bias summed in FP32
//	                          their sums in FP16; fp16.32: FP32
//	GELU, tanh              FP32                                      FP16                     FP16
//	dropout                 FP32                                      FP16                     FP16
//	residual sum            FP32                                      FP16                     FP16
//	layer norm              mean and variance in FP32;                FP16                     FP16                FP16, summed in FP32 over tokens
//	                          mean and 1/σ kept in FP16
//	Q·Kᵀ                    as linear                                 FP16; scaled, in FP16    FP16
//	mask, softmax           x + mask - max and e^x in FP16, their     FP16                     FP16
//	                          sum in FP32 or wider, 1/sum in FP16
//	P·V                     as linear                                 FP16                     FP16
//	losses                  FP32                                      FP32                     FP16
//	sum over micro-batches  FP16 after each addition, as a sum        FP16
//	                          or as a running mean
//	sum over replicas       FP16 after each addition, ring order      FP16
//	unscaled gradient       FP32                                      FP32, for the optimizer
//	parameters              the optimizer's FP32                      FP16
//
// A lookup of word embeddings adds to the decoder's gradient in FP32 before it is stored. The optimizer's moments are FP32 and the host's.
//
// The matrix unit (AMP) of the machine forms dot products 4 wide and adds them to FP16 partial sums; how many products come between two stores
// depends on the plan that poplin makes for each product. The option partials_chunk says it here. It is 256 by default, the coarsest and the
// cheapest to emulate; TestPartialsChunk shows what finer chunks add to the error.
//
// The loss scale is static and multiplies the mean loss of a micro-batch; gradients are kept scaled in FP16 and unscaled in FP32. Published
// configurations of BERT-Base and Large have 64 to 512. The default here, 4096, is what an untrained BERT-Tiny wants: the gradients of its query
// weights (56% off at scale 1) are as exact as they get, 0.2%, and the first overflow is beyond 2^17.
//
// Sources: graphcore/popart, poplibs and examples, 2021 to 2024; stochastic rounding: arXiv:2203.04058.
package ipu

import (
	"context"
	"fmt"
	"iter"
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
	Name: "ipu", Version: "1", Doc: "Graphcore IPU: FP16 weights without masters, stochastic rounding",
	Precisions: []backend.Precision{
		{
			Name: "fp16.16", Doc: "FP16 with FP16 partial sums, no master weights", OutputTolerance: 1e-2, GradientTolerance: 1e-1,
			Reason: "FP16 has unit roundoff u = 2^-11 = 4.9e-4, twice that when rounded stochastically; weights, every result and partial sums are rounded: outputs within 20u, gradients within 200u",
		},
		{
			Name: "fp16.32", Doc: "FP16 with FP32 partial sums, no master weights", OutputTolerance: 1e-2, GradientTolerance: 1e-1,
			Reason: "FP16 has unit roundoff u = 2^-11 = 4.9e-4, twice that when rounded stochastically; weights and every result are rounded: outputs within 20u, gradients within 200u",
		},
		{
			Name: "fp32", Doc: "FP32 throughout, to tell errors of the program from those of the format", OutputTolerance: 2e-5, GradientTolerance: 1e-4,
			Reason: "FP32 has unit roundoff 6e-8; sums over a few hundred products and a few layers stay below 1e-5",
		},
	},
	Options: []option.Option{
		{Name: "stochastic_rounding", Default: "true", Doc: "round FP16 stochastically in training; false: to nearest"},
		{Name: "loss_scale", Default: "4096", Doc: "static factor of the loss"},
		{Name: "accumulation", Default: "mean", Doc: "mean: add FP16 gradients and divide at the end; running_mean: keep their mean"},
		{Name: "partials_chunk", Default: "256", Doc: "products between two stores of an FP16 partial sum, 1 to 256 (fp16.16)"},
		{Name: "overflow", Default: "clip", Doc: "what is too large for FP16 becomes 65504 (clip) or not a number (nan), as FP_ICTL.NANOO says"},
		{Name: "attention_mask_value", Default: "-1000", Doc: "added to the scores of padding; model: as the recipe's model has it"},
	},
}

// Describe implements backend.Backend.
func (*Backend) Describe(context.Context) (backend.Info, error) { return info, nil }

// Open implements backend.Backend.
func (*Backend) Open(_ context.Context, p backend.Program, m backend.Memory) (backend.Session, error) {
	s, err := open(p, m)
	if err != nil {
		return nil, fmt.Errorf("ipu: %w", err)
	}
	return s, nil
}

func open(p backend.Program, m backend.Memory) (*session, error) {
	precision, err := info.Precision(p.Precision)
	if err != nil {
		return nil, err
	}
	v, err := option.Read(info.Options, p.Options)
	if err != nil {
		return nil, err
	}
	policy := newPolicy(precision.Name, v)
	if mask := v.Text("attention_mask_value"); mask != "model" {
		p.Model.AttentionMask, err = strconv.ParseFloat(mask, 64)
		if err != nil || !(p.Model.AttentionMask < 0) {
			return nil, fmt.Errorf("option attention_mask_value is %q, want model or a negative number", mask)
		}
	}
	scale := v.Float("loss_scale", 0x1p-24, 0x1p24)
	if err := v.Err(); err != nil {
		return nil, err
	}
	t, err := emulator.NewTrainer(p, m, policy, emulator.Plan{})
	if err != nil {
		return nil, err
	}
	return &session{Trainer: t, lossScale: scale}, nil
}

// newPolicy is the table of the package's documentation.
func newPolicy(precision string, v *option.Values) emulator.Policy {
	half := emulator.Store{Format: numerics.FP16, Stochastic: v.Bool("stochastic_rounding")}
	chunk := v.Int("partials_chunk", 1, 256)
	running := v.OneOf("accumulation", "mean", "running_mean") == "running_mean"
	overflow := numerics.Clip
	if v.OneOf("overflow", "clip", "nan") == "nan" {
		overflow = numerics.NaN
	}
	if precision == "fp32" {
		return emulator.Policy{RunningMean: running}
	}
	row := emulator.Row{Out: half, Grad: half, Weight: half}
	p := emulator.Policy{
		Embed: row, Linear: row, Pointwise: row, Residual: row, Norm: row, Statistics: half,
		Scores: row, Masked: half, Exponential: half, Reciprocal: half, Probabilities: row,
		LossGrad: half, Accumulate: half, RunningMean: running, Reduce: half, Parameters: half, Overflow: overflow,
	}
	if precision == "fp16.16" {
		p.Partials = emulator.Partials{Chunk: chunk, Store: half}
	}
	return p
}

// session is an opened program. It has no state: the loss scale is static and random bits are drawn from counters.
type session struct {
	*emulator.Trainer
	lossScale float64
}

// Step implements backend.Session.
func (s *session) Step(ctx context.Context, step backend.Step, batches iter.Seq2[*bert.Batch, error]) (backend.StepResult, error) {
	r, err := s.Trainer.Step(ctx, step, batches, s.lossScale)
	if err != nil {
		return r, fmt.Errorf("ipu: %w", err)
	}
	return r, nil
}

// Save implements backend.Session.
func (s *session) Save(context.Context) ([]byte, error) { return []byte("{}"), nil }

// Load implements backend.Session.
func (s *session) Load(_ context.Context, state []byte) error {
	if string(state) != "{}" {
		return fmt.Errorf("ipu: state of %d bytes, want that of an ipu session", len(state))
	}
	return nil
}
