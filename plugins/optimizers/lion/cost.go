package lion

import (
	"harness.invalid/core/optimizer"
	"harness.invalid/core/tensor"
)

// Cost implements what optimizer.Coster asks of a rule: c takes 3 operations, its sign 1, m 3, the step 2, decay 2.
// Source: Chen et al. 2023, algorithm 2.
func (r *rule) Cost(l *tensor.Layout) optimizer.Cost {
	return optimizer.CostOver(l, optimizer.FP32Slots(r.Slots()...), func(t tensor.Tensor) optimizer.TensorCost {
		flops := 9.
		if r.weightDecay != 0 {
			flops += 2
		}
		c := optimizer.TensorCost{Flops: flops * float64(t.Len()), Params: 2, Grads: 1}
		return c.Clipped(t, r.maxGradNorm)
	})
}
