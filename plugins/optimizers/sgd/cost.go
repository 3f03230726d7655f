package sgd

import (
	"harness.invalid/core/optimizer"
	"harness.invalid/core/tensor"
)

// Cost implements what optimizer.Coster asks of a rule: 2 operations for the step, 2 more each for decay and
// Nesterov's momentum, 3 for momentum. Source: torch.optim.SGD, in one sweep.
func (r *rule) Cost(l *tensor.Layout) optimizer.Cost {
	return optimizer.CostOver(l, optimizer.FP32Slots(r.Slots()...), func(t tensor.Tensor) optimizer.TensorCost {
		flops := 2.
		if r.weightDecay != 0 {
			flops += 2
		}
		if r.momentum != 0 {
			flops += 3
		}
		if r.nesterov {
			flops += 2
		}
		c := optimizer.TensorCost{Flops: flops * float64(t.Len()), Params: 2, Grads: 1}
		return c.Clipped(t, r.maxGradNorm)
	})
}
