package gpuref

import (
	"embed"

	"harness.invalid/core/backend"
	"harness.invalid/core/emulator"
	"harness.invalid/core/numerics"
	"harness.invalid/core/option"
)

//go:embed policies/*.yaml
var policies embed.FS

// firstBucketBytes is the size of DistributedDataParallel's first bucket, so that the reduction begins early. Source:
// pytorch, torch/csrc/distributed/c10d/reducer.hpp (kDefaultFirstBucketBytes).
const firstBucketBytes = 1 << 20

// readPolicy returns the table of backend.PolicyOption or, where that is not given, of a precision.
func readPolicy(precision string, v *option.Values) (emulator.Policy, error) {
	if text := v.Text(backend.PolicyOption); text != "" {
		return emulator.ParsePolicy(precision, []byte(text))
	}
	p, err := info.Precision(precision)
	if err != nil {
		return emulator.Policy{}, err
	}
	text, err := policies.ReadFile("policies/" + p.Name + ".yaml")
	if err != nil {
		return emulator.Policy{}, err
	}
	return emulator.ParsePolicy(p.Name, text)
}

// scaled reports whether a policy keeps gradients in FP16, which want a loss scale.
func scaled(p *emulator.Policy) bool {
	return p.LossGrad.Format == numerics.FP16 || p.Linear.Grad.Format == numerics.FP16
}
