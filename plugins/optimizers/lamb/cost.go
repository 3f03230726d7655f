package lamb

import (
	"harness.invalid/core/optimizer"
	"harness.invalid/core/tensor"
)

// Cost implements what optimizer.Coster asks of a rule: Adam's arithmetic, and squares and sums for the norms of
// parameters and updates. FusedLAMB writes the update over the gradient, takes both norms in kernels of their own,
// and reads parameters and updates a last time to apply them. Source: apex, multi_tensor_lamb.cu.
//
//	parameters  read for the update, for the norm and to be changed, written                     4
//	gradients   read for the update, which is written in their place, read for the norm, applied 4
func (r *rule) Cost(l *tensor.Layout) optimizer.Cost {
	cost := optimizer.CostOver(l, r.moment.Slots(), func(t tensor.Tensor) optimizer.TensorCost {
		c := r.moment.Cost(r.Adam.Cost(t), t.Len())
		c.Params, c.Grads, c.Flops = 4, 4, c.Flops+4*float64(t.Len())
		return c.Clipped(t, r.maxGradNorm)
	})
	cost.Fused = true
	return cost
}
