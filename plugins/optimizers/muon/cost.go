package muon

import (
	"harness.invalid/core/optimizer"
	"harness.invalid/core/tensor"
)

// Cost implements what optimizer.Coster asks of a rule: AdamW's for what is no matrix. A matrix keeps its momentum
// alone. In each of the five steps of Newton and Schulz it has X·Xᵀ, A·A and B·X with n its shorter side, and
// beside them b·A + c·A² and a·X + B·X. Source: Jordan et al. 2024, who count 6·n·m² operations a step with
// products of a symmetric result halved; here they are whole.
func (r *rule) Cost(l *tensor.Layout) optimizer.Cost {
	return optimizer.CostOver(l, optimizer.FP32Slots(r.Slots()...), func(t tensor.Tensor) optimizer.TensorCost {
		if !orthogonal(t) {
			return r.Adam.Cost(t).Clipped(t, r.maxGradNorm)
		}
		rows, cols := t.Shape[0], t.Shape[1]
		n, m, size := min(rows, cols), max(rows, cols), float64(t.Len())
		square := float64(n) * float64(n)
		c := optimizer.TensorCost{State: []int64{int64(size), 0}, Params: 2, Grads: 1, Products: []optimizer.Product{
			{Count: quinticSteps, Groups: 1, M: n, K: m, N: n},
			{Count: quinticSteps, Groups: 1, M: n, K: n, N: n},
			{Count: quinticSteps, Groups: 1, M: n, K: n, N: m},
		}}
		// Momentum 3, norm 2, its quotient 1, the step 2.
		flops, kernels := 8., 4.
		if r.nesterov {
			flops += 3
		}
		if r.WeightDecay != 0 {
			flops++
		}
		c.Flops = flops*size + quinticSteps*(3*square+2*size)
		// X is written, then read and divided; in a step b·A + c·A² reads two and writes one, a·X + B·X likewise.
		c.Scratch = 3*size + quinticSteps*(3*square+3*size)
		c.Kernels = kernels + 2*quinticSteps
		return c.Clipped(t, r.maxGradNorm)
	})
}
