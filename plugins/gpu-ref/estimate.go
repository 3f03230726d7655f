package gpuref

import (
	"context"
	"fmt"
	"strings"

	"harness.invalid/core/backend"
	"harness.invalid/core/emulator"
	"harness.invalid/core/option"
	"harness.invalid/plugins/gpu-ref/costmodel"
	"harness.invalid/plugins/gpu-ref/execution"
)

var _ backend.Estimator = (*Backend)(nil)

// Estimate implements backend.Estimator.
func (*Backend) Estimate(_ context.Context, p backend.Program, on backend.Machine) (backend.Estimate, error) {
	e, err := estimate(p, on)
	if err != nil {
		return e, fmt.Errorf("gpu-ref: %w", err)
	}
	return e, nil
}

// Systems implements backend.Estimator.
func (*Backend) Systems(context.Context) ([]backend.System, error) { return costmodel.Systems.List() }

// Variations implements backend.Estimator: a GPU has all of the model.
func (*Backend) Variations(context.Context, backend.Program, backend.Machine) ([]backend.Variation, error) {
	return nil, nil
}

func estimate(p backend.Program, on backend.Machine) (backend.Estimate, error) {
	precision, err := modelledPrecision(&p)
	if err != nil {
		return backend.Estimate{}, err
	}
	p.Precision = precision
	v, err := option.Read(info.Options, p.Options)
	if err != nil {
		return backend.Estimate{}, err
	}
	plan, err := execution.Parse(&p)
	if err != nil {
		return backend.Estimate{}, err
	}
	system, err := costmodel.Systems.Find(on, v.Text("system"))
	if err != nil {
		return backend.Estimate{}, err
	}
	return costmodel.Estimate(p, plan, system, on)
}

// modelledPrecision is the precision of a program, or the policy that comes with it and that the model knows.
func modelledPrecision(p *backend.Program) (string, error) {
	quantised := costmodel.Quantises(p.Precision)
	if text := p.Options[backend.PolicyOption]; text != "" {
		if known, err := emulator.PolicyText(p.Precision); !quantised || err != nil || string(known) != text {
			return "", fmt.Errorf("the machine models know no policy of one's own, and of those that come with it %s: %w",
				strings.Join(costmodel.Policies(), ", "), backend.ErrUnsupported)
		}
	}
	if quantised {
		return p.Precision, nil
	}
	precision, err := info.Precision(p.Precision)
	return precision.Name, err
}
