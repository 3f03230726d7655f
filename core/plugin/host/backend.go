package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"time"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/plugin/internal/pb"
	"harness.invalid/core/plugin/internal/wire"
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
	return wire.DecodeBackendInfo(r), nil
}

func (b backendClient) Open(ctx context.Context, program backend.Program, m backend.Memory) (backend.Session, error) {
	c := b.p.call(ctx, 0, ceiling(b.p.spec.Timeouts.Open, parametersOf(m.Layout), 0), "open")
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
	return &backendSession{
		session: session{p: b.p, id: r.GetSession(), sections: shared, parameters: m.Layout.Len()}, program: program, memory: m,
		blocks: optimizer.Blocks(m.Layout),
	}, nil
}

type backendSession struct {
	session
	program backend.Program
	memory  backend.Memory
	blocks  []optimizer.Block // of the gradients
}

// operations are so many for each parameter.
func (s *session) operations(each float64) float64 { return each * float64(s.parameters) }

// tokens is how many a batch has, or a part of it.
func tokens(b *pb.Batch) int { return int(b.GetSize() * b.GetLength()) }

// batchSeq is a sequence of batches that may end with an error.
type batchSeq = iter.Seq2[*bert.Batch, error]

func (s *backendSession) Step(ctx context.Context, step backend.Step, batches batchSeq) (backend.StepResult, error) {
	c := s.timed(ctx, "step", s.operations(stepOperations), "step %d", step.Step)
	r, err := s.step(c, step, batches)
	if err := c.done(err); err != nil {
		return backend.StepResult{}, err
	}
	return r, nil
}

func (s *backendSession) step(c *call, step backend.Step, batches batchSeq) (backend.StepResult, error) {
	if err := s.sections.before(c.ctx, s.id, wire.Params); err != nil {
		return backend.StepResult{}, err
	}
	stream, err := s.p.backend.Step(c.ctx)
	if err != nil {
		return backend.StepResult{}, err
	}
	// io.EOF: the plugin has answered before the last batch, and CloseAndRecv has what it said.
	if err := s.sendStep(c, step, batches, stream.Send); err != nil && !errors.Is(err, io.EOF) {
		return backend.StepResult{}, err
	}
	w, err := stream.CloseAndRecv()
	if err != nil {
		return backend.StepResult{}, err
	}
	return s.stepped(c, w)
}

// sendStep sends the start of a step and its batches.
func (s *backendSession) sendStep(
	c *call, step backend.Step, batches batchSeq, send func(*pb.BackendStepRequest) error,
) error {
	err := send(&pb.BackendStepRequest{Message: &pb.BackendStepRequest_Start{Start: &pb.StepStart{
		Session: s.id, Step: int64(step.Step), Sequences: int64(step.Sequences), MaskedWeight: step.MaskedWeight,
		NextSentenceWeight: step.NextSentenceWeight, LabelWeight: step.LabelWeight,
	}}})
	if err != nil {
		return err
	}
	return sendBatches(batches, func(b *pb.Batch) error {
		c.asked(tokens(b))
		return send(&pb.BackendStepRequest{Message: &pb.BackendStepRequest_Batch{Batch: b}})
	})
}

// stepped fetches and checks what a step left: the gradients and the answer.
func (s *backendSession) stepped(c *call, w *pb.BackendStepResponse) (backend.StepResult, error) {
	if err := s.sections.after(c.ctx, s.id, wire.Grads); err != nil {
		return backend.StepResult{}, err
	}
	r, err := wire.DecodeStepResult(w)
	if err != nil {
		return backend.StepResult{}, localError{err}
	}
	if err := checkCounts(r, w.GetSeconds()); err != nil {
		return backend.StepResult{}, localError{err}
	}
	if r.Finite {
		// One pass over the gradients: their norm is finite if and only if all of them are, as no sum of squares of
		// float32 leaves the range of float64.
		if r.GradientNorm = optimizer.Norm(s.blocks, s.memory.Grads); r.GradientNorm-r.GradientNorm != 0 {
			where := firstNotFinite("gradients", s.memory.Layout, s.memory.Grads)
			return backend.StepResult{}, localError{fmt.Errorf("it left %s, and did not say so", where)}
		}
		if total := r.Losses.Total(); total-total != 0 {
			return backend.StepResult{}, localError{fmt.Errorf("it reports a loss of %g with finite gradients", total)}
		}
	}
	// The time that the plugin did not measure is that of the way there and back.
	transport := max(0, time.Since(c.began).Seconds()-w.GetSeconds())
	r.Phases = append(r.Phases, backend.Phase{Name: TransportPhase, Seconds: transport})
	return r, nil
}

// checkCounts refuses counts and times that no step can have, which would spoil the record of the run.
func checkCounts(r backend.StepResult, seconds float64) error {
	if r.Overflows < 0 || r.Invalid < 0 {
		return fmt.Errorf("it reports %d overflows and %d invalid results, want counts", r.Overflows, r.Invalid)
	}
	for _, q := range r.Quantised {
		for _, v := range []float64{q.Saturated, q.Flushed, q.Subnormal, q.Largest, q.Scale, q.RelError, q.Cosine} {
			if v-v != 0 {
				return fmt.Errorf("it reports %g for the format of %s %s, want finite numbers", v, q.Operator, q.Operand)
			}
		}
	}
	for _, p := range append([]backend.Phase{{Name: "the step", Seconds: seconds}}, r.Phases...) {
		if !(p.Seconds >= 0 && p.Seconds <= math.MaxFloat32) {
			return fmt.Errorf("it reports %g seconds for %s, want a time", p.Seconds, p.Name)
		}
	}
	return nil
}

// TransportPhase names the last phase of a step through a process, after those of the backend: time that neither side
// spent computing.
const TransportPhase = "transport"

var errNoBatch = errors.New("a batch is nil")

// sendBatches sends batches in order. An error of the host's own batches is a local one.
func sendBatches(batches batchSeq, send func(*pb.Batch) error) error {
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
	c := s.timed(ctx, "commit", s.operations(commitOperations), "commit of step %d", step)
	c.asked(1)
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
		where := firstNotFinite("parameters", s.memory.Layout, s.memory.Params)
		return localError{fmt.Errorf("%s: the optimizer left it there, or this commit did", where)}
	}
	return nil
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
