package optimizertest

import (
	"context"
	"math"

	"harness.invalid/core/optimizer"
	"harness.invalid/core/tensor"
)

// StepCount is how many updates Steps makes, the one of step n at the rate of Rate(n).
const StepCount = 4

// Rate is the learning rate of a step of Steps.
func Rate(step int) float64 { return 0.01 / float64(step) }

// Steps makes updates of three tensors, one longer than a block, and returns the memory: what a test compares with
// the rule written down once more.
func Steps(ctx context.Context, o optimizer.Optimizer, options map[string]string) (optimizer.Memory, error) {
	l, err := tensor.NewLayout(
		tensor.Tensor{Name: "weight", Shape: tensor.Shape{optimizer.BlockLen + 7}, Kind: tensor.Weight},
		tensor.Tensor{Name: "bias", Shape: tensor.Shape{5}, Kind: tensor.Bias},
		tensor.Tensor{Name: "zero", Shape: tensor.Shape{4}, Kind: tensor.Weight},
	)
	if err != nil {
		return optimizer.Memory{}, err
	}
	slots, err := o.Slots(ctx, options)
	if err != nil {
		return optimizer.Memory{}, err
	}
	m := optimizer.Memory{Layout: l, Params: Initial(l), Grads: make([]float32, l.Len())}
	for range slots {
		m.Slots = append(m.Slots, make([]float32, l.Len()))
	}
	s, err := o.Open(ctx, options, m)
	if err != nil {
		return m, err
	}
	for step := 1; step <= StepCount; step++ {
		copy(m.Grads, Gradient(l, step))
		if _, err := s.Step(ctx, optimizer.Step{Step: step, LR: Rate(step)}); err != nil {
			return m, err
		}
	}
	return m, nil
}

// Initial is what the parameters of Steps are at first. The last tensor is zero.
func Initial(l *tensor.Layout) []float32 {
	p := make([]float32, l.Len())
	for _, of := range l.Tensors()[:2] {
		for i := range of.Len() {
			p[of.Offset+i] = float32(0.3 * math.Cos(float64(3*i+of.Offset)))
		}
	}
	return p
}

// Gradient is the gradient of a step of Steps.
func Gradient(l *tensor.Layout, step int) []float32 {
	g := make([]float32, l.Len())
	for _, of := range l.Tensors() {
		for i := range of.Len() {
			g[of.Offset+i] = float32(0.1 * math.Sin(float64(i*step+of.Offset+1)))
		}
	}
	return g
}
