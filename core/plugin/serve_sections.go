package plugin

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	"harness.invalid/core/plugin/internal/pb"
	"harness.invalid/core/plugin/internal/wire"
)

// sectionsServer moves sections of sessions whose memory is streamed.
type sectionsServer[S io.Closer] struct {
	pb.UnimplementedSectionsServer
	store *store[S]
}

func (s *sectionsServer[S]) Push(stream grpc.ClientStreamingServer[pb.SectionChunk, pb.PushResponse]) error {
	chunk, err := stream.Recv()
	if errors.Is(err, io.EOF) {
		return stream.SendAndClose(&pb.PushResponse{})
	}
	if err != nil {
		return err
	}
	e, err := s.store.acquire(stream.Context(), chunk.GetSession())
	if err != nil {
		return err
	}
	defer e.release()
	for !errors.Is(err, io.EOF) {
		if err != nil {
			return err
		}
		if err := e.memory.write(chunk); err != nil {
			return err
		}
		chunk, err = stream.Recv()
	}
	return stream.SendAndClose(&pb.PushResponse{})
}

func (s *sectionsServer[S]) Pull(r *pb.PullRequest, stream grpc.ServerStreamingServer[pb.SectionChunk]) error {
	e, err := s.store.acquire(stream.Context(), r.GetSession())
	if err != nil {
		return err
	}
	defer e.release()
	section, err := e.memory.section(r.GetSection())
	if err != nil {
		return err
	}
	return wire.Chunks(section, func(offset int, values []float32) error {
		return stream.Send(&pb.SectionChunk{
			Session: r.GetSession(), Section: r.GetSection(), Offset: uint64(offset), Values: wire.Bytes(values),
		})
	})
}

func (s *sectionsServer[S]) Settle(ctx context.Context, r *pb.SettleRequest) (*pb.SettleResponse, error) {
	e, err := s.store.acquire(ctx, r.GetSession())
	if err != nil {
		return nil, err
	}
	e.release()
	return &pb.SettleResponse{}, nil
}
