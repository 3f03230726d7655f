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
	"harness.invalid/core/tensor"
)

// backendServer answers a host's calls with a backend.
type backendServer struct {
	pb.UnimplementedBackendServer
	store   *store
	backend backend.Backend
}

func (s *backendServer) Describe(ctx context.Context, _ *pb.DescribeRequest) (*pb.DescribeBackendResponse, error) {
	info, err := s.backend.Describe(ctx)
	if err != nil {
		return nil, err
	}
	r := &pb.DescribeBackendResponse{Name: info.Name, Version: info.Version, Doc: info.Doc, Options: optionsToWire(info.Options), RepeatsSteps: info.RepeatsSteps}
	for _, p := range info.Precisions {
		r.Precisions = append(r.Precisions, &pb.Precision{
			Name: p.Name, Doc: p.Doc, OutputTolerance: p.OutputTolerance, GradientTolerance: p.GradientTolerance, Reason: p.Reason,
		})
	}
	return r, nil
}

func (s *backendServer) Open(ctx context.Context, r *pb.OpenBackendRequest) (*pb.OpenBackendResponse, error) {
	program := programFromWire(r.GetProgram())
	if err := program.Validate(); err != nil {
		return nil, err
	}
	want, err := bert.Parameters(program.Model, program.Head)
	if err != nil {
		return nil, err
	}
	id, err := s.store.open(r.GetMemory(), 2, func(l *tensor.Layout, m *arena.Region) (io.Closer, any, error) {
		if !l.Equal(want) {
			return nil, nil, errors.New("memory's layout is not that of the program's parameters")
		}
		session, err := s.backend.Open(ctx, program, backend.Memory{Layout: l, Params: m.Params(), Grads: m.Grads()})
		return session, program, err
	})
	if err != nil {
		return nil, err
	}
	return &pb.OpenBackendResponse{Session: id}, nil
}

// acquire finds a backend's session and its program.
func (s *backendServer) acquire(ctx context.Context, id uint64) (*entry, backend.Session, backend.Program, error) {
	e, err := s.store.acquire(ctx, id)
	if err != nil {
		return nil, nil, backend.Program{}, err
	}
	session, ok := e.session.(backend.Session)
	program, _ := e.extra.(backend.Program)
	if !ok {
		e.release()
		return nil, nil, backend.Program{}, errors.New("not a backend's session")
	}
	return e, session, program, nil
}

func (s *backendServer) Step(stream grpc.ClientStreamingServer[pb.BackendStepRequest, pb.BackendStepResponse]) error {
	r, err := s.step(stream.Context(), stream.Recv, backend.Session.Step)
	if err != nil {
		return err
	}
	return stream.SendAndClose(r)
}

// step answers the stream of a step with what run makes of it.
func (s *backendServer) step(ctx context.Context, receive func() (*pb.BackendStepRequest, error),
	run func(backend.Session, context.Context, backend.Step, iter.Seq2[*bert.Batch, error]) (backend.StepResult, error)) (*pb.BackendStepResponse, error) {
	began := time.Now()
	first, err := receive()
	if err != nil {
		return nil, err
	}
	start := first.GetStart()
	if start == nil {
		return nil, errors.New("the first message of a step is not its start")
	}
	e, session, program, err := s.acquire(ctx, start.GetSession())
	if err != nil {
		return nil, err
	}
	defer e.release()
	result, err := run(session, ctx, backend.Step{
		Step:         int(start.GetStep()),
		Sequences:    int(start.GetSequences()),
		MaskedWeight: start.GetMaskedWeight(),

		NextSentenceWeight: start.GetNextSentenceWeight(),
	}, batches(program, true, func() (*pb.Batch, error) {
		m, err := receive()
		return m.GetBatch(), err
	}))
	if err != nil {
		return nil, err
	}
	return &pb.BackendStepResponse{
		Losses: lossesToWire(result.Losses), Finite: result.Finite, LossScale: result.LossScale, Overflows: result.Overflows,
		Phases: phasesToWire(result.Phases), Seconds: time.Since(began).Seconds(), Schedule: scheduleToWire(result.Schedule),
		Invalid: result.Invalid,
	}, nil
}

// batches puts the parts of batches together as they arrive. An error, such as a batch that the program can't take, ends the sequence.
func batches(p backend.Program, labels bool, receive func() (*pb.Batch, error)) iter.Seq2[*bert.Batch, error] {
	next := func() (*bert.Batch, error) {
		var whole *bert.Batch
		for {
			part, err := receive()
			if err != nil {
				if whole != nil && errors.Is(err, io.EOF) {
					return nil, errors.New("the stream ended within a batch")
				}
				return nil, err
			}
			if part == nil {
				return nil, errors.New("a message of the stream is not a batch")
			}
			b := batchFromWire(part)
			// Every part is checked before it is joined, so that its arrays have the lengths that it claims.
			if err := b.Validate(p.Model, p.Head, labels); err != nil {
				return nil, err
			}
			if whole == nil {
				whole = b
			} else if err := join(whole, b); err != nil {
				return nil, err
			}
			if !part.GetMore() {
				return whole, nil
			}
		}
	}
	return func(yield func(*bert.Batch, error) bool) {
		for {
			b, err := next()
			if errors.Is(err, io.EOF) || !yield(b, err) || err != nil {
				return
			}
		}
	}
}

func (s *backendServer) Commit(ctx context.Context, r *pb.CommitRequest) (*pb.CommitResponse, error) {
	e, session, _, err := s.acquire(ctx, r.GetSession())
	if err != nil {
		return nil, err
	}
	defer e.release()
	return &pb.CommitResponse{}, session.Commit(ctx, int(r.GetStep()))
}

func (s *backendServer) Evaluate(stream grpc.BidiStreamingServer[pb.EvaluateRequest, pb.EvaluateResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	start := first.GetStart()
	if start == nil {
		return errors.New("the first message of an evaluation is not its start")
	}
	e, session, program, err := s.acquire(stream.Context(), start.GetSession())
	if err != nil {
		return err
	}
	defer e.release()
	losses, err := session.Evaluate(stream.Context(), backend.Evaluation{Outputs: start.GetOutputs(), Labels: start.GetLabels()},
		batches(program, start.GetLabels(), func() (*pb.Batch, error) {
			m, err := stream.Recv()
			return m.GetBatch(), err
		}),
		func(outputs backend.Outputs) error { return sendOutputs(stream, start.GetOutputs(), outputs) })
	if err != nil {
		return err
	}
	return stream.Send(&pb.EvaluateResponse{Message: &pb.EvaluateResponse_Result{Result: &pb.EvaluateResult{Losses: lossesToWire(losses)}}})
}

// sendOutputs sends the outputs of one batch in the order in which they were asked for.
func sendOutputs(stream grpc.BidiStreamingServer[pb.EvaluateRequest, pb.EvaluateResponse], names []string, outputs backend.Outputs) error {
	for i, name := range names {
		o, ok := outputs[name]
		if !ok || slices.Contains(names[:i], name) {
			continue // the host says which is missing
		}
		if len(o.Values) != o.Shape.Len() {
			return fmt.Errorf("output %s has %d values for its shape %v", name, len(o.Values), o.Shape)
		}
		err := chunks(o.Values, func(_ int, values []float32) error {
			return stream.Send(&pb.EvaluateResponse{Message: &pb.EvaluateResponse_Output{Output: &pb.OutputChunk{
				Name: name, Shape: shapeToWire(o.Shape), Values: toBytes(values),
			}}})
		})
		if err != nil {
			return err
		}
	}
	return stream.Send(&pb.EvaluateResponse{Message: &pb.EvaluateResponse_End{End: &pb.BatchEnd{}}})
}

func (s *backendServer) Save(ctx context.Context, r *pb.SaveRequest) (*pb.SaveResponse, error) {
	e, session, _, err := s.acquire(ctx, r.GetSession())
	if err != nil {
		return nil, err
	}
	defer e.release()
	state, err := session.Save(ctx)
	if err != nil {
		return nil, err
	}
	if len(state) > maxStateBytes {
		return nil, fmt.Errorf("private state of %d bytes, want at most %d: large state belongs into memory that the host owns", len(state), maxStateBytes)
	}
	return &pb.SaveResponse{State: state}, nil
}

func (s *backendServer) Load(ctx context.Context, r *pb.LoadRequest) (*pb.LoadResponse, error) {
	e, session, _, err := s.acquire(ctx, r.GetSession())
	if err != nil {
		return nil, err
	}
	defer e.release()
	return &pb.LoadResponse{}, session.Load(ctx, r.GetState())
}

func (s *backendServer) Close(ctx context.Context, r *pb.CloseRequest) (*pb.CloseResponse, error) {
	return &pb.CloseResponse{}, s.store.close(ctx, r.GetSession())
}
