package optimizer

import (
	"math"

	"harness.invalid/core/kernels"
	"harness.invalid/core/option"
	"harness.invalid/core/tensor"
)

// Adam are the settings of Adam's moments and of the step that AdamW takes with them.
type Adam struct {
	Beta1, Beta2, Eps, WeightDecay float64
	BiasCorrection                 bool
}

// ReadAdam reads the options beta1, beta2, eps and weight_decay, which rules of Adam's family have. Bias correction is on.
func ReadAdam(v *option.Values) Adam {
	return Adam{
		Beta1: v.Float("beta1", 0, 1-1e-9),
		Beta2: v.Float("beta2", 0, 1-1e-9),
		// Below the smallest normal float32 eps would round to nothing, and 0/0 follow for a parameter without gradient.
		Eps:            v.Float("eps", 0x1p-126, 1),
		WeightDecay:    v.Float("weight_decay", 0, 1e3),
		BiasCorrection: true,
	}
}

// Kernel returns the coefficients of a step with gradients scaled by gradScale, with decay.
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

// Cost is that of a step with all of the gradient's elements read once and the parameters read and written: m takes 3 operations, v 4, bias correction 2,
// root, eps and division 3, the learning rate and the difference 2, decay 2 more, by 0 where none applies. Source: Kingma and Ba 2014, algorithm 1; Loshchilov and Hutter 2019,
// algorithm 2. NVIDIA's FusedAdam (apex, multi_tensor_adam.cu) makes the same accesses.
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
