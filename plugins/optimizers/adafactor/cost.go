package adafactor

import (
	"harness.invalid/core/optimizer"
	"harness.invalid/core/tensor"
)

// sides are the rows and columns of a tensor, and whether its second moments are kept in factors.
func sides(t tensor.Tensor) (rows, cols int, factored bool) {
	if len(t.Shape) != 2 {
		return 1, t.Len(), false
	}
	rows, cols = t.Shape[0], t.Shape[1]
	return rows, cols, rows > 1 && rows+cols <= rows*cols
}

// Cost implements what optimizer.Coster asks of a rule. Source: Shazeer and Stern 2018, algorithms 4 and 5.
//
//	operations  square and eps 2, sums of rows and columns 2 (or the moment 3), root and quotient 2, in factors 1 more,
//	            squares of the update 2, step 2;
//	            squares of the parameter 2, first moment 3, decay 1, where there are such
//	gradients   read for the moments, read and written for the update, read for its norm and to be applied: 5; in
//	            factors the norm is computed with the update: 4
//	parameters  read and written; read for their norm; read and written for decay
func (a *rule) Cost(l *tensor.Layout) optimizer.Cost {
	return optimizer.CostOver(l, optimizer.FP32Slots(a.Slots()...), func(t tensor.Tensor) optimizer.TensorCost {
		rows, cols, factored := sides(t)
		n := int64(t.Len())
		c := optimizer.TensorCost{State: []int64{n}, Params: 2, Grads: 5}
		flops := 11.
		if factored {
			c.State[0], c.Grads = int64(rows+cols), 4
		}
		if a.scaleParameter {
			flops, c.Params = flops+2, c.Params+1
		}
		if a.beta1 > 0 {
			flops, c.State = flops+3, append(c.State, n)
		}
		if a.weightDecay != 0 {
			flops, c.Params = flops+1, c.Params+2
		}
		c.Flops = flops * float64(n)
		// The norm of the update comes before the update, that of the parameter before both: a tensor takes kernels of
		// its own. They are the sums, the update, the norms, and the step.
		c.Kernels = 5
		return c
	})
}
