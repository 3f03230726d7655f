package optimizer

import (
	"math"

	"harness.invalid/core/kernels"
	"harness.invalid/core/option"
	"harness.invalid/core/tensor"
)

// Adam holds the settings of Adam's moments and of AdamW's step.
type Adam struct {
	Beta1, Beta2, Eps, WeightDecay float64
	BiasCorrection                 bool
}

// ReadAdam reads the options beta1, beta2, eps and weight_decay of rules in Adam's family. Bias correction is on.
func ReadAdam(v *option.Values) Adam {
	return Adam{
		Beta1: v.Float("beta1", 0, 1-1e-9),
		Beta2: v.Float("beta2", 0, 1-1e-9),
		// An eps below the smallest normal float32 would round to 0, and a parameter without gradient would become 0/0.
		Eps:            v.Float("eps", 0x1p-126, 1),
		WeightDecay:    v.Float("weight_decay", 0, 1e3),
		BiasCorrection: true,
	}
}

// Kernel returns the coefficients of a step, with decay, for gradients scaled by gradScale.
func (a Adam) Kernel(s Step, gradScale float64) kernels.Adam {
	k := kernels.Adam{
		LR: float32(s.LR), GradScale: float32(gradScale),
		Beta1: float32(a.Beta1), Beta2: float32(a.Beta2), Beta3: float32(1 - a.Beta1), Beta4: float32(1 - a.Beta2),
		Correction1: 1, Correction2: 1, Eps: float32(a.Eps), WeightDecay: float32(a.WeightDecay),
	}
	if a.BiasCorrection {
		k.Correction1 = float32(1 / (1 - math.Pow(a.Beta1, float64(s.Step))))
		k.Correction2 = float32(1 / (1 - math.Pow(a.Beta2, float64(s.Step))))
	}
	return k
}

// Cost is the cost of a step that reads each gradient once and reads and writes each parameter. m takes 3 operations, v 4,
// bias correction 2, the root, eps and the division 3, the learning rate and the subtraction 2. Decay takes 2 more, and the
// kernel multiplies by 0 where none applies. Source: Kingma and Ba 2014, algorithm 1; Loshchilov and Hutter 2019, algorithm
// 2. NVIDIA's FusedAdam (apex, multi_tensor_adam.cu) makes the same accesses.
func (a Adam) Cost(t tensor.Tensor) TensorCost {
	flops := 12.
	if a.BiasCorrection {
		flops += 2
	}
	if a.WeightDecay != 0 {
		flops += 2
	}
	return TensorCost{Flops: flops * float64(t.Len()), Params: 2, Grads: 1}
}
