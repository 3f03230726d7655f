package sam

import (
	"harness.invalid/core/optimizer"
	"harness.invalid/core/tensor"
)

// Cost implements what optimizer.Coster asks of a rule: AdamW's, and the probe, which squares and sums the first
// gradient and adds a multiple of it to the parameters. The second gradient is not in it: optimizer.Cost.Probes
// stands for that. Source: Foret et al. 2021, algorithm 1.
func (r *rule) Cost(l *tensor.Layout) optimizer.Cost {
	return optimizer.CostOver(l, optimizer.FP32Slots(r.Slots()...), func(t tensor.Tensor) optimizer.TensorCost {
		c := r.Adam.Cost(t)
		c.Params, c.Grads, c.Flops = c.Params+2, c.Grads+2, c.Flops+4*float64(t.Len())
		return c.Clipped(t, r.maxGradNorm)
	})
}
