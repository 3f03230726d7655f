package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"harness.invalid/core/arena"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/plugin/internal/pb"
	"harness.invalid/core/tensor"
)

// optimizerServer answers a host's calls with an optimizer.
type optimizerServer struct {
	pb.UnimplementedOptimizerServer
	store     *store
	optimizer optimizer.Optimizer
}

func (s *optimizerServer) Describe(ctx context.Context, _ *pb.DescribeRequest) (*pb.DescribeOptimizerResponse, error) {
	info, err := s.optimizer.Describe(ctx)
	if err != nil {
		return nil, err
	}
	return &pb.DescribeOptimizerResponse{Name: info.Name, Version: info.Version, Doc: info.Doc, Options: optionsToWire(info.Options)}, nil
}

func (s *optimizerServer) Slots(ctx context.Context, r *pb.SlotsRequest) (*pb.SlotsResponse, error) {
	names, err := s.optimizer.Slots(ctx, r.GetOptions())
	if err != nil {
		return nil, err
	}
	return &pb.SlotsResponse{Names: names}, nil
}

func (s *optimizerServer) Open(ctx context.Context, r *pb.OpenOptimizerRequest) (*pb.OpenOptimizerResponse, error) {
	if r.GetSlots() > maxSlots {
		return nil, fmt.Errorf("%d slots, want at most %d", r.GetSlots(), maxSlots)
	}
	id, err := s.store.open(r.GetMemory(), 2+int(r.GetSlots()), func(l *tensor.Layout, m *arena.Region) (io.Closer, any, error) {
		session, err := s.optimizer.Open(ctx, r.GetOptions(), optimizer.Memory{Layout: l, Params: m.Params(), Grads: m.Grads(), Slots: m.Slots()})
		return session, nil, err
	})
	if err != nil {
		return nil, err
	}
	return &pb.OpenOptimizerResponse{Session: id}, nil
}

func (s *optimizerServer) Step(ctx context.Context, r *pb.OptimizerStepRequest) (*pb.OptimizerStepResponse, error) {
	start := time.Now()
	e, err := s.store.acquire(ctx, r.GetSession())
	if err != nil {
		return nil, err
	}
	defer e.release()
	session, ok := e.session.(optimizer.Session)
	if !ok {
		return nil, errors.New("not an optimizer's session")
	}
	result, err := session.Step(ctx, optimizer.Step{Step: int(r.GetStep()), LR: r.GetLearningRate()})
	if err != nil {
		return nil, err
	}
	return &pb.OptimizerStepResponse{GradientNorm: result.GradientNorm, Seconds: time.Since(start).Seconds()}, nil
}

func (s *optimizerServer) Close(ctx context.Context, r *pb.CloseRequest) (*pb.CloseResponse, error) {
	return &pb.CloseResponse{}, s.store.close(ctx, r.GetSession())
}
