package ipu

import (
	"context"
	"fmt"

	"harness.invalid/core/backend"
	"harness.invalid/core/option"
	"harness.invalid/plugins/ipu/costmodel"
)

var _ backend.Estimator = (*Backend)(nil)

// Estimate implements backend.Estimator. Options that are not given leave the modelled machine free: it then runs the program as published
// configurations do, or as fast as fits.
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
	if err := checkModelled(v); err != nil {
		return backend.Estimate{}, err
	}
	settings, err := costmodel.ReadSettings(p.Options, p.Model.NumHiddenLayers)
	if err != nil {
		return backend.Estimate{}, err
	}
	system, err := costmodel.Find(on, v.Text("system"), p, settings)
	if err != nil {
		return backend.Estimate{}, err
	}
	e, err := costmodel.Estimate(p, settings, system, on)
	if err == nil || !on.Grow || on.Description != "" {
		return e, err
	}
	if larger := costmodel.Larger(system, p, settings); larger != nil {
		if grown, failed := costmodel.Estimate(p, settings, larger, on); failed == nil {
			return grown, nil
		}
	}
	return e, err
}

// Systems implements backend.Estimator.
func (*Backend) Systems(context.Context) ([]backend.System, error) { return costmodel.Systems.List() }

// Variations implements backend.Estimator: other numbers of IPUs for a replica.
func (*Backend) Variations(_ context.Context, p backend.Program, _ backend.Machine) ([]backend.Variation, error) {
	return costmodel.Variations(&p), nil
}
