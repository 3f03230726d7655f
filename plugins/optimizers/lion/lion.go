// Package lion is Lion, an update found by program search: Chen et al., "Symbolic Discovery of Optimization
// Algorithms", NeurIPS 2023 (arXiv:2302.06675), algorithm 2.
//
//	g  = g · min(1, max_grad_norm / ‖g‖)    ‖g‖ over all parameters; only when max_grad_norm > 0
//	c  = beta1·m + (1-beta1)·g
//	p -= lr · (sign(c) + λ·p)               λ = weight_decay; 0 for biases and layer normalisation; sign(0) = 0
//	m  = beta2·m + (1-beta2)·g
//
// All elements move by the same amount, so the paper uses learning rates 3 to 10 times smaller than AdamW's and weight
// decays larger by the same factor. All arithmetic is float32; the norm is summed in float64.
package lion

import (
	"math"

	"harness.invalid/core/optimizer"
	"harness.invalid/core/option"
)

var info = optimizer.Info{
	Name: "lion", Version: "1", Doc: "Lion (Chen et al. 2023, arXiv:2302.06675)",
	Options: []option.Option{
		{Name: "beta1", Default: "0.9", Doc: "share of the momentum in the sign that is taken"},
		{Name: "beta2", Default: "0.99", Doc: "decay of the momentum"},
		{Name: "weight_decay", Default: "0.01", Doc: "decoupled weight decay λ; not on biases and layer normalisation"},
		{Name: "max_grad_norm", Default: "0", Doc: "clip the global gradient norm to this, 0: no clipping"},
	},
}

// New returns the rule.
func New() optimizer.Optimizer { return optimizer.Rule{Info: info, Read: read} }

type rule struct{ beta1, beta2, weightDecay, maxGradNorm float64 }

func read(v *option.Values) (optimizer.Update, error) {
	return &rule{
		beta1:       v.Float("beta1", 0, 1-1e-9),
		beta2:       v.Float("beta2", 0, 1-1e-9),
		weightDecay: v.Float("weight_decay", 0, 1e3),
		maxGradNorm: v.Float("max_grad_norm", 0, math.MaxFloat32),
	}, nil
}

// Slots implements optimizer.Update: the momentum m.
func (*rule) Slots() []string { return []string{"m"} }

// Step implements optimizer.Update.
func (r *rule) Step(w *optimizer.Work, step optimizer.Step) {
	scale, lr := float32(optimizer.ClipScale(w.Norm, r.maxGradNorm)), float32(step.LR)
	keep1, take1, keep2, take2 := float32(r.beta1), float32(1-r.beta1), float32(r.beta2), float32(1-r.beta2)
	w.Each(func(b optimizer.Block) {
		decay := w.Decay(b, r.weightDecay)
		p, g, m := b.Of(w.Params), b.Of(w.Grads), b.Of(w.Slots[0])
		for i := range p {
			g := scale * g[i]
			u := sign(float32(keep1*m[i]) + float32(take1*g))
			p[i] -= float32(lr * (u + float32(decay*p[i])))
			m[i] = float32(keep2*m[i]) + float32(take2*g)
		}
	})
}

// sign is -1, 0 or 1, and NaN for NaN.
func sign(x float32) float32 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return x
}
