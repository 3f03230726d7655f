// Package execution says how GPUs run a program: what they compute again, when they sum gradients, and in which lengths
// sequences come.
//
// Parse reads a Plan from the options of a program. The backend executes the plan (core/emulator) and the model of the
// machine prices it (plugins/gpu-ref/costmodel), so an option means the same to both.
package execution

import (
	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/emulator"
	"harness.invalid/core/option"
)

// Plan is how GPUs run a program. Each replica is one GPU with the whole model.
type Plan struct {
	// Plan is what runs; its recomputation is activation checkpointing.
	emulator.Plan
	// BucketBytes of gradients are reduced at a time.
	BucketBytes int
	// ReduceEach sums the gradients over the replicas after every micro-batch, not only after the last.
	ReduceEach bool
	// LengthBins is the width in tokens of the bins that the modelled loader deals sequences of pre-training in, each
	// batch from one of them and padded to its end; 0: all are padded to the full length, as in the run.
	LengthBins int
}

// Checkpointing reports whether the inputs of layers are kept only, and the rest is computed again.
func (p *Plan) Checkpointing() bool { return p.Recompute == bert.RecomputeLayer }

// Options are those that make a plan.
var Options = []option.Option{
	{Name: "bucket_cap_mb", Default: "25", Doc: "MiB of gradients that replicas reduce at a time"},
	{Name: "allreduce_post_accumulation", Default: "true", Doc: "reduce after the last micro-batch; false: after each"},
	{Name: "checkpoint_activations", Default: "false", Doc: "keep only the inputs of layers and compute the rest again"},
	{Name: "length_bins", Default: "64", Doc: "width of the bins of lengths in which the modelled loader deals pre-training " +
		"above 128 tokens; 0: all sequences are padded in full (modelled time)"},
}

// Parse reads the plan of a program from its options. Options of other names are passed over: a backend knows which of
// those there are.
func Parse(p *backend.Program) (Plan, error) {
	given := map[string]string{}
	for _, o := range Options {
		if value, ok := p.Options[o.Name]; ok {
			given[o.Name] = value
		}
	}
	v, err := option.Read(Options, given)
	if err != nil {
		return Plan{}, err
	}
	plan := Plan{
		BucketBytes: v.Int("bucket_cap_mb", 1, 1<<20) << 20, ReduceEach: !v.Bool("allreduce_post_accumulation"),
		LengthBins: v.Int("length_bins", 0, 1<<10),
	}
	if v.Bool("checkpoint_activations") {
		plan.Recompute = bert.RecomputeLayer
	}
	if err := v.Err(); err != nil {
		return Plan{}, err
	}
	plan.Plan, err = plan.Complete(&p.Model, p.Accumulation)
	return plan, err
}
