package backendtest

import (
	"fmt"
	"math"
	"slices"

	"harness.invalid/core/agreement"
	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
)

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

// heads are all tasks, including a regression.
var heads = []bert.Head{{Task: bert.Pretraining}, {Task: bert.QuestionAnswering}, {Task: bert.QuestionAnswering, MaskPadding: true},
	{Task: bert.Classification, Labels: labels}, {Task: bert.Classification, Labels: 1},
	{Task: bert.TokenClassification, Labels: labels}}

// scaleSteps is the number of steps within which a dynamic loss scale must reach finite gradients.
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

// cuts compares a global batch as one micro-batch with the same batch cut into replicas and micro-batches, without
// dropout. Sums have another order, so they differ within the precision's tolerance.
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
		// The same data in two steps: only the masks differ.
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
			if !r.Finite { // skipped, as a host does, while a dynamic loss scale comes down
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
