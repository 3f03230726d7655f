package gpuref

import (
	"slices"

	"harness.invalid/core/backend"
	"harness.invalid/core/option"
	"harness.invalid/plugins/gpu-ref/costmodel"
	"harness.invalid/plugins/gpu-ref/execution"
)

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
		{Name: "fp16", Doc: "autocast to FP16 with FP32 master weights and a dynamic loss scale",
			OutputTolerance: 4e-3, GradientTolerance: 2e-2,
			Reason: "FP16 has unit roundoff u = 2^-11 = 4.9e-4: outputs after a few layers within 8u, gradients within 40u"},
		{Name: "fp16-o2", Doc: "FP16 throughout with FP32 master weights and a dynamic loss scale, as apex at level O2",
			OutputTolerance: 4e-3, GradientTolerance: 2e-2,
			Reason: "FP16 has unit roundoff u = 2^-11 = 4.9e-4; weights and every result are rounded to nearest: outputs " +
				"within 8u, gradients within 40u"},
	},
	RepeatsSteps: true,
	Options: slices.Concat([]option.Option{
		{Name: "loss_scale", Default: "auto", Doc: "dynamic, a number, or auto: dynamic where gradients are FP16, 1 in other formats"},
		{Name: "init_scale", Default: "65536", Doc: "first scale of a dynamic loss scale"},
		{Name: "growth_interval", Default: "2000", Doc: "good steps in a row after which a dynamic loss scale doubles"},
		{Name: backend.InspectOption, Default: "0", Doc: "record what narrow formats do to operands of products, every so many steps; 0: never"},
		{Name: backend.PolicyOption, Doc: "table of number formats as YAML, in place of a precision; gpu-ref:FILE.yaml reads it from a file"},
	}, execution.Options, costmodel.Options),
}
