package train

import (
	"iter"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
)

// CheckStep returns the checks of a step over some memory, without the step.
func CheckStep(m Memory) func() {
	c := newChecker(m)
	return func() {
		_, _ = c.gradient(backend.Step{}, each(nil), func(b iter.Seq2[*bert.Batch, error]) (backend.StepResult, error) {
			for range b {
			}
			for _, g := range c.sample(c.start, m.Grads) {
				*g = 1
			}
			return backend.StepResult{Finite: true}, nil
		})
		_ = c.update(1, 0, func() (float64, error) { return 0, nil })
	}
}
