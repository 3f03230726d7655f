package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"google.golang.org/grpc"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/plugin/internal/pb"
	"harness.invalid/core/plugin/internal/wire"
	"harness.invalid/core/tensor"
)

var _ backend.Tracer = (*backendSession)(nil)

// Trace implements backend.Tracer. It fails with backend.ErrUnsupported if the plugin cannot show what its
// operators store.
func (s *backendSession) Trace(
	ctx context.Context, step backend.Step, batches batchSeq, yield func(backend.Traced) error,
) (backend.StepResult, error) {
	c := s.timed(ctx, "trace", s.operations(stepOperations), "trace of step %d", step.Step)
	r, err := s.trace(c, step, batches, yield)
	if err := c.done(err); err != nil {
		return backend.StepResult{}, err
	}
	return r, nil
}

func (s *backendSession) trace(
	c *call, step backend.Step, batches batchSeq, yield func(backend.Traced) error,
) (backend.StepResult, error) {
	if err := s.sections.before(c.ctx, s.id, wire.Params); err != nil {
		return backend.StepResult{}, err
	}
	stream, err := s.p.backend.Trace(c.ctx)
	if err != nil {
		return backend.StepResult{}, err
	}
	// Batches go out while tensors come in. The receiving side must know the shape of the first one.
	first := make(chan bert.Shape, 1)
	sending := make(chan error, 1)
	go func() {
		err := s.sendStep(c, step, measured(batches, first), func(r *pb.BackendStepRequest) error {
			c.progress()
			return stream.Send(r)
		})
		if err == nil {
			err = stream.CloseSend()
		} else if !errors.Is(err, io.EOF) { // io.EOF: the receiving side has what the plugin said
			c.cancel(err)
		}
		sending <- err
	}()
	w, err := s.receiveTrace(c, stream, first, yield)
	if err != nil {
		// The sender may be waiting for room; it must end before the caller gets its iterator back.
		c.cancel(nil)
	}
	if local := (localError{}); errors.As(<-sending, &local) {
		return backend.StepResult{}, local
	}
	if err != nil {
		return backend.StepResult{}, err
	}
	return s.stepped(c, w)
}

// measured sends the shape of the first batch before it yields that batch.
func measured(batches batchSeq, first chan<- bert.Shape) batchSeq {
	return func(yield func(*bert.Batch, error) bool) {
		told := false
		for b, err := range batches {
			if b != nil && !told {
				told = true
				first <- bert.Shape{Size: b.Size, Length: b.Length, Predictions: b.Predictions, Sequences: b.Sequences}
			}
			if !yield(b, err) {
				return
			}
		}
	}
}

func (s *backendSession) receiveTrace(
	c *call, stream grpc.BidiStreamingClient[pb.BackendStepRequest, pb.TraceResponse],
	first <-chan bert.Shape, yield func(backend.Traced) error,
) (*pb.BackendStepResponse, error) {
	a := tracedAssembler{yield: yield, done: map[tracedKey]bool{}}
	for {
		m, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = localError{errors.New("it ended the trace without a result")}
			}
			return nil, err
		}
		c.progress()
		switch m := m.GetMessage().(type) {
		case *pb.TraceResponse_Traced:
			if a.want == nil {
				select {
				case shape := <-first:
					a.want = tracedShapes(s.program, shape)
				default:
					return nil, localError{errors.New("it sent tensors of a micro-batch that it did not get")}
				}
			}
			if err := a.add(m.Traced); err != nil {
				return nil, localError{err}
			}
		case *pb.TraceResponse_Result:
			if a.tensor != nil {
				return nil, localError{a.cut()}
			}
			// Only the end of the stream says that the plugin's call is over and that it no longer writes to memory.
			if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
				if err == nil {
					err = localError{errors.New("it sent more after the result of the trace")}
				}
				return nil, err
			}
			return m.Result, nil
		default:
			return nil, localError{errors.New("it sent a message that is neither a tensor nor a result")}
		}
	}
}

// tracedKey identifies a tensor of a trace.
type tracedKey struct {
	operator string
	gradient bool
}

// tracedShapes are the shapes of the results of a program's operators for a micro-batch.
func tracedShapes(p backend.Program, micro bert.Shape) map[string]tensor.Shape {
	shapes := map[string]tensor.Shape{}
	for _, o := range bert.Operators(p.Model, p.Head) {
		shapes[o.Name] = o.Shape(micro)
	}
	return shapes
}

// tracedAssembler assembles the tensors of a trace, one after the other.
type tracedAssembler struct {
	want   map[string]tensor.Shape
	yield  func(backend.Traced) error
	tensor *backend.Traced // the incomplete one; nil: none
	done   map[tracedKey]bool
	values []float32
}

// add takes a chunk and yields the tensor that it completes. Names, shapes and lengths must be those of the model.
func (a *tracedAssembler) add(w *pb.TracedChunk) error {
	key := tracedKey{w.GetOperator(), w.GetGradient()}
	what := "result"
	if key.gradient {
		what = "gradient"
	}
	if a.tensor == nil {
		want, ok := a.want[key.operator]
		switch {
		case !ok:
			return fmt.Errorf("it sent the %s of an operator %q that the model does not have", what, key.operator)
		case a.done[key]:
			return fmt.Errorf("it sent the %s of %s twice", what, key.operator)
		case !slices.Equal(wire.DecodeShape(w.GetShape()), want):
			return fmt.Errorf("it sent the %s of %s with shape %v, want %v", what, key.operator, w.GetShape(), want)
		case !(w.GetScale() > 0) || w.GetScale()-w.GetScale() != 0:
			return fmt.Errorf("it sent the %s of %s with scale %g, want a positive number", what, key.operator, w.GetScale())
		}
		a.done[key] = true
		a.tensor = &backend.Traced{
			Operator: key.operator, Gradient: key.gradient, Scale: w.GetScale(), Format: w.GetFormat(), Shape: want, Values: a.values[:0],
		}
	} else if a.tensor.Operator != key.operator || a.tensor.Gradient != key.gradient {
		return a.cut()
	}
	at := len(a.tensor.Values)
	n := len(w.GetValues()) / 4
	if left := a.tensor.Shape.Len() - at; len(w.GetValues())%4 != 0 || n > left || n == 0 && left > 0 {
		return fmt.Errorf("it sent %d bytes of the %s of %s where %d values are left", len(w.GetValues()), what, key.operator, left)
	}
	a.tensor.Values = slices.Grow(a.tensor.Values, n)[:at+n]
	wire.CopyFloats(a.tensor.Values[at:], w.GetValues())
	if at+n < a.tensor.Shape.Len() {
		return nil
	}
	t := *a.tensor
	a.tensor, a.values = nil, t.Values
	return a.yield(t)
}

// cut is the error for a tensor whose rest did not come.
func (a *tracedAssembler) cut() error {
	t := a.tensor
	return fmt.Errorf("it sent %d values of %s, want %d for shape %v", len(t.Values), t.Operator, t.Shape.Len(), t.Shape)
}
