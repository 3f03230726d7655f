package backendtest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
)

func (s *suite) refusesBatches() error {
	return s.with(bert.Pretraining, nil, func(f *fixture, session backend.Session) error {
		global := f.program.GlobalBatch()
		for name, spoil := range map[string]func(b *bert.Batch, step *backend.Step) iter.Seq2[*bert.Batch, error]{
			"micro-batches of the wrong size": func(b *bert.Batch, _ *backend.Step) iter.Seq2[*bert.Batch, error] {
				return cut(b, f.program.MicroBatch+1)
			},
			"too few micro-batches": func(b *bert.Batch, _ *backend.Step) iter.Seq2[*bert.Batch, error] {
				return cut(b.Slice(0, global-f.program.MicroBatch), f.program.MicroBatch)
			},
			"too many micro-batches": func(_ *bert.Batch, _ *backend.Step) iter.Seq2[*bert.Batch, error] {
				return cut(f.batch(1, global+f.program.MicroBatch), f.program.MicroBatch)
			},
			"another number of sequences than announced": func(b *bert.Batch, step *backend.Step) iter.Seq2[*bert.Batch, error] {
				step.Sequences++
				return cut(b, f.program.MicroBatch)
			},
			"a word that is not in the vocabulary": func(b *bert.Batch, _ *backend.Step) iter.Seq2[*bert.Batch, error] {
				b.InputIDs[5] = int32(f.program.Model.VocabSize)
				return cut(b, f.program.MicroBatch)
			},
			"a negative token type": func(b *bert.Batch, _ *backend.Step) iter.Seq2[*bert.Batch, error] {
				b.TokenTypeIDs[0] = -1
				return cut(b, f.program.MicroBatch)
			},
			"a masked position beyond the sequence": func(b *bert.Batch, _ *backend.Step) iter.Seq2[*bert.Batch, error] {
				b.MaskedLMPositions[1] = int32(b.Length)
				return cut(b, f.program.MicroBatch)
			},
			"a weight that is not a number": func(b *bert.Batch, _ *backend.Step) iter.Seq2[*bert.Batch, error] {
				b.MaskedLMWeights[0] = float32(math.NaN())
				return cut(b, f.program.MicroBatch)
			},
			"no labels": func(b *bert.Batch, _ *backend.Step) iter.Seq2[*bert.Batch, error] {
				b.NextSentenceLabels = nil
				return cut(b, f.program.MicroBatch)
			},
			"sequences longer than the program's": func(*bert.Batch, *backend.Step) iter.Seq2[*bert.Batch, error] {
				longer := *f
				longer.program.Length++
				return cut(longer.batch(1, global), f.program.MicroBatch)
			},
		} {
			b := f.batch(1, global)
			step := announce(1, b)
			batches := spoil(b, &step)
			if _, err := session.Step(s.ctx, step, batches); err == nil {
				return fmt.Errorf("a step with %s ran, want an error", name)
			}
		}
		if _, err := f.step(session, 1); err != nil {
			return fmt.Errorf("after refused steps a sound one fails: %w", err)
		}
		return nil
	})
}

func (s *suite) passesErrors() error {
	broken := errors.New("the data ends here")
	return s.with(bert.Pretraining, nil, func(f *fixture, session backend.Session) error {
		b := f.batch(1, f.program.GlobalBatch())
		batches := func(yield func(*bert.Batch, error) bool) {
			if yield(b.Slice(0, f.program.MicroBatch), nil) {
				yield(nil, broken)
			}
		}
		if _, err := session.Step(s.ctx, announce(1, b), batches); !errors.Is(err, broken) {
			return fmt.Errorf("a step over broken data returned %v, want an error that wraps the data's", err)
		}
		_, err := session.Evaluate(s.ctx, backend.Evaluation{}, batches, func(backend.Outputs) error { return nil })
		if !errors.Is(err, broken) {
			return fmt.Errorf("an evaluation of broken data returned %v, want an error that wraps the data's", err)
		}
		return nil
	})
}

func (s *suite) refusesState() error {
	return s.with(bert.Pretraining, nil, func(f *fixture, session backend.Session) error {
		for _, state := range [][]byte{nil, []byte("no state"), {0xff, 0}} {
			if err := session.Load(s.ctx, state); err == nil {
				return fmt.Errorf("state %q was taken, want an error", state)
			}
		}
		return nil
	})
}

func (s *suite) cancels() error {
	return s.with(bert.Pretraining, nil, func(f *fixture, session backend.Session) error {
		ctx, cancel := context.WithCancel(s.ctx)
		b := f.batch(1, f.program.GlobalBatch())
		_, err := session.Step(ctx, announce(1, b), func(yield func(*bert.Batch, error) bool) {
			cancel()
			cut(b, f.program.MicroBatch)(yield)
		})
		if err == nil {
			return fmt.Errorf("a step that was cancelled returned no error")
		}
		if _, err := f.stepContext(ctx, session, 1); err == nil {
			return fmt.Errorf("a step under a cancelled context returned no error")
		}
		if _, err := session.Evaluate(ctx, backend.Evaluation{}, cut(b, 2), nil); err == nil {
			return fmt.Errorf("an evaluation under a cancelled context returned no error")
		}
		if _, err := f.step(session, 1); err != nil {
			return fmt.Errorf("after a cancelled step a sound one fails: %w", err)
		}
		return nil
	})
}

func (s *suite) closes() error {
	f, err := s.fixture(bert.Pretraining)
	if err != nil {
		return err
	}
	session, err := s.b.Open(s.ctx, f.program, f.memory)
	if err != nil {
		return err
	}
	if err := session.Commit(s.ctx, 0); err != nil {
		return err
	}
	if err := session.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	if _, err := f.step(session, 1); err == nil {
		return fmt.Errorf("a step of a closed session ran, want an error")
	}
	return nil
}
