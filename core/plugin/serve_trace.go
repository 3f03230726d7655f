package plugin

import (
	"context"
	"fmt"
	"iter"

	"google.golang.org/grpc"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/plugin/internal/pb"
	"harness.invalid/core/plugin/internal/wire"
)

func (s *backendServer) Trace(stream grpc.BidiStreamingServer[pb.BackendStepRequest, pb.TraceResponse]) error {
	trace := func(
		session backend.Session, ctx context.Context, step backend.Step, batches iter.Seq2[*bert.Batch, error],
	) (backend.StepResult, error) {
		t, ok := session.(backend.Tracer)
		if !ok {
			return backend.StepResult{}, fmt.Errorf("the backend can't show what its operators store: %w", backend.ErrUnsupported)
		}
		return t.Trace(ctx, step, batches, func(t backend.Traced) error { return sendTraced(stream, t) })
	}
	r, err := s.step(stream.Context(), stream.Recv, trace)
	if err != nil {
		return err
	}
	return stream.Send(&pb.TraceResponse{Message: &pb.TraceResponse_Result{Result: r}})
}

func sendTraced(stream grpc.BidiStreamingServer[pb.BackendStepRequest, pb.TraceResponse], t backend.Traced) error {
	if len(t.Values) != t.Shape.Len() {
		return fmt.Errorf("operator %s has %d values for its shape %v", t.Operator, len(t.Values), t.Shape)
	}
	return wire.Chunks(t.Values, func(_ int, values []float32) error {
		return stream.Send(&pb.TraceResponse{Message: &pb.TraceResponse_Traced{Traced: &pb.TracedChunk{
			Operator: t.Operator, Gradient: t.Gradient, Scale: t.Scale, Format: t.Format,
			Shape: wire.EncodeShape(t.Shape), Values: wire.Bytes(values),
		}}})
	})
}
