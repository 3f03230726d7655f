package schedulefree

import (
	"harness.invalid/core/optimizer"
	"harness.invalid/core/tensor"
)

// Cost implements what optimizer.Coster asks of a rule. x is found by 3 operations, v takes 4, its correction,
// root, eps and the quotient 4, z 2 and 2 more for decay, the average 3, and y 3. The sum of squared rates is one
// number of the first tensor's slot. Source: Defazio et al. 2024, algorithm 1.
func (r *rule) Cost(l *tensor.Layout) optimizer.Cost {
	first := true
	return optimizer.CostOver(l, optimizer.FP32Slots(r.Slots()...), func(t tensor.Tensor) optimizer.TensorCost {
		flops, n := 19., int64(t.Len())
		if r.WeightDecay != 0 {
			flops += 2
		}
		c := optimizer.TensorCost{State: []int64{n, n, 0}, Flops: flops * float64(n), Params: 2, Grads: 1}
		if first {
			c.State[slotSum], first = 1, false
		}
		return c.Clipped(t, r.maxGradNorm)
	})
}
