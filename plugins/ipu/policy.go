package ipu

import (
	"embed"

	"harness.invalid/core/emulator"
	"harness.invalid/core/format"
	"harness.invalid/core/numerics"
	"harness.invalid/core/option"
)

//go:embed policies/*.yaml
var policies embed.FS

// newPolicy is the table of the package's documentation, without the parts of the embeddings: that of the precision,
// changed by the options.
func newPolicy(precision string, v *option.Values) (emulator.Policy, error) {
	text, err := policies.ReadFile("policies/" + precision + ".yaml")
	if err != nil {
		return emulator.Policy{}, err
	}
	p, err := emulator.ParsePolicy(precision, text)
	if err != nil {
		return p, err
	}
	rounding := v.Text("stochastic_rounding")
	stochastic := rounding != "replica_identical_only" && v.Bool("stochastic_rounding")
	chunk := p.Partials.Chunk
	if v.Text("partials_chunk") != "amp" {
		chunk = v.Int("partials_chunk", 1, 256)
	}
	p.RunningMean = v.OneOf("accumulation", "mean", "running_mean") == "running_mean"
	overflow := numerics.Clip
	if v.OneOf("overflow", "clip", "nan") == "nan" {
		overflow = numerics.NaN
	}
	nearest := v.Bool("disable_sr_for_amp_vertices")
	seed := uint64(v.Int("rounding_seed", 0, 65535))
	history := v.Int("fp8_history", 0, 65536)
	if precision == "fp32" {
		return p, nil
	}
	p.Overflow, p.RoundingSeed = overflow, seed
	if !stochastic {
		p = p.Nearest()
		p.Parameters.Stochastic = rounding == "replica_identical_only"
	}
	if p.Partials.Chunk > 0 {
		if p.Partials.Chunk != chunk {
			p.Products.Chunk = 0 // one is given for all
		}
		p.Partials.Chunk = chunk
		p.Partials.Store.Stochastic = p.Partials.Store.Stochastic && !nearest
	}
	if precision != "fp8" {
		return p, nil
	}
	p.Products.Delayed.History = history
	if overflow == numerics.NaN {
		err = p.Products.Overflow(format.ToNaN)
	}
	return p, err
}
