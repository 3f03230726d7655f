package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"google.golang.org/grpc"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/plugin/internal/pb"
	"harness.invalid/core/plugin/internal/wire"
	"harness.invalid/core/tensor"
)

// Backend is the plugin as a backend. With Spec.Arena set, sessions are opened over sections of that arena.
func (p *Process) Backend() backend.Backend { return backendClient{p} }

type backendClient struct{ p *Process }

func (b backendClient) Describe(ctx context.Context) (backend.Info, error) {
	c := b.p.call(ctx, 0, b.p.spec.Timeouts.Call, "describe")
	r, err := b.p.backend.Describe(c.ctx, &pb.DescribeRequest{})
	if err == nil && len(r.GetPrecisions()) == 0 {
		err = localError{errors.New("it names no precision, want at least one")}
	}
	if err := c.done(err); err != nil {
		return backend.Info{}, err
	}
	info := backend.Info{Name: r.GetName(), Version: r.GetVersion(), Doc: r.GetDoc(), Options: wire.DecodeOptions(r.GetOptions()), RepeatsSteps: r.GetRepeatsSteps()}
	for _, p := range r.GetPrecisions() {
		info.Precisions = append(info.Precisions, backend.Precision{
			Name: p.GetName(), Doc: p.GetDoc(), OutputTolerance: p.GetOutputTolerance(), GradientTolerance: p.GetGradientTolerance(), Reason: p.GetReason(),
		})
	}
	return info, nil
}

func (b backendClient) Open(ctx context.Context, program backend.Program, m backend.Memory) (backend.Session, error) {
	c := b.p.call(ctx, 0, b.p.spec.Timeouts.Open, "open")
	s, err := b.open(c, program, m)
	if err := c.done(err); err != nil {
		return nil, err
	}
	return s, nil
}

func (b backendClient) open(c *call, program backend.Program, m backend.Memory) (*backendSession, error) {
	shared, err := b.p.openSections(m.Layout, [][]float32{m.Params, m.Grads})
	if err != nil {
		return nil, localError{err}
	}
	r, err := b.p.backend.Open(c.ctx, &pb.OpenBackendRequest{Program: wire.EncodeProgram(program), Memory: shared.memory()})
	if err != nil {
		_ = shared.close()
		return nil, err
	}
	return &backendSession{session{p: b.p, id: r.GetSession(), sections: shared}, program, m, optimizer.Blocks(m.Layout)}, nil
}

type backendSession struct {
	session
	program backend.Program
	memory  backend.Memory
	blocks  []optimizer.Block // of the gradients
}

func (s *backendSession) Step(ctx context.Context, step backend.Step, batches iter.Seq2[*bert.Batch, error]) (backend.StepResult, error) {
	c := s.p.call(ctx, s.id, s.p.spec.Timeouts.Step, "step %d", step.Step)
	r, err := s.step(c, step, batches)
	if err := c.done(err); err != nil {
		return backend.StepResult{}, err
	}
	return r, nil
}

func (s *backendSession) step(c *call, step backend.Step, batches iter.Seq2[*bert.Batch, error]) (backend.StepResult, error) {
	if err := s.sections.before(c.ctx, s.id, wire.Params); err != nil {
		return backend.StepResult{}, err
	}
	stream, err := s.p.backend.Step(c.ctx)
	if err != nil {
		return backend.StepResult{}, err
	}
	// io.EOF: the plugin has answered before the last batch, and CloseAndRecv has what it said.
	if err := s.sendStep(step, batches, stream.Send); err != nil && !errors.Is(err, io.EOF) {
		return backend.StepResult{}, err
	}
	w, err := stream.CloseAndRecv()
	if err != nil {
		return backend.StepResult{}, err
	}
	return s.stepped(c, w)
}

// sendStep sends the start of a step and its batches.
func (s *backendSession) sendStep(step backend.Step, batches iter.Seq2[*bert.Batch, error], send func(*pb.BackendStepRequest) error) error {
	err := send(&pb.BackendStepRequest{Message: &pb.BackendStepRequest_Start{Start: &pb.StepStart{
		Session: s.id, Step: int64(step.Step), Sequences: int64(step.Sequences), MaskedWeight: step.MaskedWeight,
		NextSentenceWeight: step.NextSentenceWeight,
	}}})
	if err != nil {
		return err
	}
	return sendBatches(batches, func(b *pb.Batch) error {
		return send(&pb.BackendStepRequest{Message: &pb.BackendStepRequest_Batch{Batch: b}})
	})
}

// stepped takes over what a step left: the gradients and the answer.
func (s *backendSession) stepped(c *call, w *pb.BackendStepResponse) (_ backend.StepResult, err error) {
	if err := s.sections.after(c.ctx, s.id, wire.Grads); err != nil {
		return backend.StepResult{}, err
	}
	r := backend.StepResult{Losses: wire.DecodeLosses(w.GetLosses()), Finite: w.GetFinite(), LossScale: w.GetLossScale(), Overflows: w.GetOverflows(), Invalid: w.GetInvalid()}
	if r.Schedule, err = wire.DecodeSchedule(w.GetSchedule()); err != nil {
		return backend.StepResult{}, localError{err}
	}
	for _, p := range w.GetPhases() {
		r.Phases = append(r.Phases, backend.Phase{Name: p.GetName(), Seconds: p.GetSeconds()})
	}
	if r.Finite {
		// One pass over the gradients: their norm is finite if all of them are, since no sum of squares of float32 leaves the range of float64.
		if r.GradientNorm = optimizer.Norm(s.blocks, s.memory.Grads); r.GradientNorm-r.GradientNorm != 0 {
			return backend.StepResult{}, localError{fmt.Errorf("it left %s, and did not say so", firstNotFinite("gradients", s.memory.Layout, s.memory.Grads))}
		}
		if total := r.Losses.Total(); total-total != 0 {
			return backend.StepResult{}, localError{fmt.Errorf("it reports a loss of %g with finite gradients", total)}
		}
	}
	// What the plugin did not measure is the way there and back.
	r.Phases = append(r.Phases, backend.Phase{Name: TransportPhase, Seconds: max(0, time.Since(c.began).Seconds()-w.GetSeconds())})
	return r, nil
}

// TransportPhase names the phase that a step through a process has after those of the backend: time that went by on neither side.
const TransportPhase = "transport"

var errNoBatch = errors.New("a batch is nil")

// sendBatches sends batches in order. An error of the host's own batches is a local one.
func sendBatches(batches iter.Seq2[*bert.Batch, error], send func(*pb.Batch) error) error {
	for b, err := range batches {
		if err == nil && b == nil {
			err = errNoBatch
		}
		if err != nil {
			return localError{err}
		}
		if err := wire.EncodeBatch(b, send); err != nil {
			return err
		}
	}
	return nil
}

func (s *backendSession) Commit(ctx context.Context, step int) error {
	c := s.p.call(ctx, s.id, s.p.spec.Timeouts.Step, "commit of step %d", step)
	return c.done(s.commit(c, step))
}

func (s *backendSession) commit(c *call, step int) error {
	if err := s.sections.before(c.ctx, s.id, wire.Params); err != nil {
		return err
	}
	if _, err := s.p.backend.Commit(c.ctx, &pb.CommitRequest{Session: s.id, Step: int64(step)}); err != nil {
		return err
	}
	if err := s.sections.after(c.ctx, s.id, wire.Params); err != nil {
		return err
	}
	if !finite(s.memory.Params) {
		return localError{fmt.Errorf("%s: the optimizer left it there, or this commit did", firstNotFinite("parameters", s.memory.Layout, s.memory.Params))}
	}
	return nil
}

func (s *backendSession) Evaluate(ctx context.Context, e backend.Evaluation, batches iter.Seq2[*bert.Batch, error], yield func(backend.Outputs) error) (bert.Losses, error) {
	c := s.p.call(ctx, s.id, s.p.spec.Timeouts.Step, "evaluate")
	losses, err := s.evaluate(c, e, batches, yield)
	if err := c.done(err); err != nil {
		return bert.Losses{}, err
	}
	return losses, nil
}

func (s *backendSession) evaluate(c *call, e backend.Evaluation, batches iter.Seq2[*bert.Batch, error], yield func(backend.Outputs) error) (bert.Losses, error) {
	if err := s.sections.before(c.ctx, s.id, wire.Params); err != nil {
		return bert.Losses{}, err
	}
	stream, err := s.p.backend.Evaluate(c.ctx)
	if err != nil {
		return bert.Losses{}, err
	}
	// Batches go out while outputs come in, and the receiving side must know the extent of each batch that is out, in order.
	sent := make(chan extent, batchesAhead)
	sending := make(chan error, 1)
	go func() {
		defer close(sent)
		sending <- s.sendEvaluation(c, stream, e, batches, sent)
	}()
	losses, err := s.receive(c, stream, e, sent, yield)
	if err != nil {
		// The sender may be waiting for room; it must be gone before the caller has its iterator back.
		c.cancel(nil)
	}
	sendErr := <-sending
	if local := (localError{}); errors.As(sendErr, &local) {
		return bert.Losses{}, local
	}
	return losses, err
}

// batchesAhead is how many batches may be under way at once: many, for gRPC's flow control keeps the sender from running ahead of a plugin
// that does not read.
const batchesAhead = 1 << 10

// extent is the size of a batch: rows, and tokens, predictions and packed sequences of a row.
type extent struct{ size, length, predictions, sequences int }

func (s *backendSession) sendEvaluation(c *call, stream grpc.BidiStreamingClient[pb.EvaluateRequest, pb.EvaluateResponse], e backend.Evaluation, batches iter.Seq2[*bert.Batch, error], sent chan<- extent) error {
	err := stream.Send(&pb.EvaluateRequest{Message: &pb.EvaluateRequest_Start{Start: &pb.EvaluateStart{Session: s.id, Outputs: e.Outputs, Labels: e.Labels}}})
	if err != nil {
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
			c.progress()
			return stream.Send(&pb.EvaluateRequest{Message: &pb.EvaluateRequest_Batch{Batch: w}})
		})
		if err != nil {
			return err
		}
	}
	return stream.CloseSend()
}

func (s *backendSession) receive(c *call, stream grpc.BidiStreamingClient[pb.EvaluateRequest, pb.EvaluateResponse], e backend.Evaluation, sent <-chan extent, yield func(backend.Outputs) error) (bert.Losses, error) {
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

// assembler puts the outputs of one batch together.
type assembler struct {
	program backend.Program
	names   []string
	open    bool
	batch   extent
	outputs backend.Outputs
}

// begin makes sure that what comes belongs to a batch: a plugin answers batches that it got.
func (a *assembler) begin(sent <-chan extent) error {
	if a.open || len(a.names) == 0 {
		return nil
	}
	if a.batch, a.open = <-sent; !a.open {
		return errors.New("it answered more batches than it got")
	}
	return nil
}

// add takes a chunk. Names, shapes and lengths are held against what the batch must give.
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
		return fmt.Errorf("it sent %d bytes more of %s than its shape %v has", len(w.GetValues()), name, want)
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

// outputShape is the shape that an output of a batch must have, see backend.Outputs.
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
		if p.Head.Task == bert.MultipleChoice {
			return tensor.Shape{b.size, 1}, true
		}
		return tensor.Shape{b.size, p.Head.Labels}, true
	}
	return tensor.Shape{b.size, b.length, p.Model.HiddenSize}, true
}

func (s *backendSession) Save(ctx context.Context) ([]byte, error) {
	c := s.p.call(ctx, s.id, s.p.spec.Timeouts.Call, "save")
	r, err := s.p.backend.Save(c.ctx, &pb.SaveRequest{Session: s.id})
	if err := c.done(err); err != nil {
		return nil, err
	}
	return r.GetState(), nil
}

func (s *backendSession) Load(ctx context.Context, state []byte) error {
	c := s.p.call(ctx, s.id, s.p.spec.Timeouts.Call, "load")
	_, err := s.p.backend.Load(c.ctx, &pb.LoadRequest{Session: s.id, State: state})
	return c.done(err)
}
