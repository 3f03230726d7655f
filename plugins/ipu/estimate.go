package ipu

import (
	"context"
	"fmt"

	"harness.invalid/core/backend"
	"harness.invalid/core/option"
	"harness.invalid/plugins/ipu/costmodel"
	"harness.invalid/plugins/ipu/execution"
)

var _ backend.Estimator = (*Backend)(nil)

// Estimate implements backend.Estimator. It prices the plan that Open executes; what the plan leaves open, such as the
// place of the optimizer's state, is chosen so that the program fits and is fast.
func (*Backend) Estimate(_ context.Context, p backend.Program, on backend.Machine) (backend.Estimate, error) {
	e, err := estimate(p, on)
	if err != nil {
		return e, fmt.Errorf("ipu: %w", err)
	}
	return e, nil
}

func estimate(p backend.Program, on backend.Machine) (backend.Estimate, error) {
	precision, err := info.Precision(p.Precision)
	if err != nil {
		return backend.Estimate{}, err
	}
	p.Precision = precision.Name
	v, err := option.Read(info.Options, p.Options)
	if err != nil {
		return backend.Estimate{}, err
	}
	plan, err := execution.Parse(&p)
	if err != nil {
		return backend.Estimate{}, err
	}
	system, err := costmodel.Find(on, v.Text("system"), p, plan)
	if err != nil {
		return backend.Estimate{}, err
	}
	e, err := costmodel.Estimate(p, plan, system, on)
	if err == nil || !on.Grow || on.Description != "" {
		return e, err
	}
	if larger := costmodel.Larger(system, p, plan); larger != nil {
		if grown, failed := costmodel.Estimate(p, plan, larger, on); failed == nil {
			return grown, nil
		}
	}
	return e, err
}

// Systems implements backend.Estimator.
func (*Backend) Systems(context.Context) ([]backend.System, error) { return costmodel.Systems.List() }

// Variations implements backend.Estimator: other numbers of IPUs for a replica.
func (*Backend) Variations(_ context.Context, p backend.Program, _ backend.Machine) ([]backend.Variation, error) {
	p.Accumulation = max(p.Accumulation, 1<<20) // so that one that is too small hides no pipeline
	plan, err := execution.Parse(&p)
	if err != nil {
		return nil, fmt.Errorf("ipu: %w", err)
	}
	return costmodel.Variations(&p, &plan), nil
}
