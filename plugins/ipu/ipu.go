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
// The matrix unit (AMP) of the machine takes 16 products to each partial sum that it stores (4 wide dot products in 4 phases): partials_chunk=amp. The
// default, 256, is the coarsest and the cheapest to emulate; TestPartialsChunk shows what finer chunks add to the error. Its stores are rounded as all
// others, or to nearest with disable_sr_for_amp_vertices.
//
// The loss scale multiplies the mean loss of a micro-batch; gradients are kept scaled in FP16 and unscaled in FP32. Published configurations of BERT-Base
// and Large have 64 to 512. The default here, 4096, is what an untrained BERT-Tiny wants: the gradients of its query weights (56% off at scale 1) are as
// exact as they get, 0.2%, and the first overflow is beyond 2^17. With loss_scale=auto it follows a histogram: when more than a share of
// loss_scale_threshold of a step's gradients lie above loss_scale_bin_edge·65504, the scale is halved, else doubled, every loss_scale_period steps. The
// histogram counts the gradients of all parameters in all micro-batches; PopART's can count those of activations too.
//
// # Placement
//
// The option pipeline=3,7,7,7 puts so many layers on each IPU of a replica, the embeddings with the first ones. The heads of pre-training are a stage of
// their own on the first IPU again, since the decoder's weight is the embeddings'; the heads of other tasks are on the last IPU. 2.5 ends between the
// attention and the feed-forward half of a layer. The IPUs work at the same time, cycle by cycle:
//
//	schedule      stages of F forward stages  micro-batches in stage s  smallest accumulation
//	grouped       2F - 1                      2(F - 1 - s) + 1          2F - 1
//	interleaved   2F                          F - s                     F
//	sequential    2F - 1                      1                         1
//
// With execution=phased one IPU goes through phases of layers_per_phase layers, one after the other. Between forward and backward pass, recomputation=none
// keeps all activations of the micro-batches in a stage, layer the inputs of layers, and stage the input of the stage; the rest is computed again. None
// of this changes a bit. Embeddings and decoder cut by embedding_serialization do: the gradient of the decoder's input is a sum of so many FP16 products.
//
// Replicas are reduced as GCL does it, by a ring: reduce-scatter, then all-gather. Random bits of a replica's own work are its own (they are keyed by its
// samples), those of the update are the same in all replicas, so that their weights stay the same. With replicated_tensor_sharding each replica updates a
// share of the weights after the reduce-scatter and gathers the rest: the same numbers. It, optimizer_state=offchip and available_memory_proportion
// change time and memory of the modelled machine alone. first_moment goes to the optimizer, which keeps the first moment of the updates.
//
// Sources: graphcore/popart, poplibs and examples, 2021 to 2024; stochastic rounding: arXiv:2203.04058.
package ipu

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"

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
	RepeatsSteps: true,
	Options: []option.Option{
		{Name: "stochastic_rounding", Default: "true", Doc: "round FP16 stochastically in training; false: to nearest; replica_identical_only: weights alone"},
		{Name: "disable_sr_for_amp_vertices", Default: "false", Doc: "round partial sums that the matrix unit stores to nearest (fp16.16)"},
		{Name: "loss_scale", Default: "4096", Doc: "static factor of the loss; auto: follows the histogram of the gradients"},
		{Name: "initial_loss_scale", Default: "1", Doc: "first scale with loss_scale=auto"},
		{Name: "loss_scale_period", Default: "1", Doc: "steps between two changes with loss_scale=auto"},
		{Name: "loss_scale_bin_edge", Default: "0.125", Doc: "a gradient above this part of 65504 is large (loss_scale=auto)"},
		{Name: "loss_scale_threshold", Default: "1e-7", Doc: "share of large gradients above which the scale is halved (loss_scale=auto)"},
		{Name: "accumulation", Default: "mean", Doc: "mean: add FP16 gradients and divide at the end; running_mean: keep their mean"},
		{Name: "partials_chunk", Default: "256", Doc: "products between two stores of an FP16 partial sum, 1 to 256, or amp: 16, as the matrix unit stores them (fp16.16)"},
		{Name: "overflow", Default: "clip", Doc: "what is too large for FP16 becomes 65504 (clip) or not a number (nan), as FP_ICTL.NANOO says"},
		{Name: "fp_exceptions", Default: "none", Doc: "exceptions that end the run: inv, oflo, both with a comma, or none"},
		{Name: "attention_mask_value", Default: "-1000", Doc: "added to the scores of padding; model: as the recipe's model has it"},
		{Name: "pipeline", Default: wholeModel, Doc: "layers on each IPU of a replica, such as 3,7,7,7; all: one IPU"},
		{Name: "schedule", Default: "grouped", Doc: "of the pipeline: grouped, interleaved or sequential"},
		{Name: "recomputation", Default: "none", Doc: "activations kept for the backward pass: none recomputed, or only the inputs of each layer or stage"},
		{Name: "execution", Default: "pipelined", Doc: "pipelined, or phased: phases of layers follow each other, weights come from Streaming Memory"},
		{Name: "layers_per_phase", Default: "2", Doc: "layers of a phase with execution=phased"},
		{Name: "embedding_serialization", Default: "1", Doc: "slices of the vocabulary in which embeddings and decoder are computed"},
		{Name: "first_moment", Default: "fp32", Doc: "format in which the optimizer keeps its first moment: fp32 or fp16"},
		{Name: "replicated_tensor_sharding", Default: "true", Doc: "each replica keeps and updates a share of the optimizer's state (modelled time and memory)"},
		{Name: "optimizer_state", Default: "auto", Doc: "where the optimizer's state is: onchip, offchip (in Streaming Memory), or where it fits (modelled time and memory)"},
		{Name: "available_memory_proportion", Default: "auto", Doc: "part of a tile's memory for matrix products, of all IPUs or of each, or what fits (modelled time and memory)"},
		{Name: "system", Default: "bow-pod16", Doc: "whose time and memory are modelled, see harness estimate; none: nothing is"},
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
	scale, err := newScale(v, &policy)
	if err != nil {
		return nil, err
	}
	plan, err := newPlan(v, &p.Model, p.Head)
	if err != nil {
		return nil, err
	}
	stop, err := readExceptions(v.Text("fp_exceptions"))
	if err != nil {
		return nil, err
	}
	if err := checkModelled(v); err != nil {
		return nil, err
	}
	t, err := emulator.NewTrainer(p, m, policy, plan)
	if err != nil {
		return nil, err
	}
	return &session{Trainer: t, scale: scale, stop: stop}, nil
}

// ampChunk is the number of products that the matrix unit adds up between two stores of FP16 partial sums: dot products of 4 in the 4 phases of
// f16v4hihoamp, 16 input channels. Source: poplibs, conv_partial_1x1_half_float_8_and_half_half_h16.S.
const ampChunk = 16

// newPolicy is the table of the package's documentation.
func newPolicy(precision string, v *option.Values) emulator.Policy {
	rounding := v.Text("stochastic_rounding")
	nearest := emulator.Store{Format: numerics.FP16}
	half := nearest
	weights := emulator.Store{Format: numerics.FP16, Stochastic: true}
	if rounding != "replica_identical_only" {
		half.Stochastic = v.Bool("stochastic_rounding")
		weights = half
	}
	chunk := ampChunk
	if v.Text("partials_chunk") != "amp" {
		chunk = v.Int("partials_chunk", 1, 256)
	}
	running := v.OneOf("accumulation", "mean", "running_mean") == "running_mean"
	overflow := numerics.Clip
	if v.OneOf("overflow", "clip", "nan") == "nan" {
		overflow = numerics.NaN
	}
	serialize := v.Int("embedding_serialization", 1, 1<<10)
	partials := half
	if v.Bool("disable_sr_for_amp_vertices") {
		partials = nearest
	}
	if precision == "fp32" {
		return emulator.Policy{RunningMean: running, Serialize: serialize}
	}
	row := emulator.Row{Out: half, Grad: half, Weight: half}
	p := emulator.Policy{
		Inputs: numerics.FP16, // as everything is stored
		Embed:  row, Linear: row, Pointwise: row, Residual: row, Norm: row, Statistics: half,
		Scores: row, Masked: half, Exponential: half, Reciprocal: half, Probabilities: row,
		LossGrad: half, Accumulate: half, RunningMean: running, Reduce: half, Parameters: weights, Overflow: overflow,
		Serialize: serialize,
	}
	if precision == "fp16.16" {
		p.Partials = emulator.Partials{Chunk: chunk, Store: partials}
	}
	return p
}

// checkModelled reports bad values of the options that only the model of the machine reads, or the host for the optimizer (first_moment).
func checkModelled(v *option.Values) error {
	v.OneOf("first_moment", "fp32", "fp16")
	v.Bool("replicated_tensor_sharding")
	v.OneOf("optimizer_state", "auto", "onchip", "offchip")
	if v.Text("available_memory_proportion") == "auto" {
		return v.Err()
	}
	for text := range strings.SplitSeq(v.Text("available_memory_proportion"), ",") {
		if f, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err != nil || !(f > 0 && f <= 1) {
			return fmt.Errorf("option available_memory_proportion is %q, want a number above 0 and up to 1, or one for each IPU with commas between", v.Text("available_memory_proportion"))
		}
	}
	return v.Err()
}

var _ backend.Tracer = (*session)(nil)

// session is an opened program. Random bits are drawn from counters; its state is the loss scale.
type session struct {
	*emulator.Trainer
	scale scale
	stop  exceptions
}

// Step implements backend.Session.
func (s *session) Step(ctx context.Context, step backend.Step, batches iter.Seq2[*bert.Batch, error]) (backend.StepResult, error) {
	r, err := s.Trainer.Step(ctx, step, batches, s.scale.Scale)
	if err == nil {
		err = s.stop.check(step.Step, r)
	}
	if err != nil {
		return r, fmt.Errorf("ipu: %w", err)
	}
	s.scale.update(s.TakeHistogram())
	return r, nil
}

// Trace implements backend.Tracer.
func (s *session) Trace(ctx context.Context, step backend.Step, batches iter.Seq2[*bert.Batch, error], yield func(backend.Traced) error) (backend.StepResult, error) {
	defer s.Watch(yield)()
	return s.Step(ctx, step, batches)
}

// Save implements backend.Session.
func (s *session) Save(context.Context) ([]byte, error) { return s.scale.save() }

// Load implements backend.Session.
func (s *session) Load(_ context.Context, state []byte) error {
	if err := s.scale.load(state); err != nil {
		return fmt.Errorf("ipu: %w", err)
	}
	return nil
}
