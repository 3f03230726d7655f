package adamw

import (
	"harness.invalid/core/optimizer"
	"harness.invalid/core/tensor"
)

// bertAdam is what NVIDIA's BertAdam, which clips each tensor on its own, does where our rule has two sweeps: 14
// kernels on each tensor that read and write 30 numbers for each parameter. Source: NVIDIA/DeepLearningExamples,
// PyTorch BERT, optimization.py, BertAdam.step with clip_grad_norm_:
//
//	norm 1, clip 2, m·beta1 2, m + g 3, v·beta2 2, v + g² 3, root 2, + eps 2, quotient 3, λ·p 2, sum 3, ·lr 2, p - u 3
//
// 3 of the 30 are of the parameter, 6 of the gradient, 9 of m and v, of which an update in one sweep has 4.
const (
	bertAdamKernels = 14
	bertAdamParams  = 3
	bertAdamGrads   = 6
	bertAdamMoments = 9
	bertAdamAll     = 30
)

// Cost implements what optimizer.Coster asks of a rule.
func (r *rule) Cost(l *tensor.Layout) optimizer.Cost {
	return optimizer.CostOver(l, r.moment.Slots(), func(t tensor.Tensor) optimizer.TensorCost {
		c := r.moment.Cost(r.Adam.Cost(t), t.Len()).Clipped(t, r.maxGradNorm)
		if r.clipTensors && r.maxGradNorm > 0 {
			const moments = 4 // that every cost counts
			c.Params, c.Grads, c.Kernels = bertAdamParams, bertAdamGrads, bertAdamKernels
			c.Scratch = float64(t.Len()) * (bertAdamAll - bertAdamParams - bertAdamGrads - moments)
		}
		return c
	})
}
