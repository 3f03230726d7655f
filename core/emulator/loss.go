package emulator

import (
	"slices"

	"harness.invalid/core/bert"
	"harness.invalid/core/kernels"
)

// CrossEntropy computes in FP32 from the stored logits, and stores their gradient as the policy's LossGrad says.
func (d *Device) CrossEntropy(p *bert.Pass, op *bert.CrossEntropy) (sum bert.Loss) {
	s := d.scratch.get()
	defer d.scratch.put(s)
	floats := s.take(2 * op.Rows)
	losses, right := floats[:op.Rows], floats[op.Rows:]
	grad := d.outputs(p, d.policy.LossGrad, op.Site, drawGrad, batchRows{op.Rows, op.Tokens}, op.Classes)
	kernels.Parallel(op.Rows, func(r0, r1 int) {
		var row []float32
		if !p.Train {
			s := d.scratch.get()
			defer d.scratch.put(s)
			row = s.take(op.Classes)
		}
		for r := r0; r < r1; r++ {
			x, label := op.Logits[r*op.Classes:(r+1)*op.Classes], int(op.Labels[r])
			top := kernels.Max(x)
			right[r] = 0
			if x[label] == top && !slices.Contains(x[:label], top) { // the first index of the greatest logit
				right[r] = 1
			}
			if !p.Train {
				losses[r] = kernels.LogSumExp(x, top, row) - x[label]
				continue
			}
			losses[r] = kernels.CrossEntropy(x, top, label, float32(op.Coefficient*weight(op.Weights, r)))
			d.put(&grad, x, r, 0)
		}
	})
	for r := range op.Rows {
		w := weight(op.Weights, r)
		sum.Weight += w
		if w != 0 { // the loss of padding may be infinite
			sum.Sum += w * float64(losses[r])
			sum.Correct += w * float64(right[r])
		}
	}
	return sum
}

// weight is the weight of row r, 1 where rows have no weights.
func weight(weights []float32, r int) float64 {
	if weights == nil {
		return 1
	}
	return float64(weights[r])
}

// SquaredError computes in FP32.
func (d *Device) SquaredError(p *bert.Pass, op *bert.SquaredError) (sum bert.Loss) {
	grad := d.outputs(p, d.policy.LossGrad, op.Site, drawGrad, batchRows{count: len(op.Y)}, 1)
	for i, y := range op.Y {
		e := float64(y) - float64(op.Targets[i])
		sum.Sum += e * e
		sum.Weight++
		if p.Train {
			op.Y[i] = float32(2 * op.Coefficient * e)
			d.put(&grad, op.Y[i:i+1], i, 0)
		}
	}
	return sum
}
