// Package sam is sharpness-aware minimisation with AdamW: Foret, Kleiner, Mobahi, Neyshabur, "Sharpness-Aware
// Minimization for Efficiently Improving Generalization", ICLR 2021 (arXiv:2010.01412), algorithm 1 with p = 2, on
// Loshchilov and Hutter's AdamW (arXiv:1711.05101).
//
//	g  = ∇L(p)                      first gradient
//	g  = ∇L(p + rho · g / ‖g‖)      second gradient, of the same batch; ‖g‖ over all parameters
//	p  = AdamW(p, g)                moments, bias correction, decay and clipping are of the second gradient
//
// A step needs two gradients. The first is the gradient of the whole global batch, summed over micro-batches and
// replicas before the probe: the paper's m is the global batch. Both use the same dropout masks, so they are gradients
// of one function. With rho=0 the rule is AdamW at twice the cost.
//
// All arithmetic is float32; norms are summed in float64.
package sam

import (
	"math"

	"harness.invalid/core/kernels"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/option"
)

var info = optimizer.Info{
	Name: "sam", Version: "1", Doc: "sharpness-aware minimisation with AdamW (Foret et al. 2021, arXiv:2010.01412)",
	Options: []option.Option{
		{Name: "rho", Default: "0.05", Doc: "L2 norm of the move up the first gradient, to where the second is computed"},
		{Name: "beta1", Default: "0.9", Doc: "AdamW: decay of the first moment"},
		{Name: "beta2", Default: "0.999", Doc: "AdamW: decay of the second moment"},
		{Name: "eps", Default: "1e-8", Doc: "AdamW: added to the root of the second moment"},
		{Name: "weight_decay", Default: "0.01", Doc: "decoupled weight decay λ; not on biases and layer normalisation"},
		{Name: "max_grad_norm", Default: "0", Doc: "clip the global norm of the second gradient to this, 0: no clipping"},
	},
	Probes: true,
}

// New returns the rule.
func New() optimizer.Optimizer { return optimizer.Rule{Info: info, Read: read} }

type rule struct {
	optimizer.Adam
	rho, maxGradNorm float64
}

func read(v *option.Values) (optimizer.Update, error) {
	return &rule{optimizer.ReadAdam(v), v.Float("rho", 0, 1e3), v.Float("max_grad_norm", 0, math.MaxFloat32)}, nil
}

// Slots implements optimizer.Update: the moments m and v of the second gradients.
func (*rule) Slots() []string { return []string{"m", "v"} }

// Probe goes up the first gradient.
func (r *rule) Probe(w *optimizer.Work, _ optimizer.Step) {
	if w.Norm == 0 {
		return
	}
	scale := float32(r.rho / w.Norm)
	w.Each(func(b optimizer.Block) { kernels.Axpy(b.Of(w.Params), scale, b.Of(w.Grads)) })
}

// Step implements optimizer.Update.
func (r *rule) Step(w *optimizer.Work, step optimizer.Step) {
	all := r.Kernel(step, optimizer.ClipScale(w.Norm, r.maxGradNorm))
	w.Each(func(b optimizer.Block) {
		k := all
		k.WeightDecay = w.Decay(b, r.WeightDecay)
		k.AdamW(b.Of(w.Params), b.Of(w.Slots[0]), b.Of(w.Slots[1]), b.Of(w.Grads))
	})
}
