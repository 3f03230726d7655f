// Package adamw is Adam with decoupled weight decay: Loshchilov and Hutter, "Decoupled Weight Decay
// Regularization", ICLR 2019 (arXiv:1711.05101), on Kingma and Ba's Adam (arXiv:1412.6980).
//
//	g  = g · min(1, max_grad_norm / ‖g‖)         only when max_grad_norm > 0; ‖g‖ over all parameters, or over the tensor with clip_by=tensor
//	m  = beta1·m + (1-beta1)·g
//	v  = beta2·v + (1-beta2)·g²
//	m̂  = m / (1-beta1^t),  v̂ = v / (1-beta2^t)   without bias correction m̂ = m, v̂ = v
//	p -= lr · (m̂ / (sqrt(v̂) + eps) + λ·p)        λ = weight_decay; 0 for biases and layer normalisation
//
// With bias_correction=false, eps=1e-6 and max_grad_norm=1 it is the AdamWeightDecayOptimizer with which
// google-research/bert was trained; with clip_by=tensor as well, it is NVIDIA's BertAdam (DeepLearningExamples PyTorch
// BERT, optimization.py). The moments are float32, and so is the arithmetic; norms are summed in float64. With
// first_moment=fp16 m is stored in FP16 before it is used.
package adamw

import (
	"math"

	"harness.invalid/core/optimizer"
	"harness.invalid/core/option"
)

var info = optimizer.Info{
	Name: "adamw", Version: "1", Doc: "Adam with decoupled weight decay (Loshchilov and Hutter 2019, arXiv:1711.05101)",
	Options: append([]option.Option{
		{Name: "beta1", Default: "0.9", Doc: "decay of the first moment"},
		{Name: "beta2", Default: "0.999", Doc: "decay of the second moment"},
		{Name: "eps", Default: "1e-8", Doc: "added to the root of the second moment; BERT uses 1e-6"},
		{Name: "weight_decay", Default: "0.01", Doc: "decoupled weight decay λ; not on biases and layer normalisation"},
		{Name: "bias_correction", Default: "true", Doc: "divide the moments by 1-beta^t; BERT's Adam does not"},
		{Name: "max_grad_norm", Default: "0", Doc: "clip the gradient's norm to this, 0: no clipping; BERT uses 1"},
		{Name: "clip_by", Default: "global", Doc: "clip the norm over all parameters (global) or of each tensor, as NVIDIA's BertAdam does"},
	}, optimizer.MomentOptions...),
}

// New returns the rule.
func New() optimizer.Optimizer { return optimizer.Rule{Info: info, Read: read} }

type rule struct {
	optimizer.Adam
	maxGradNorm float64
	clipTensors bool
	moment      optimizer.Moment
}

func read(v *option.Values) (optimizer.Update, error) {
	r := &rule{
		Adam:        optimizer.ReadAdam(v),
		maxGradNorm: v.Float("max_grad_norm", 0, math.MaxFloat32),
		clipTensors: v.OneOf("clip_by", "global", "tensor") == "tensor",
	}
	r.BiasCorrection = v.Bool("bias_correction")
	var err error
	r.moment, err = optimizer.ReadMoment(v)
	return r, err
}

// Slots implements optimizer.Update: the moments m and v.
func (*rule) Slots() []string { return []string{"m", "v"} }

// Step implements optimizer.Update.
func (r *rule) Step(w *optimizer.Work, step optimizer.Step) {
	all := r.Kernel(step, optimizer.ClipScale(w.Norm, r.maxGradNorm))
	scales := r.tensorScales(w)
	w.Each(func(b optimizer.Block) {
		k := all
		k.WeightDecay = w.Decay(b, r.WeightDecay)
		if scales != nil {
			k.GradScale = scales[b.Tensor]
		}
		p, g, m, v := b.Of(w.Params), b.Of(w.Grads), b.Of(w.Slots[0]), b.Of(w.Slots[1])
		if r.moment.Narrow() {
			r.moment.Update(&k, step.Step, b, m, g)
			k = r.moment.Kept(k)
		}
		k.AdamW(p, m, v, g)
	})
}

// tensorScales are the factors of the gradient by tensor; nil: all have the same.
func (r *rule) tensorScales(w *optimizer.Work) []float32 {
	if !r.clipTensors || r.maxGradNorm == 0 {
		return nil
	}
	scales := make([]float32, len(w.Layout.Tensors()))
	rest := w.Blocks
	for i := range scales {
		n := 0
		for n < len(rest) && rest[n].Tensor == i {
			n++
		}
		scales[i] = float32(optimizer.ClipScale(optimizer.Norm(rest[:n], w.Grads), r.maxGradNorm))
		rest = rest[n:]
	}
	return scales
}
