package host_test

import (
	goplugin "github.com/hashicorp/go-plugin"

	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"

	"harness.invalid/core/optimizer"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
	"harness.invalid/core/plugin/internal/pb"
)

// liar answers everything, and sends half of a section.
type liar struct {
	goplugin.NetRPCUnsupportedPlugin
	pb.UnimplementedOptimizerServer
}

func (l *liar) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	pb.RegisterOptimizerServer(s, l)
	pb.RegisterSectionsServer(s, liarsSections{})
	return nil
}

func (l *liar) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("only a server")
}

func (l *liar) Describe(context.Context, *pb.DescribeRequest) (*pb.DescribeOptimizerResponse, error) {
	return &pb.DescribeOptimizerResponse{Name: "liar"}, nil
}

func (l *liar) Slots(_ context.Context, r *pb.SlotsRequest) (*pb.SlotsResponse, error) {
	if r.GetOptions()["twice"] != "" {
		return &pb.SlotsResponse{Names: []string{"m", "m"}}, nil
	}
	return &pb.SlotsResponse{}, nil
}

func (l *liar) Open(context.Context, *pb.OpenOptimizerRequest) (*pb.OpenOptimizerResponse, error) {
	return &pb.OpenOptimizerResponse{Session: 1}, nil
}

func (l *liar) Step(context.Context, *pb.OptimizerStepRequest) (*pb.OptimizerStepResponse, error) {
	return &pb.OptimizerStepResponse{}, nil
}

func (l *liar) Close(context.Context, *pb.CloseRequest) (*pb.CloseResponse, error) {
	return &pb.CloseResponse{}, nil
}

type liarsSections struct{ pb.UnimplementedSectionsServer }

func (liarsSections) Push(s grpc.ClientStreamingServer[pb.SectionChunk, pb.PushResponse]) error {
	for {
		if _, err := s.Recv(); err != nil {
			return s.SendAndClose(&pb.PushResponse{})
		}
	}
}

func (liarsSections) Pull(_ *pb.PullRequest, s grpc.ServerStreamingServer[pb.SectionChunk]) error {
	return s.Send(&pb.SectionChunk{Values: make([]byte, 32)})
}

func (liarsSections) Settle(context.Context, *pb.SettleRequest) (*pb.SettleResponse, error) {
	return &pb.SettleResponse{}, nil
}

// TestLiar: a plugin in another language may answer anything.
func TestLiar(t *testing.T) {
	p := start(t, spec(t, plugin.Optimizer, "liar", host.Stream))
	u, _ := updates(t, p)
	_, err := u.Step(t.Context(), optimizer.Step{Step: 3, LR: 0.1})
	wants(t, err, "optimizer liar: step 3: it sent 8 elements of section 0, want 16")
	_, err = p.Optimizer().Slots(t.Context(), map[string]string{"twice": "1"})
	wants(t, err, "optimizer liar: slots", `"m" "m"`)
}
