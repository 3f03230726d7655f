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

func (s *backendSession) Evaluate(
	ctx context.Context, e backend.Evaluation, batches batchSeq, yield func(backend.Outputs) error,
) (bert.Losses, error) {
	c := s.timed(ctx, "evaluate", s.operations(forwardOperations), "evaluate")
	losses, err := s.evaluate(c, e, batches, yield)
	if err := c.done(err); err != nil {
		return bert.Losses{}, err
	}
	return losses, nil
}

func (s *backendSession) evaluate(
	c *call, e backend.Evaluation, batches batchSeq, yield func(backend.Outputs) error,
) (bert.Losses, error) {
	if err := s.sections.before(c.ctx, s.id, wire.Params); err != nil {
		return bert.Losses{}, err
	}
	stream, err := s.p.backend.Evaluate(c.ctx)
	if err != nil {
		return bert.Losses{}, err
	}
	// Batches go out while outputs come in. The receiving side must know the extent of each batch sent, in order.
	sent := make(chan extent, batchesAhead)
	sending := make(chan error, 1)
	go func() {
		defer close(sent)
		sending <- s.sendEvaluation(c, stream, e, batches, sent)
	}()
	losses, err := s.receive(c, stream, e, sent, yield)
	if err != nil {
		// The sender may be waiting for room; it must end before the caller gets its iterator back.
		c.cancel(nil)
	}
	sendErr := <-sending
	if local := (localError{}); errors.As(sendErr, &local) {
		return bert.Losses{}, local
	}
	return losses, err
}

// batchesAhead is how many batches may be in flight. It is large, as gRPC's flow control stops a sender whose
// plugin does not read.
const batchesAhead = 1 << 10

// extent is the size of a batch: rows, and tokens, predictions and packed sequences of a row.
type extent struct{ size, length, predictions, sequences int }

// evaluationStream is the host's end of an evaluation.
type evaluationStream = grpc.BidiStreamingClient[pb.EvaluateRequest, pb.EvaluateResponse]

func (s *backendSession) sendEvaluation(
	c *call, stream evaluationStream, e backend.Evaluation, batches batchSeq, sent chan<- extent,
) error {
	start := &pb.EvaluateStart{Session: s.id, Outputs: e.Outputs, Labels: e.Labels}
	if err := stream.Send(&pb.EvaluateRequest{Message: &pb.EvaluateRequest_Start{Start: start}}); err != nil {
		return err
	}
	for b, err := range batches {
		if err == nil && b == nil {
			err = errNoBatch
		}
		if err != nil {
			c.cancel(err)
			return localError{err}
		}
		if len(e.Outputs) > 0 {
			select {
			case sent <- extent{b.Size, b.Length, b.Predictions, max(1, b.Sequences)}:
			case <-c.ctx.Done():
				return c.ctx.Err()
			}
		}
		err := wire.EncodeBatch(b, func(w *pb.Batch) error {
			c.asked(tokens(w))
			c.progress()
			return stream.Send(&pb.EvaluateRequest{Message: &pb.EvaluateRequest_Batch{Batch: w}})
		})
		if err != nil {
			return err
		}
	}
	return stream.CloseSend()
}

func (s *backendSession) receive(
	c *call, stream evaluationStream, e backend.Evaluation, sent <-chan extent, yield func(backend.Outputs) error,
) (bert.Losses, error) {
	a := assembler{program: s.program, names: e.Outputs}
	for {
		m, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = localError{errors.New("it ended the evaluation without a result")}
			}
			return bert.Losses{}, err
		}
		c.progress()
		switch m := m.GetMessage().(type) {
		case *pb.EvaluateResponse_Output:
			if err := a.begin(sent); err != nil {
				return bert.Losses{}, localError{err}
			}
			if err := a.add(m.Output); err != nil {
				return bert.Losses{}, localError{err}
			}
		case *pb.EvaluateResponse_End:
			if err := a.begin(sent); err != nil {
				return bert.Losses{}, localError{err}
			}
			c.answered(a.batch.size * a.batch.length)
			outputs, err := a.end()
			if err == nil && yield != nil {
				err = yield(outputs)
			}
			if err != nil {
				return bert.Losses{}, localError{err}
			}
		case *pb.EvaluateResponse_Result:
			if _, more := <-sent; a.open || more {
				return bert.Losses{}, localError{errors.New("it gave a result before the outputs of every batch")}
			}
			return wire.DecodeLosses(m.Result.GetLosses()), nil
		default:
			return bert.Losses{}, localError{errors.New("it sent a message that is neither outputs, nor their end, nor a result")}
		}
	}
}

// assembler assembles the outputs of one batch.
type assembler struct {
	program backend.Program
	names   []string
	open    bool
	batch   extent
	outputs backend.Outputs
}

// begin makes sure that what comes belongs to a batch that was sent.
func (a *assembler) begin(sent <-chan extent) error {
	if a.open || len(a.names) == 0 {
		return nil
	}
	if a.batch, a.open = <-sent; !a.open {
		return errors.New("it answered more batches than it got")
	}
	return nil
}

// add takes a chunk. Names, shapes and lengths must be those of the batch's outputs.
func (a *assembler) add(w *pb.OutputChunk) error {
	name := w.GetName()
	if !slices.Contains(a.names, name) {
		return fmt.Errorf("it sent an output %q that nobody asked for", name)
	}
	want, ok := outputShape(a.program, name, a.batch)
	if !ok {
		return fmt.Errorf("it sent an output %q that the model does not have", name)
	}
	if !slices.Equal(wire.DecodeShape(w.GetShape()), want) {
		return fmt.Errorf("it sent %s with shape %v, want %v", name, w.GetShape(), want)
	}
	o, ok := a.outputs[name]
	if !ok {
		o = backend.Output{Shape: want, Values: make([]float32, 0, want.Len())}
	}
	n := len(w.GetValues()) / 4
	if len(w.GetValues())%4 != 0 || n > want.Len()-len(o.Values) {
		return fmt.Errorf("it sent %d more bytes of %s than its shape %v has left", len(w.GetValues()), name, want)
	}
	at := len(o.Values)
	o.Values = o.Values[:at+n]
	wire.CopyFloats(o.Values[at:], w.GetValues())
	if a.outputs == nil {
		a.outputs = backend.Outputs{}
	}
	a.outputs[name] = o
	return nil
}

// end returns the outputs of the batch, which must be complete.
func (a *assembler) end() (backend.Outputs, error) {
	for _, name := range a.names {
		o, ok := a.outputs[name]
		if !ok {
			return nil, fmt.Errorf("it did not send output %s", name)
		}
		if len(o.Values) != o.Shape.Len() {
			return nil, fmt.Errorf("it sent %d values of %s, want %d for shape %v", len(o.Values), name, o.Shape.Len(), o.Shape)
		}
	}
	outputs := a.outputs
	a.open, a.outputs = false, nil
	if outputs == nil {
		outputs = backend.Outputs{}
	}
	return outputs, nil
}

// outputShape is the shape of an output of a batch, see backend.Outputs.
func outputShape(p backend.Program, name string, b extent) (tensor.Shape, bool) {
	if !slices.Contains(bert.OutputNames(p.Model, p.Head), name) {
		return nil, false
	}
	switch name {
	case "pooler_output":
		return tensor.Shape{b.size * b.sequences, p.Model.HiddenSize}, true
	case "mlm_logits":
		return tensor.Shape{b.size, b.predictions, p.Model.VocabSize}, true
	case "nsp_logits":
		return tensor.Shape{b.size * b.sequences, 2}, true
	case "start_logits", "end_logits":
		return tensor.Shape{b.size, b.length}, true
	case "logits":
		switch p.Head.Task {
		case bert.MultipleChoice:
			return tensor.Shape{b.size, 1}, true
		case bert.TokenClassification:
			return tensor.Shape{b.size, b.length, p.Head.Labels}, true
		}
		return tensor.Shape{b.size, p.Head.Labels}, true
	}
	return tensor.Shape{b.size, b.length, p.Model.HiddenSize}, true
}
