package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"google.golang.org/grpc"

	"harness.invalid/core/arena"
	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/plugin/internal/pb"
	"harness.invalid/core/plugin/internal/wire"
	"harness.invalid/core/tensor"
)

// backendServer answers a host's calls with a backend.
type backendServer struct {
	pb.UnimplementedBackendServer
	store   *store[backendSession]
	backend backend.Backend
}

// backendSession is an open session and its program, which every batch is checked against.
type backendSession struct {
	backend.Session
	program backend.Program
}

func (s *backendServer) Describe(ctx context.Context, _ *pb.DescribeRequest) (*pb.DescribeBackendResponse, error) {
	info, err := s.backend.Describe(ctx)
	if err != nil {
		return nil, err
	}
	return wire.EncodeBackendInfo(info), nil
}

func (s *backendServer) Open(ctx context.Context, r *pb.OpenBackendRequest) (*pb.OpenBackendResponse, error) {
	program := wire.DecodeProgram(r.GetProgram())
	if err := program.Validate(); err != nil {
		return nil, err
	}
	want, err := bert.Parameters(program.Model, program.Head)
	if err != nil {
		return nil, err
	}
	id, err := s.store.open(r.GetMemory(), 2, func(l *tensor.Layout, m *arena.Region) (backendSession, error) {
		if !l.Equal(want) {
			return backendSession{}, errors.New("memory's layout is not that of the program's parameters")
		}
		session, err := s.backend.Open(ctx, program, backend.Memory{Layout: l, Params: m.Params(), Grads: m.Grads()})
		return backendSession{session, program}, err
	})
	if err != nil {
		return nil, err
	}
	return &pb.OpenBackendResponse{Session: id}, nil
}

func (s *backendServer) Step(stream grpc.ClientStreamingServer[pb.BackendStepRequest, pb.BackendStepResponse]) error {
	r, err := s.step(stream.Context(), stream.Recv, backend.Session.Step)
	if err != nil {
		return err
	}
	return stream.SendAndClose(r)
}

// stepFunc is backend.Session.Step, or a call with the same result.
type stepFunc func(backend.Session, context.Context, backend.Step, iter.Seq2[*bert.Batch, error]) (backend.StepResult, error)

// step runs a step on the batches that it receives.
func (s *backendServer) step(
	ctx context.Context, receive func() (*pb.BackendStepRequest, error), run stepFunc,
) (*pb.BackendStepResponse, error) {
	began := time.Now()
	first, err := receive()
	if err != nil {
		return nil, err
	}
	start := first.GetStart()
	if start == nil {
		return nil, errors.New("the first message of a step is not its start")
	}
	e, err := s.store.acquire(ctx, start.GetSession())
	if err != nil {
		return nil, err
	}
	defer e.release()
	result, err := run(e.session.Session, ctx, backend.Step{
		Step:         int(start.GetStep()),
		Sequences:    int(start.GetSequences()),
		MaskedWeight: start.GetMaskedWeight(),

		NextSentenceWeight: start.GetNextSentenceWeight(),
		LabelWeight:        start.GetLabelWeight(),
	}, wire.Batches(e.session.program, true, func() (*pb.Batch, error) {
		m, err := receive()
		return m.GetBatch(), err
	}))
	if err != nil {
		return nil, err
	}
	if _, err := receive(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the backend ended its step before it had read all batches")
	}
	answer := wire.EncodeStepResult(result)
	answer.Seconds = time.Since(began).Seconds()
	return answer, nil
}

func (s *backendServer) Commit(ctx context.Context, r *pb.CommitRequest) (*pb.CommitResponse, error) {
	e, err := s.store.acquire(ctx, r.GetSession())
	if err != nil {
		return nil, err
	}
	defer e.release()
	return &pb.CommitResponse{}, e.session.Commit(ctx, int(r.GetStep()))
}

func (s *backendServer) Evaluate(stream evaluationStream) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	start := first.GetStart()
	if start == nil {
		return errors.New("the first message of an evaluation is not its start")
	}
	e, err := s.store.acquire(stream.Context(), start.GetSession())
	if err != nil {
		return err
	}
	defer e.release()
	losses, err := e.session.Evaluate(stream.Context(), backend.Evaluation{Outputs: start.GetOutputs(), Labels: start.GetLabels()},
		wire.Batches(e.session.program, start.GetLabels(), func() (*pb.Batch, error) {
			m, err := stream.Recv()
			return m.GetBatch(), err
		}),
		func(outputs backend.Outputs) error { return sendOutputs(stream, start.GetOutputs(), outputs) })
	if err != nil {
		return err
	}
	result := &pb.EvaluateResult{Losses: wire.EncodeLosses(losses)}
	return stream.Send(&pb.EvaluateResponse{Message: &pb.EvaluateResponse_Result{Result: result}})
}

// evaluationStream is the plugin's end of an evaluation.
type evaluationStream = grpc.BidiStreamingServer[pb.EvaluateRequest, pb.EvaluateResponse]

// sendOutputs sends the outputs of one batch in the order in which they were asked for.
func sendOutputs(stream evaluationStream, names []string, outputs backend.Outputs) error {
	for i, name := range names {
		o, ok := outputs[name]
		if !ok || slices.Contains(names[:i], name) {
			continue // the host reports which one is missing
		}
		if len(o.Values) != o.Shape.Len() {
			return fmt.Errorf("output %s has %d values for its shape %v", name, len(o.Values), o.Shape)
		}
		err := wire.Chunks(o.Values, func(_ int, values []float32) error {
			return stream.Send(&pb.EvaluateResponse{Message: &pb.EvaluateResponse_Output{Output: &pb.OutputChunk{
				Name: name, Shape: wire.EncodeShape(o.Shape), Values: wire.Bytes(values),
			}}})
		})
		if err != nil {
			return err
		}
	}
	return stream.Send(&pb.EvaluateResponse{Message: &pb.EvaluateResponse_End{End: &pb.BatchEnd{}}})
}

func (s *backendServer) Save(ctx context.Context, r *pb.SaveRequest) (*pb.SaveResponse, error) {
	e, err := s.store.acquire(ctx, r.GetSession())
	if err != nil {
		return nil, err
	}
	defer e.release()
	state, err := e.session.Save(ctx)
	if err != nil {
		return nil, err
	}
	if len(state) > wire.MaxStateBytes {
		return nil, fmt.Errorf("private state of %d bytes, want at most %d: large state belongs in memory that the host owns",
			len(state), wire.MaxStateBytes)
	}
	return &pb.SaveResponse{State: state}, nil
}

func (s *backendServer) Load(ctx context.Context, r *pb.LoadRequest) (*pb.LoadResponse, error) {
	e, err := s.store.acquire(ctx, r.GetSession())
	if err != nil {
		return nil, err
	}
	defer e.release()
	return &pb.LoadResponse{}, e.session.Load(ctx, r.GetState())
}

func (s *backendServer) Close(ctx context.Context, r *pb.CloseRequest) (*pb.CloseResponse, error) {
	return &pb.CloseResponse{}, s.store.close(ctx, r.GetSession())
}
