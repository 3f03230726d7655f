// Package nadamw is Adam with Nesterov's momentum and decoupled weight decay: Dozat, "Incorporating Nesterov
// Momentum into Adam", ICLR workshop 2016, with the decay of Loshchilov and Hutter 2019 (arXiv:1711.05101), as
// in AlgoPerf's baseline (Dahl et al. 2023, arXiv:2306.07179) and optax: the momentum is constant, without Dozat's
// schedule, which torch.optim.NAdam has.
//
//	g  = g · min(1, max_grad_norm / ‖g‖)    ‖g‖ over all parameters; only when max_grad_norm > 0
//	m  = beta1·m + (1-beta1)·g
//	v  = beta2·v + (1-beta2)·g²
//	m̂  = beta1·m / (1-beta1^(t+1)) + (1-beta1)·g / (1-beta1^t)
//	v̂  = v / (1-beta2^t)
//	p -= lr · (m̂ / (sqrt(v̂) + eps) + λ·p)   λ = weight_decay; 0 for biases and layer normalisation
//
// All arithmetic is float32; the norm is summed in float64.
package nadamw

import (
	"math"

	"harness.invalid/core/optimizer"
	"harness.invalid/core/option"
)

var info = optimizer.Info{
	Name: "nadamw", Version: "1", Doc: "Adam with Nesterov's momentum and decoupled decay (Dozat 2016; as in AlgoPerf, arXiv:2306.07179)",
	Options: []option.Option{
		{Name: "beta1", Default: "0.9", Doc: "decay of the first moment"},
		{Name: "beta2", Default: "0.999", Doc: "decay of the second moment"},
		{Name: "eps", Default: "1e-8", Doc: "added to the root of the second moment"},
		{Name: "weight_decay", Default: "0.01", Doc: "decoupled weight decay λ; not on biases and layer normalisation"},
		{Name: "max_grad_norm", Default: "0", Doc: "clip the global gradient norm to this, 0: no clipping"},
	},
}

// New returns the rule.
func New() optimizer.Optimizer { return optimizer.Rule{Info: info, Read: read} }

type rule struct {
	optimizer.Adam
	maxGradNorm float64
}

func read(v *option.Values) (optimizer.Update, error) {
	return &rule{optimizer.ReadAdam(v), v.Float("max_grad_norm", 0, math.MaxFloat32)}, nil
}

// Slots implements optimizer.Update: the moments m and v.
func (*rule) Slots() []string { return []string{"m", "v"} }

// Step implements optimizer.Update.
func (r *rule) Step(w *optimizer.Work, step optimizer.Step) {
	scale, lr, eps := float32(optimizer.ClipScale(w.Norm, r.maxGradNorm)), float32(step.LR), float32(r.Eps)
	keep1, take1, keep2, take2 := float32(r.Beta1), float32(1-r.Beta1), float32(r.Beta2), float32(1-r.Beta2)
	t := float64(step.Step)
	ahead := float32(r.Beta1 / (1 - math.Pow(r.Beta1, t+1)))     // factor of m in m̂
	fresh := float32((1 - r.Beta1) / (1 - math.Pow(r.Beta1, t))) // factor of g in m̂
	second := float32(1 / (1 - math.Pow(r.Beta2, t)))
	w.Each(func(b optimizer.Block) {
		decay := w.Decay(b, r.WeightDecay)
		p, g, m, v := b.Of(w.Params), b.Of(w.Grads), b.Of(w.Slots[0]), b.Of(w.Slots[1])
		for i := range p {
			g := scale * g[i]
			m[i] = float32(keep1*m[i]) + float32(take1*g)
			v[i] = float32(keep2*v[i]) + float32(float32(take2*g)*g)
			top := float32(ahead*m[i]) + float32(fresh*g)
			root := float32(math.Sqrt(float64(second * v[i])))
			p[i] -= float32(lr * (top/(root+eps) + float32(decay*p[i])))
		}
	})
}
