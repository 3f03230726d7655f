package nadamw

import (
	"harness.invalid/core/optimizer"
	"harness.invalid/core/tensor"
)

// Cost implements what optimizer.Coster asks of a rule: Adam's, with 2 operations more for the momentum that looks
// ahead. Source: Dozat 2016, algorithm 8.
func (r *rule) Cost(l *tensor.Layout) optimizer.Cost {
	return optimizer.CostOver(l, optimizer.FP32Slots(r.Slots()...), func(t tensor.Tensor) optimizer.TensorCost {
		c := r.Adam.Cost(t)
		c.Flops += 2 * float64(t.Len())
		return c.Clipped(t, r.maxGradNorm)
	})
}
