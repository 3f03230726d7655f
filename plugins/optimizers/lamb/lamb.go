// Package lamb is LAMB: You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", ICLR
// 2020 (arXiv:1904.00962), algorithm 2, as NVIDIA's apex computes it in FusedLAMB (csrc/multi_tensor_lamb.cu) and
// with the variants in use.
//
//	g  = g · min(1, max_grad_norm / ‖g‖)         ‖g‖ over all parameters
//	m  = beta1·m + β3·g                          β3 = 1-beta1, or 1 without grad_averaging
//	v  = beta2·v + (1-beta2)·g²
//	m̂  = m / (1-beta1^t),  v̂ = v / (1-beta2^t)   without bias correction m̂ = m, v̂ = v
//	u  = m̂ / (sqrt(v̂) + eps) + λ·p               λ = weight_decay; 0 for biases and layer normalisation
//	p -= lr · ratio · u
//
// Each tensor has its own trust ratio: min(‖p‖, max_weight_norm) / ‖u‖ if both norms are positive, else 1. A tensor
// without decay also has ratio 1, unless use_nvlamb is set (NVLAMB). The paper's φ is the identity;
// max_weight_norm clips it, as Graphcore's BERT does.
//
// The moments are float32, and so is the arithmetic; norms are summed in float64. Step writes u over the gradients.
// With first_moment=fp16 m is stored in FP16 before it is used. With update_format=fp16 u is rounded to FP16, to
// nearest, before its norm is taken: FusedLAMB writes it over the gradients, which are FP16 where the model is.
package lamb

import (
	"math"

	"harness.invalid/core/kernels"
	"harness.invalid/core/numerics"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/option"
)

var info = optimizer.Info{
	Name: "lamb", Version: "1", Doc: "LAMB as NVIDIA's FusedLAMB computes it (You et al. 2020, arXiv:1904.00962)",
	Options: append([]option.Option{
		{Name: "beta1", Default: "0.9", Doc: "decay of the first moment"},
		{Name: "beta2", Default: "0.999", Doc: "decay of the second moment"},
		{Name: "eps", Default: "1e-6", Doc: "added to the root of the second moment"},
		{Name: "weight_decay", Default: "0.01", Doc: "decay λ inside the update; not on biases and layer normalisation"},
		{Name: "bias_correction", Default: "true", Doc: "divide the moments by 1-beta^t"},
		{Name: "grad_averaging", Default: "true", Doc: "weigh the gradient by 1-beta1 in the first moment, else by 1"},
		{Name: "use_nvlamb", Default: "false", Doc: "take the trust ratio of tensors without weight decay too"},
		{Name: "max_grad_norm", Default: "1", Doc: "clip the global gradient norm to this, 0: no clipping"},
		{Name: "max_weight_norm", Default: "0", Doc: "greatest norm of a tensor in its trust ratio, 0: no limit"},
		{Name: "update_format", Default: "fp32", Doc: "format of the update between passes: fp32, or fp16 as in FusedLAMB with FP16 gradients"},
	}, optimizer.MomentOptions...),
}

// New returns the rule.
func New() optimizer.Optimizer { return optimizer.Rule{Info: info, Read: read} }

type rule struct {
	optimizer.Adam
	maxGradNorm, maxWeightNorm float64
	gradAveraging, nvlamb      bool
	roundUpdate                bool // to FP16
	moment                     optimizer.Moment
}

func read(v *option.Values) (optimizer.Update, error) {
	r := &rule{
		Adam:          optimizer.ReadAdam(v),
		maxGradNorm:   v.Float("max_grad_norm", 0, math.MaxFloat32),
		maxWeightNorm: v.Float("max_weight_norm", 0, math.MaxFloat32),
		gradAveraging: v.Bool("grad_averaging"),
		nvlamb:        v.Bool("use_nvlamb"),
		roundUpdate:   v.OneOf("update_format", "fp32", "fp16") == "fp16",
	}
	r.BiasCorrection = v.Bool("bias_correction")
	var err error
	r.moment, err = optimizer.ReadMoment(v)
	return r, err
}

// Slots implements optimizer.Update: the moments m and v.
func (*rule) Slots() []string { return []string{"m", "v"} }

// squares are sums of squares of parameters and updates.
type squares struct{ p, u float64 }

// Step implements optimizer.Update.
func (r *rule) Step(w *optimizer.Work, step optimizer.Step) {
	all := r.Kernel(step, optimizer.ClipScale(w.Norm, r.maxGradNorm))
	if !r.gradAveraging {
		all.Beta3 = 1
	}
	sums := make([]squares, len(w.Blocks))
	kernels.Parallel(len(w.Blocks), func(i0, i1 int) {
		for i := i0; i < i1; i++ {
			b, k := w.Blocks[i], all
			k.WeightDecay = w.Decay(b, r.WeightDecay)
			p, u, m, v := b.Of(w.Params), b.Of(w.Grads), b.Of(w.Slots[0]), b.Of(w.Slots[1])
			if r.moment.Narrow() {
				r.moment.Update(&k, step.Step, b, m, u)
				k = r.moment.Kept(k)
			}
			sums[i].p, sums[i].u = k.LAMBUpdate(u, p, m, v, u)
			if r.roundUpdate {
				kernels.Round(u, u, numerics.Rounding{Format: numerics.FP16}, 0)
				sums[i].u = kernels.SumSquares(u)
			}
		}
	})
	scales := r.trust(w, sums, step.LR)
	w.Each(func(b optimizer.Block) { kernels.Axpy(b.Of(w.Params), scales[b.Tensor], b.Of(w.Grads)) })
}

// trust turns the sums of squares of the blocks into -lr·ratio of each tensor.
func (r *rule) trust(w *optimizer.Work, sums []squares, lr float64) []float32 {
	scales := make([]float32, len(w.Layout.Tensors()))
	i := 0
	for t, of := range w.Layout.Tensors() {
		var sum squares
		for ; i < len(w.Blocks) && w.Blocks[i].Tensor == t; i++ {
			sum.p += sums[i].p
			sum.u += sums[i].u
		}
		ratio := 1.0
		if decays := r.WeightDecay != 0 && optimizer.Decays(of.Kind); (decays || r.nvlamb) && sum.p > 0 && sum.u > 0 {
			weight := math.Sqrt(sum.p)
			if r.maxWeightNorm > 0 {
				weight = min(weight, r.maxWeightNorm)
			}
			ratio = weight / math.Sqrt(sum.u)
		}
		scales[t] = float32(-lr * ratio)
	}
	return scales
}
