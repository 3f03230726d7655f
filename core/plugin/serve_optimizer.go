package plugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"harness.invalid/core/arena"
	"harness.invalid/core/backend"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/plugin/internal/pb"
	"harness.invalid/core/plugin/internal/wire"
	"harness.invalid/core/tensor"
)

// optimizerServer answers a host's calls with an optimizer.
type optimizerServer struct {
	pb.UnimplementedOptimizerServer
	store     *store[optimizer.Session]
	optimizer optimizer.Optimizer
}

func (s *optimizerServer) Describe(ctx context.Context, _ *pb.DescribeRequest) (*pb.DescribeOptimizerResponse, error) {
	info, err := s.optimizer.Describe(ctx)
	if err != nil {
		return nil, err
	}
	return wire.EncodeOptimizerInfo(info), nil
}

func (s *optimizerServer) Slots(ctx context.Context, r *pb.SlotsRequest) (*pb.SlotsResponse, error) {
	names, err := s.optimizer.Slots(ctx, r.GetOptions())
	if err != nil {
		return nil, err
	}
	return &pb.SlotsResponse{Names: names}, nil
}

func (s *optimizerServer) Cost(ctx context.Context, r *pb.CostRequest) (*pb.CostResponse, error) {
	layout, err := wire.DecodeLayout(r.GetTensors())
	if err != nil {
		return nil, err
	}
	cost, err := optimizer.Cost{}, optimizer.ErrNoCost
	if o, ok := s.optimizer.(optimizer.Coster); ok {
		cost, err = o.Cost(ctx, r.GetOptions(), layout)
	}
	if errors.Is(err, optimizer.ErrNoCost) {
		return nil, fmt.Errorf("%w: %w", err, backend.ErrUnsupported)
	}
	if err != nil {
		return nil, err
	}
	return &pb.CostResponse{Cost: wire.EncodeCost(cost)}, nil
}

func (s *optimizerServer) Open(ctx context.Context, r *pb.OpenOptimizerRequest) (*pb.OpenOptimizerResponse, error) {
	if r.GetSlots() > wire.MaxSlots {
		return nil, fmt.Errorf("%d slots, want at most %d", r.GetSlots(), wire.MaxSlots)
	}
	id, err := s.store.open(r.GetMemory(), 2+int(r.GetSlots()), func(l *tensor.Layout, m *arena.Region) (optimizer.Session, error) {
		memory := optimizer.Memory{Layout: l, Params: m.Params(), Grads: m.Grads(), Slots: m.Slots()}
		return s.optimizer.Open(ctx, r.GetOptions(), memory)
	})
	if err != nil {
		return nil, err
	}
	return &pb.OpenOptimizerResponse{Session: id}, nil
}

func (s *optimizerServer) Step(ctx context.Context, r *pb.OptimizerStepRequest) (*pb.OptimizerStepResponse, error) {
	start := time.Now()
	var result optimizer.StepResult
	err := withSession(ctx, s.store, r.GetSession(), func(session optimizer.Session) (err error) {
		result, err = session.Step(ctx, optimizer.Step{Step: int(r.GetStep()), LR: r.GetLearningRate(), GradientNorm: r.GetGradientNorm()})
		return err
	})
	if err != nil {
		return nil, err
	}
	return &pb.OptimizerStepResponse{GradientNorm: result.GradientNorm, Seconds: time.Since(start).Seconds()}, nil
}

func (s *optimizerServer) Probe(ctx context.Context, r *pb.OptimizerProbeRequest) (*pb.OptimizerProbeResponse, error) {
	return &pb.OptimizerProbeResponse{}, withSession(ctx, s.store, r.GetSession(), func(session optimizer.Prober) error {
		return session.Probe(ctx, optimizer.Step{Step: int(r.GetStep()), LR: r.GetLearningRate(), GradientNorm: r.GetGradientNorm()})
	})
}

func (s *optimizerServer) Average(ctx context.Context, r *pb.AverageRequest) (*pb.AverageResponse, error) {
	return &pb.AverageResponse{}, withSession(ctx, s.store, r.GetSession(), func(session optimizer.Averager) error {
		return session.Average(ctx, int(r.GetStep()))
	})
}

// withSession calls f with an open session, if that session has the call.
func withSession[S optimizer.Session](ctx context.Context, open *store[optimizer.Session], id uint64, f func(session S) error) error {
	e, err := open.acquire(ctx, id)
	if err != nil {
		return err
	}
	defer e.release()
	session, ok := e.session.(S)
	if !ok {
		return fmt.Errorf("the sessions of this optimizer have no such call: %w", backend.ErrUnsupported)
	}
	return f(session)
}

func (s *optimizerServer) Close(ctx context.Context, r *pb.CloseRequest) (*pb.CloseResponse, error) {
	return &pb.CloseResponse{}, s.store.close(ctx, r.GetSession())
}
