package backendtest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"harness.invalid/core/agreement"
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

func (s *suite) setsGradients() error {
	return s.with(bert.Pretraining, nil, func(f *fixture, session backend.Session) error {
		for i := range f.memory.Grads {
			f.memory.Grads[i] = float32(math.NaN())
		}
		r, err := f.step(session, 1)
		if err != nil {
			return err
		}
		if !r.Finite || !(r.LossScale > 0) {
			return fmt.Errorf("finite is %v and the loss scale %g, want true and a positive number", r.Finite, r.LossScale)
		}
		for i, g := range f.memory.Grads {
			if math.IsNaN(float64(g)) || math.IsInf(float64(g), 0) {
				return fmt.Errorf("gradient element %d is %g", i, g)
			}
		}
		end := 0
		for _, t := range f.memory.Layout.Tensors() {
			if padding := f.memory.Grads[end:t.Offset]; slices.ContainsFunc(padding, func(g float32) bool { return g != 0 }) {
				return fmt.Errorf("gradients before %s: padding is %v, want 0", t.Name, padding)
			}
			end = t.Offset + t.Len()
			if !slices.ContainsFunc(t.Of(f.memory.Grads), func(g float32) bool { return g != 0 }) && t.Kind != 2 {
				return fmt.Errorf("the gradient of %s is 0", t.Name)
			}
		}
		b := f.batch(1, f.program.GlobalBatch())
		if l := r.Losses; l.MaskedLM.Weight != b.MaskedWeight() || l.NextSentence.Weight != float64(b.Size) {
			return fmt.Errorf("losses of %g predictions and %g sequences, want %g and %d",
				l.MaskedLM.Weight, l.NextSentence.Weight, b.MaskedWeight(), b.Size)
		}
		return nil
	})
}

// heads are all tasks, a regression among them.
var heads = []bert.Head{{Task: bert.Pretraining}, {Task: bert.QuestionAnswering},
	{Task: bert.Classification, Labels: labels}, {Task: bert.Classification, Labels: 1}}

// scaleSteps is the number of steps in which a dynamic loss scale must come down to where gradients are finite.
const scaleSteps = 20

func (s *suite) servesTasks() error {
	for _, head := range heads {
		f, err := s.fixtureOf(head)
		if err != nil {
			return err
		}
		if err := f.run(func(session backend.Session) error {
			r, err := f.step(session, 1)
			for step := 2; step <= scaleSteps && err == nil && !r.Finite; step++ {
				r, err = f.step(session, step)
			}
			if err == nil && !(r.Finite && r.Losses.Total() > 0) {
				err = fmt.Errorf("after %d steps finite is %v and the loss %g, want true and a positive number", scaleSteps, r.Finite, r.Losses.Total())
			}
			return err
		}); err != nil {
			return fmt.Errorf("%s with %d labels: %w", head.Task, head.Labels, err)
		}
	}
	return nil
}

func (s *suite) leavesParameters() error {
	return s.with(bert.Pretraining, nil, func(f *fixture, session backend.Session) error {
		before := slices.Clone(f.memory.Params)
		if _, err := f.step(session, 1); err != nil {
			return err
		}
		return sameBits("parameters after a step", f.memory.Params, before)
	})
}

// sameBits reports the first element in which two buffers differ.
func sameBits(what string, got, want []float32) error {
	for i, w := range want {
		if math.Float32bits(got[i]) != math.Float32bits(w) {
			return fmt.Errorf("%s: element %d is %g, want %g to the bit", what, i, got[i], w)
		}
	}
	return nil
}

// trajectory is what some steps of training leave.
func (s *suite) trajectory(steps int) (params, grads []float32, err error) {
	err = s.with(bert.Pretraining, nil, func(f *fixture, session backend.Session) error {
		for step := 1; step <= steps; step++ {
			if _, err := f.descend(session, step, 0.1); err != nil {
				return err
			}
		}
		params, grads = f.memory.Params, f.memory.Grads
		return nil
	})
	return params, grads, err
}

func (s *suite) repeats() error {
	params, grads, err := s.trajectory(2)
	if err != nil {
		return err
	}
	again, gradsAgain, err := s.trajectory(2)
	if err != nil {
		return err
	}
	return errors.Join(sameBits("parameters of a second run", again, params), sameBits("gradients of a second run", gradsAgain, grads))
}

// cuts compares a global batch as one micro-batch with the same as replicas and micro-batches, without dropout. The
// sums are rounded in another order, so the precision's tolerance holds.
func (s *suite) cuts() error {
	gradient := func(micro, accumulation, replicas int) (grads []float32, err error) {
		err = s.with(bert.Pretraining, func(f *fixture) error {
			p := &f.program
			p.MicroBatch, p.Accumulation, p.Replicas = micro, accumulation, replicas
			p.Model.HiddenDropoutProb, p.Model.AttentionProbsDropoutProb = 0, 0
			return nil
		}, func(f *fixture, session backend.Session) error {
			_, err := f.step(session, 1)
			grads = f.memory.Grads
			return err
		})
		return grads, err
	}
	whole, err := gradient(8, 1, 1)
	if err != nil {
		return err
	}
	want := make([]float64, len(whole))
	for i, g := range whole {
		want[i] = float64(g)
	}
	for _, c := range [][3]int{{2, 2, 2}, {2, 4, 1}, {1, 2, 4}} {
		got, err := gradient(c[0], c[1], c[2])
		if err != nil {
			return err
		}
		// Both sides have the precision's error.
		if e := agreement.RelError(got, want); e > 2*s.precision.GradientTolerance {
			return fmt.Errorf("micro-batch %d x accumulation %d x replicas %d: gradient differs by %.3g from one micro-batch of 8, want at most %g",
				c[0], c[1], c[2], e, 2*s.precision.GradientTolerance)
		}
	}
	return nil
}

func (s *suite) dropsOut() error {
	return s.with(bert.Pretraining, func(f *fixture) error {
		f.program.Model.HiddenDropoutProb, f.program.Model.AttentionProbsDropoutProb = 0.5, 0.5
		return nil
	}, func(f *fixture, session backend.Session) error {
		// The same data at another step: only the masks differ.
		b := f.batch(1, f.program.GlobalBatch())
		var losses [2]float64
		for i := range losses {
			r, err := session.Step(s.ctx, announce(i+1, b), cut(b, f.program.MicroBatch))
			if err != nil {
				return err
			}
			losses[i] = r.Losses.Total()
		}
		if losses[0] == losses[1] {
			return fmt.Errorf("steps 1 and 2 have the same loss on the same data with dropout 0.5")
		}
		return nil
	})
}

func (s *suite) resumes() error {
	want, _, err := s.trajectory(4)
	if err != nil {
		return err
	}
	var state []byte
	f, err := s.fixture(bert.Pretraining)
	if err != nil {
		return err
	}
	if err := f.run(func(session backend.Session) (err error) {
		for step := 1; step <= 2; step++ {
			if _, err := f.descend(session, step, 0.1); err != nil {
				return err
			}
		}
		state, err = session.Save(s.ctx)
		return err
	}); err != nil {
		return err
	}
	params := slices.Clone(f.memory.Params)
	if err := f.allocate(); err != nil {
		return err
	}
	copy(f.memory.Params, params)
	f.uncommitted = true
	return f.run(func(session backend.Session) error {
		if err := session.Load(s.ctx, state); err != nil {
			return fmt.Errorf("load: %w", err)
		}
		if err := session.Commit(s.ctx, 2); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		for step := 3; step <= 4; step++ {
			if _, err := f.descend(session, step, 0.1); err != nil {
				return err
			}
		}
		return sameBits("parameters of a run that was resumed", f.memory.Params, want)
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

func (s *suite) commits() error {
	return s.with(bert.Pretraining, nil, func(f *fixture, session backend.Session) error {
		if _, err := f.descend(session, 1, 0.1); err != nil {
			return err
		}
		once := slices.Clone(f.memory.Params)
		if err := session.Commit(s.ctx, 1); err != nil {
			return err
		}
		if err := sameBits("parameters after a second commit", f.memory.Params, once); err != nil {
			return err
		}
		if err := session.Commit(s.ctx, 2); err != nil {
			return err
		}
		return sameBits("parameters after a commit without a change", f.memory.Params, once)
	})
}

// learns: gradient descent on one batch lowers its loss.
func (s *suite) learns() error {
	return s.with(bert.Classification, func(f *fixture) error {
		f.program.Model.HiddenDropoutProb, f.program.Model.AttentionProbsDropoutProb = 0, 0
		return nil
	}, func(f *fixture, session backend.Session) error {
		b := f.batch(1, f.program.GlobalBatch())
		var first, last float64
		for step, updates := 1, 0; updates < 10 && step <= scaleSteps+10; step++ {
			r, err := session.Step(s.ctx, announce(step, b), cut(b, f.program.MicroBatch))
			if err != nil {
				return err
			}
			if last = r.Losses.Total(); step == 1 {
				first = last
			}
			if !r.Finite { // as a host does, while a dynamic loss scale comes down
				continue
			}
			for i, g := range f.memory.Grads {
				f.memory.Params[i] -= 0.5 * g
			}
			if err := session.Commit(s.ctx, step); err != nil {
				return err
			}
			updates++
		}
		if !(last < 0.9*first) {
			return fmt.Errorf("the loss goes from %g to %g in 10 steps, want it to fall by a tenth", first, last)
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
