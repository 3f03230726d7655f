// Package ipu is Graphcore's IPU as a backend, emulated on the CPU: FP16 weights without masters, stochastic
// rounding, and FP16 sums.
//
// The parameters are FP16: Commit rounds what the optimizer left in FP32 and writes it back. Every store of FP16 is
// rounded stochastically (or to nearest, see the option), in the forward and the backward pass, in sums of gradients
// and in the update of the weights. Evaluation rounds to nearest.
//
//	Operator                Computes in                               Result                   Gradient of inputs  Gradient of parameters
//	embeddings              FP32 sum of three                         FP16                     FP16                FP16, FP32 sum over tokens
//	linear X·Wᵀ + B         fp16.16: chunks of products in FP32,      FP16                     FP16                FP16; bias summed in FP32
//	                          their sums in FP16; fp16.32: FP32
//	GELU, tanh              FP32                                      FP16                     FP16
//	dropout                 FP32                                      FP16                     FP16
//	residual sum            FP32                                      FP16                     FP16
//	layer norm              mean and variance in FP32;                FP16                     FP16                FP16, FP32 sum over tokens
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
// policies/ has this table for each precision, as YAML that emulator.ParsePolicy reads; the options change it.
//
// A lookup of word embeddings adds to the decoder's gradient in FP32 before it is stored. The optimizer's moments are
// FP32 and the host's.
//
// # Partial sums
//
// The matrix unit (AMP) of the machine takes 16 products to each partial sum that it stores (4 wide dot products in 4
// phases), and so does this one: partials_chunk=amp, the default. A number of products, 1 to 256, replaces them. The
// answers to three questions, and their sources:
//
//	Question                              Answer                                        Source
//	in what are 16 products added?        FP32: the FP16 sum so far is widened,         AI-Float white paper (as quoted at
//	                                      added, and rounded to FP16 once               discourse.julialang.org/t/83638)
//	is the sum rounded stochastically?    where FP_ICTL.ESR is set, like other stores   the same: "either Round to Nearest (ties to
//	                                      of FP16; poplibs leaves it set in the         even) or Stochastic Rounding"; poplibs,
//	                                      vertices of the AMP unless told otherwise     ConvOptions.hpp and conv_sr_ctrl.h.S
//	where do sums of several tiles meet?  in ReduceAdd, which adds their FP16 sums      poplibs, codelets/ReduceAdd.cpp and .S;
//	                                      in FP32 and stores FP16 once                  partialsType.interTile, by default
//	                                                                                    partialsType: Convolution.hpp
//
// On the second, programs may differ: with disable_sr_for_amp_vertices, poplibs' name for it, partial sums alone are
// rounded to nearest. On the third, how many tiles share a sum is a choice of Poplar's planner. Here one tile has all of
// it, so that every partial sum but the first 16 products' adds to one that was rounded.
//
// Sums of amp are rounded while they are in registers, see core/kernels. Their random bits are those of random.Grid: a
// function of seed, purpose, step, first sample of the micro-batch, operator, row, column and chunk, so of neither
// threads nor blocks.
//
// The loss scale multiplies the mean loss of a micro-batch; gradients are kept scaled in FP16 and unscaled in FP32.
// Published configurations of BERT-Base and Large have 64 to 512. The default here, 4096, is what an untrained
// BERT-Tiny wants: the gradients of its query weights (56% off at scale 1) are as exact as they get, 0.2%, and the
// first overflow is beyond 2^17. With loss_scale=auto it follows a histogram: when more than a share of
// loss_scale_threshold of a step's gradients lie above loss_scale_bin_edge·65504, the scale is halved, else doubled,
// every loss_scale_period steps. The histogram counts the gradients of all parameters in all micro-batches; PopART's
// can count those of activations too.
//
// # FP8
//
// In fp8, which a C600 has, the operands of the products of layers are FP8: F143 for activations and weights, F152 for
// gradients, each tensor with one scale 2^k, k from -32 to 31. Everything else is that of fp16.16: results are FP16, and
// so are partial sums, of 32 products each. k is the least with which the tensor's largest magnitude in a micro-batch
// fits (arXiv:2309.17224, FP8-AMAX). With fp8_history=N it follows the largest magnitude of the last N steps, and what
// is too large becomes the largest value or not a number, as overflow says. Operands are rounded to nearest. The choice
// of k by the least squared error over a histogram is not here.
//
// # Execution
//
// plugins/ipu/execution reads where units of the model are and in which order they run; the model of the machine
// prices the same plan. pipeline=3,7,7,7 gives the layers on each IPU of a replica, with the embeddings on the
// first. The heads of pre-training are a stage of their own on the first IPU, since the decoder's weight is that of
// the embeddings; the heads of other tasks are on the last IPU. 2.5 ends between the attention and the feed-forward
// half of a layer. The IPUs work at the same time, cycle by cycle:
//
//	schedule      visits of F stages  micro-batches in stage s  smallest accumulation
//	grouped       2F - 1              2(F - 1 - s) + 1          2F - 1
//	interleaved   2F                  F - s                     F
//	sequential    2F - 1              1                         1
//
// With execution=phased one IPU goes through phases of layers_per_phase layers, one after the other. Between forward
// and backward pass a stage keeps all activations of its micro-batches (recomputation=none), the inputs of its layers
// (layer) or its own input (stage), and computes the rest again; the last stage of a pipeline recomputes nothing.
// None of this changes a bit. embedding_serialization does: the gradient of the decoder's input becomes a sum of so
// many FP16 products.
//
// Replicas are reduced as GCL does it, by a ring: reduce-scatter, then all-gather. The random bits of a replica's own
// work are its own, keyed by its samples; those of the update are the same in all replicas, which keeps their weights
// the same. With replicated_tensor_sharding each replica updates a share of the weights after the reduce-scatter and
// gathers the rest: the same numbers. It, optimizer_state and available_memory_proportion change time and memory of
// the modelled machine alone. first_moment goes to the optimizer, which keeps the first moment of the updates.
//
// Sources: graphcore/popart, poplibs and examples, 2021 to 2024; stochastic rounding: arXiv:2203.04058.
package ipu

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
	"harness.invalid/core/option"
	"harness.invalid/plugins/ipu/execution"
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
	policy, err := newPolicy(precision.Name, v)
	if err != nil {
		return nil, err
	}
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
	plan, err := execution.Parse(&p)
	if err != nil {
		return nil, err
	}
	policy.Serialize = plan.EmbeddingParts
	stop, err := readExceptions(v.Text("fp_exceptions"))
	if err != nil {
		return nil, err
	}
	every := v.Int(backend.InspectOption, 0, math.MaxInt32)
	v.OneOf("first_moment", "fp32", "fp16") // the host gives it to the optimizer
	if err := v.Err(); err != nil {
		return nil, err
	}
	t, err := emulator.NewTrainer(p, m, policy, plan.Plan)
	if err != nil {
		return nil, err
	}
	t.Inspect(every)
	return &session{Trainer: t, scale: scale, stop: stop}, nil
}

var _ backend.Tracer = (*session)(nil)

// session is an opened program. Random bits are drawn from counters; its state is the loss scale, and FP8 scales that
// follow a history.
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
func (s *session) Trace(
	ctx context.Context, step backend.Step, batches iter.Seq2[*bert.Batch, error], yield func(backend.Traced) error,
) (backend.StepResult, error) {
	defer s.Watch(yield)()
	return s.Step(ctx, step, batches)
}

// state is what a session saves whose FP8 scales follow a history; others save that of the loss scale alone.
type state struct {
	LossScale json.RawMessage `json:"loss_scale_state"`
	Scaling   json.RawMessage `json:"scaling"`
}

// Save implements backend.Session.
func (s *session) Save(context.Context) ([]byte, error) {
	text, err := s.scale.save()
	if err != nil {
		return nil, fmt.Errorf("ipu: %w", err)
	}
	scaling, err := s.SaveScaling()
	if err != nil {
		return nil, fmt.Errorf("ipu: %w", err)
	}
	if scaling == nil {
		return text, nil
	}
	return json.Marshal(state{text, scaling})
}

// Load implements backend.Session.
func (s *session) Load(_ context.Context, text []byte) error {
	var read state
	if err := json.Unmarshal(text, &read); err == nil && read.Scaling != nil {
		text = read.LossScale
	}
	err := s.scale.load(text)
	if err == nil {
		err = s.LoadScaling(read.Scaling)
	}
	if err != nil {
		return fmt.Errorf("ipu: %w", err)
	}
	return nil
}
