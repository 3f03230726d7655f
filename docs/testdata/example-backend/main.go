// Command harness-backend-bf16-only is a third party's plugin: a device that has BF16 and nothing else, not even for its weights.
//
//	go build -o ~/plugins/harness-backend-bf16-only .
//	HARNESS_PLUGIN_PATH=~/plugins harness compare --backends gpu-ref:bf16,bf16-only
package main

import (
	"context"
	"fmt"
	"iter"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/emulator"
	"harness.invalid/core/numerics"
	"harness.invalid/core/option"
	"harness.invalid/core/plugin"
)

func main() { plugin.ServeBackend(device{}) }

type device struct{}

var info = backend.Info{
	Name: "bf16-only", Version: "1", Doc: "BF16 throughout, without master weights",
	Precisions: []backend.Precision{{
		Name: "bf16", Doc: "every store in BF16", OutputTolerance: 0.04, GradientTolerance: 0.2,
		Reason: "BF16 has unit roundoff u = 2^-8, twice that when rounded stochastically: outputs within 10u, gradients within 50u",
	}},
	Options: []option.Option{{Name: "stochastic_rounding", Default: "true", Doc: "round stochastically in training; false: to nearest"}},
}

func (device) Describe(context.Context) (backend.Info, error) { return info, nil }

func (device) Open(_ context.Context, p backend.Program, m backend.Memory) (backend.Session, error) {
	if _, err := info.Precision(p.Precision); err != nil {
		return nil, err
	}
	options, err := option.Read(info.Options, p.Options)
	if err != nil {
		return nil, err
	}
	s := emulator.Store{Format: numerics.BF16, Stochastic: options.Bool("stochastic_rounding")}
	if err := options.Err(); err != nil {
		return nil, err
	}
	row := emulator.Row{Out: s, Grad: s, Weight: s}
	t, err := emulator.NewTrainer(p, m, emulator.Policy{
		Embed: row, Linear: row, Pointwise: row, Residual: row, Norm: row, Scores: row, Probabilities: row,
		LossGrad: s, Accumulate: s, Reduce: s, Parameters: s,
	}, emulator.Plan{})
	if err != nil {
		return nil, err
	}
	return session{t}, nil
}

// session has Commit, Evaluate and Close from the trainer.
type session struct{ *emulator.Trainer }

func (s session) Step(ctx context.Context, step backend.Step, batches iter.Seq2[*bert.Batch, error]) (backend.StepResult, error) {
	return s.Trainer.Step(ctx, step, batches, 1) // BF16 has FP32's range and needs no loss scale
}

// Save has nothing to keep: the loss scale is fixed, and random bits are drawn from counters.
func (s session) Save(context.Context) ([]byte, error) { return []byte{0}, nil }

func (s session) Load(_ context.Context, state []byte) error {
	if len(state) != 1 || state[0] != 0 {
		return fmt.Errorf("state of %d bytes, want that of a bf16-only session", len(state))
	}
	return nil
}
