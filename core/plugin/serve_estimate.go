package plugin

import (
	"context"
	"fmt"

	"harness.invalid/core/backend"
	"harness.invalid/core/plugin/internal/pb"
	"harness.invalid/core/plugin/internal/wire"
)

func (s *backendServer) Estimate(ctx context.Context, r *pb.EstimateRequest) (*pb.EstimateResponse, error) {
	e, err := s.estimator()
	if err != nil {
		return nil, err
	}
	program := wire.DecodeProgram(r.GetProgram())
	if err := program.Validate(); err != nil {
		return nil, err
	}
	estimate, err := e.Estimate(ctx, program, wire.DecodeMachine(r))
	if err != nil {
		return nil, err
	}
	return wire.EncodeEstimate(estimate), nil
}

func (s *backendServer) Systems(ctx context.Context, _ *pb.SystemsRequest) (*pb.SystemsResponse, error) {
	e, err := s.estimator()
	if err != nil {
		return nil, err
	}
	systems, err := e.Systems(ctx)
	if err != nil {
		return nil, err
	}
	return wire.EncodeSystems(systems), nil
}

func (s *backendServer) Variations(ctx context.Context, r *pb.EstimateRequest) (*pb.VariationsResponse, error) {
	e, err := s.estimator()
	if err != nil {
		return nil, err
	}
	program := wire.DecodeProgram(r.GetProgram())
	if err := program.Validate(); err != nil {
		return nil, err
	}
	variations, err := e.Variations(ctx, program, wire.DecodeMachine(r))
	if err != nil {
		return nil, err
	}
	return wire.EncodeVariations(variations), nil
}

func (s *backendServer) estimator() (backend.Estimator, error) {
	e, ok := s.backend.(backend.Estimator)
	if !ok {
		return nil, fmt.Errorf("the backend has no model of its machine: %w", backend.ErrUnsupported)
	}
	return e, nil
}
