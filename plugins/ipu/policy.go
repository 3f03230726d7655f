package ipu

import (
	"harness.invalid/core/emulator"
	"harness.invalid/core/numerics"
	"harness.invalid/core/option"
)

// ampChunk is the number of products that the matrix unit adds up between two stores of FP16 partial sums: dot
// products of 4 in the 4 phases of f16v4hihoamp, 16 input channels. Source: poplibs,
// conv_partial_1x1_half_float_8_and_half_half_h16.S.
const ampChunk = 16

// newPolicy is the table of the package's documentation, without the parts of the embeddings.
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
	partials := half
	if v.Bool("disable_sr_for_amp_vertices") {
		partials = nearest
	}
	seed := uint64(v.Int("rounding_seed", 0, 65535))
	if precision == "fp32" {
		return emulator.Policy{RunningMean: running}
	}
	row := emulator.Row{Out: half, Grad: half, Weight: half}
	p := emulator.Policy{
		Inputs: numerics.FP16, // as everything is stored
		Embed:  row, Linear: row, Pointwise: row, Residual: row, Norm: row, Statistics: half,
		Scores: row, Masked: half, Exponential: half, Reciprocal: half, Probabilities: row,
		LossGrad: half, Accumulate: half, RunningMean: running, Reduce: half, Parameters: weights, Overflow: overflow,
		RoundingSeed: seed,
	}
	if precision == "fp16.16" {
		p.Partials = emulator.Partials{Chunk: chunk, Store: partials}
	}
	return p
}
