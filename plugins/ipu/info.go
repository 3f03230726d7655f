package ipu

import (
	"slices"

	"harness.invalid/core/backend"
	"harness.invalid/core/option"
	"harness.invalid/plugins/ipu/execution"
)

// info describes the backend; the default precision comes first. The errors that the tolerances bound are measured by
// TestTolerances of core/backend/backendtest.
var info = backend.Info{
	Name: "ipu", Version: "1", Doc: "Graphcore IPU: FP16 weights without masters, stochastic rounding",
	Precisions: []backend.Precision{
		{
			Name: "fp16.16", Doc: "FP16 with FP16 partial sums, no master weights", OutputTolerance: 1e-2, GradientTolerance: 1e-1,
			Reason: "FP16 has unit roundoff u = 2^-11 = 4.9e-4, twice that when rounded stochastically; weights, every result and " +
				"partial sums are rounded: outputs within 20u, gradients within 200u",
		},
		{
			Name: "fp16.32", Doc: "FP16 with FP32 partial sums, no master weights", OutputTolerance: 1e-2, GradientTolerance: 1e-1,
			Reason: "FP16 has unit roundoff u = 2^-11 = 4.9e-4, twice that when rounded stochastically; weights and every result are " +
				"rounded: outputs within 20u, gradients within 200u",
		},
		{
			Name: "fp8", Doc: "FP8 in the products of layers, else as fp16.16", OutputTolerance: 0.13, GradientTolerance: 1,
			Reason: "F143 has unit roundoff 2^-4 = 0.063 and F152 2^-3 = 0.13: outputs after a few layers within twice the first, " +
				"gradients within 8 times the second; those of query biases, sums that nearly cancel, come near",
		},
		{
			Name: "fp32", Doc: "FP32 throughout, to tell errors of the program from those of the format",
			OutputTolerance: 2e-5, GradientTolerance: 1e-4,
			Reason: "FP32 has unit roundoff 6e-8; sums over a few hundred products and a few layers stay below 1e-5",
		},
	},
	RepeatsSteps: true,
	Options: slices.Concat([]option.Option{
		{Name: "stochastic_rounding", Default: "true", Doc: "round FP16 stochastically in training; false: to nearest; " +
			"replica_identical_only: weights alone"},
		{Name: "disable_sr_for_amp_vertices", Default: "false", Doc: "round partial sums that the matrix unit stores to nearest (fp16.16)"},
		{Name: "rounding_seed", Default: "0", Doc: "another draw of all stochastic rounding with the same data and dropout, 0 to 65535"},
		{Name: "loss_scale", Default: "4096", Doc: "static factor of the loss; auto: follows the histogram of the gradients"},
		{Name: "initial_loss_scale", Default: "1", Doc: "first scale with loss_scale=auto"},
		{Name: "loss_scale_period", Default: "1", Doc: "steps between two changes with loss_scale=auto"},
		{Name: "loss_scale_bin_edge", Default: "0.125", Doc: "a gradient above this part of 65504 is large (loss_scale=auto)"},
		{Name: "loss_scale_threshold", Default: "1e-7", Doc: "share of large gradients above which the scale is halved (loss_scale=auto)"},
		{Name: "accumulation", Default: "mean", Doc: "mean: add FP16 gradients and divide at the end; running_mean: keep their mean"},
		{Name: "partials_chunk", Default: "amp", Doc: "products between two stores of an FP16 partial sum, 1 to 256; amp: " +
			"16, as the matrix unit stores them (fp16.16)"},
		{Name: "overflow", Default: "clip", Doc: "what is too large for FP16 becomes 65504 (clip) or not a number (nan), as FP_ICTL.NANOO says"},
		{Name: "fp8_history", Default: "0", Doc: "steps before whose largest magnitudes the scales of FP8 tensors follow; 0: their own (fp8)"},
		{Name: backend.InspectOption, Default: "0", Doc: "record what FP8 does to the operands of products, every so many steps; 0: never (fp8)"},
		{Name: "fp_exceptions", Default: "none", Doc: "exceptions that end the run: inv, oflo, both with a comma, or none"},
		{Name: "attention_mask_value", Default: "-1000", Doc: "added to the scores of padding; model: as the recipe's model has it"},
	}, execution.Options, []option.Option{
		{Name: "first_moment", Default: "fp32", Doc: "format in which the optimizer keeps its first moment: fp32 or fp16"},
		{Name: "system", Default: "bow-pod16", Doc: "whose time and memory are modelled, see harness estimate; none: nothing is"},
	}),
}
