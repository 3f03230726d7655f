// Package sgd is stochastic gradient descent with momentum: Sutskever, Martens, Dahl, Hinton, "On the importance of
// initialization and momentum in deep learning", ICML 2013, in the form that torch.optim.SGD gives it.
//
//	g  = g · min(1, max_grad_norm / ‖g‖)    ‖g‖ over all parameters; only when max_grad_norm > 0
//	g  = g + λ·p                            λ = weight_decay; 0 for biases and layer normalisation
//	b  = momentum·b + (1-dampening)·g       b = g at the first step
//	p -= lr · b                             nesterov: lr · (g + momentum·b); without momentum: lr · g
//
// All arithmetic is float32; the norm is summed in float64.
package sgd

import (
	"fmt"
	"math"

	"harness.invalid/core/kernels"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/option"
)

var info = optimizer.Info{
	Name: "sgd", Version: "1", Doc: "stochastic gradient descent with momentum (Sutskever et al. 2013; as torch.optim.SGD)",
	Options: []option.Option{
		{Name: "momentum", Default: "0", Doc: "share of the last update that goes on, 0: none, and no state"},
		{Name: "dampening", Default: "0", Doc: "share of the gradient that momentum leaves out"},
		{Name: "nesterov", Default: "false", Doc: "look ahead by the momentum (Nesterov); wants momentum and no dampening"},
		{Name: "weight_decay", Default: "0", Doc: "L2 penalty λ, added to the gradient; not on biases and layer normalisation"},
		{Name: "max_grad_norm", Default: "0", Doc: "clip the global gradient norm to this, 0: no clipping"},
	},
}

// New returns the rule.
func New() optimizer.Optimizer { return optimizer.Rule{Info: info, Read: read} }

type rule struct {
	momentum, dampening, weightDecay, maxGradNorm float64
	nesterov                                      bool
}

func read(v *option.Values) (optimizer.Update, error) {
	r := &rule{
		momentum:    v.Float("momentum", 0, 1),
		dampening:   v.Float("dampening", 0, 1),
		nesterov:    v.Bool("nesterov"),
		weightDecay: v.Float("weight_decay", 0, 1e3),
		maxGradNorm: v.Float("max_grad_norm", 0, math.MaxFloat32),
	}
	if r.nesterov && (r.momentum == 0 || r.dampening != 0) {
		return nil, fmt.Errorf("nesterov with momentum %g and dampening %g, want a positive momentum and no dampening", r.momentum, r.dampening)
	}
	return r, nil
}

// Slots implements optimizer.Update: the momentum, if there is one.
func (r *rule) Slots() []string {
	if r.momentum == 0 {
		return nil
	}
	return []string{"momentum_buffer"}
}

// Step implements optimizer.Update.
func (r *rule) Step(w *optimizer.Work, step optimizer.Step) {
	scale := float32(optimizer.ClipScale(w.Norm, r.maxGradNorm))
	w.Each(func(b optimizer.Block) {
		p, g := b.Of(w.Params), b.Of(w.Grads)
		if scale != 1 {
			kernels.Scale(g, scale, g)
		}
		if decay := w.Decay(b, r.weightDecay); decay != 0 {
			kernels.Axpy(g, decay, p)
		}
		if r.momentum == 0 {
			kernels.Axpy(p, float32(-step.LR), g)
			return
		}
		buffer := b.Of(w.Slots[0])
		if step.Step == 1 {
			copy(buffer, g)
		} else {
			kernels.Scale(buffer, float32(r.momentum), buffer)
			kernels.Axpy(buffer, float32(1-r.dampening), g)
		}
		if r.nesterov {
			kernels.Axpy(g, float32(r.momentum), buffer)
			kernels.Axpy(p, float32(-step.LR), g)
		} else {
			kernels.Axpy(p, float32(-step.LR), buffer)
		}
	})
}
