package host

import (
	"context"
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
	r, err := b.p.backend.Estimate(c.ctx, &pb.EstimateRequest{
		Program: wire.EncodeProgram(program), System: on.System, Description: on.Description, Optimizer: on.Optimizer, Packing: on.Packing,
	})
	e := wire.DecodeEstimate(r)
	if err == nil && (!(e.StepSeconds > 0 && e.SequencesPerSecond > 0) || math.IsInf(e.StepSeconds, 0)) {
		err = localError{fmt.Errorf("it models %g seconds a step and %g sequences/s, want positive numbers", e.StepSeconds, e.SequencesPerSecond)}
	}
	if err := c.done(err); err != nil {
		return backend.Estimate{}, err
	}
	return e, nil
}
