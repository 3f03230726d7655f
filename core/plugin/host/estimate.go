package host

import (
	"context"
	"errors"
	"fmt"
	"math"

	"harness.invalid/core/backend"
	"harness.invalid/core/plugin/internal/pb"
	"harness.invalid/core/plugin/internal/wire"
)

var _ backend.Estimator = backendClient{}

// Estimate implements backend.Estimator. It fails with backend.ErrUnsupported if the plugin has no model of its
// machine.
func (b backendClient) Estimate(ctx context.Context, program backend.Program, on backend.Machine) (backend.Estimate, error) {
	c := b.p.call(ctx, 0, b.p.spec.Timeouts.Call, "estimate")
	r, err := b.p.backend.Estimate(c.ctx, wire.EncodeMachine(program, on))
	e := wire.DecodeEstimate(r)
	if err == nil && (!(e.StepSeconds > 0 && e.SequencesPerSecond > 0) || math.IsInf(e.StepSeconds, 0)) {
		err = localError{fmt.Errorf("it models %g seconds a step and %g sequences/s, want positive numbers", e.StepSeconds, e.SequencesPerSecond)}
	}
	if err := c.done(err); err != nil {
		return backend.Estimate{}, err
	}
	return e, nil
}

// Systems implements backend.Estimator. It is empty if the plugin lists none.
func (b backendClient) Systems(ctx context.Context) ([]backend.System, error) {
	c := b.p.call(ctx, 0, b.p.spec.Timeouts.Call, "systems")
	r, err := b.p.backend.Systems(c.ctx, &pb.SystemsRequest{})
	if err := c.done(err); err != nil && !errors.Is(err, backend.ErrUnsupported) {
		return nil, err
	}
	return wire.DecodeSystems(r), nil
}

// Variations implements backend.Estimator. It is empty if the plugin lists none.
func (b backendClient) Variations(ctx context.Context, program backend.Program, on backend.Machine) ([]backend.Variation, error) {
	c := b.p.call(ctx, 0, b.p.spec.Timeouts.Call, "variations")
	r, err := b.p.backend.Variations(c.ctx, wire.EncodeMachine(program, on))
	if err := c.done(err); err != nil && !errors.Is(err, backend.ErrUnsupported) {
		return nil, err
	}
	return wire.DecodeVariations(r), nil
}
