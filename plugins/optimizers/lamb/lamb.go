// Package lamb is LAMB: You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", ICLR 2020
// (arXiv:1904.00962), algorithm 2, as NVIDIA's apex computes it in FusedLAMB (csrc/multi_tensor_lamb.cu) and with the variants in use.
//
//	g  = g · min(1, max_grad_norm / ‖g‖)         ‖g‖ over all parameters
//	m  = beta1·m + β3·g                          β3 = 1-beta1, or 1 without grad_averaging
//	v  = beta2·v + (1-beta2)·g²
//	m̂  = m / (1-beta1^t),  v̂ = v / (1-beta2^t)   without bias correction m̂ = m, v̂ = v
//	u  = m̂ / (sqrt(v̂) + eps) + λ·p               λ = weight_decay; 0 for biases and layer normalisation
//	p -= lr · ratio · u
//
// The trust ratio is taken of each tensor: min(‖p‖, max_weight_norm) / ‖u‖ when both norms are positive, else 1. A tensor without
// decay has ratio 1 too, unless use_nvlamb is set (NVLAMB). The paper's φ is the identity; max_weight_norm clips it, as Graphcore's BERT does.
//
// The moments are float32, and so is the arithmetic; norms are summed in float64. Step writes u over the gradients. With first_moment=fp16 m is stored in
// FP16 before it is used. With update_format=fp16 u is rounded to FP16, to nearest, before its norm is taken: FusedLAMB writes it over the gradients, which
// are FP16 where the model is.
package lamb

import (
	"context"
	"fmt"
	"math"

	"harness.invalid/core/kernels"
	"harness.invalid/core/numerics"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/option"
)

var options = append([]option.Option{
	{Name: "beta1", Default: "0.9", Doc: "decay of the first moment"},
	{Name: "beta2", Default: "0.999", Doc: "decay of the second moment"},
	{Name: "eps", Default: "1e-6", Doc: "added to the root of the second moment"},
	{Name: "weight_decay", Default: "0.01", Doc: "decay λ inside the update; not on biases and layer normalisation"},
	{Name: "bias_correction", Default: "true", Doc: "divide the moments by 1-beta^t"},
	{Name: "grad_averaging", Default: "true", Doc: "weigh the gradient by 1-beta1 in the first moment, else by 1"},
	{Name: "use_nvlamb", Default: "false", Doc: "take the trust ratio of tensors without weight decay too"},
	{Name: "max_grad_norm", Default: "1", Doc: "clip the global gradient norm to this, 0: no clipping"},
	{Name: "max_weight_norm", Default: "0", Doc: "greatest norm of a tensor in its trust ratio, 0: no limit"},
	{Name: "update_format", Default: "fp32", Doc: "format of the update between the two passes: fp32, or fp16 as in FusedLAMB over FP16 gradients"},
}, optimizer.MomentOptions...)

// Optimizer is the rule.
type Optimizer struct{}

var _ optimizer.Optimizer = Optimizer{}

// New returns the rule.
func New() Optimizer { return Optimizer{} }

// Describe implements optimizer.Optimizer.
func (Optimizer) Describe(context.Context) (optimizer.Info, error) {
	return optimizer.Info{
		Name:    "lamb",
		Version: "1",
		Doc:     "LAMB as NVIDIA's FusedLAMB computes it (You et al. 2020, arXiv:1904.00962)",
		Options: options,
	}, nil
}

type settings struct {
	beta1, beta2, eps, weightDecay        float64
	maxGradNorm, maxWeightNorm            float64
	biasCorrection, gradAveraging, nvlamb bool
	roundUpdate                           bool // to FP16
	moment                                optimizer.Moment
}

func read(given map[string]string) (settings, error) {
	v, err := option.Read(options, given)
	if err != nil {
		return settings{}, fmt.Errorf("lamb: %w", err)
	}
	s := settings{
		beta1: v.Float("beta1", 0, 1-1e-9),
		beta2: v.Float("beta2", 0, 1-1e-9),
		// Below the smallest normal float32 eps would round to nothing, and 0/0 follow for a parameter without gradient.
		eps:            v.Float("eps", 0x1p-126, 1),
		weightDecay:    v.Float("weight_decay", 0, 1e3),
		maxGradNorm:    v.Float("max_grad_norm", 0, math.MaxFloat32),
		maxWeightNorm:  v.Float("max_weight_norm", 0, math.MaxFloat32),
		biasCorrection: v.Bool("bias_correction"),
		gradAveraging:  v.Bool("grad_averaging"),
		nvlamb:         v.Bool("use_nvlamb"),
		roundUpdate:    v.OneOf("update_format", "fp32", "fp16") == "fp16",
	}
	if s.moment, err = optimizer.ReadMoment(v); err != nil {
		return settings{}, fmt.Errorf("lamb: %w", err)
	}
	return s, nil
}

// Slots implements optimizer.Optimizer: the moments m and v.
func (Optimizer) Slots(_ context.Context, given map[string]string) ([]string, error) {
	if _, err := read(given); err != nil {
		return nil, err
	}
	return []string{"m", "v"}, nil
}

// Open implements optimizer.Optimizer.
func (Optimizer) Open(_ context.Context, given map[string]string, m optimizer.Memory) (optimizer.Session, error) {
	s, err := read(given)
	if err != nil {
		return nil, err
	}
	if err := m.Check(2); err != nil {
		return nil, fmt.Errorf("lamb: %w", err)
	}
	blocks := optimizer.Blocks(m.Layout)
	return &session{
		settings: s,
		memory:   m,
		blocks:   blocks,
		squares:  make([]squares, len(blocks)),
		scales:   make([]float32, len(m.Layout.Tensors())),
	}, nil
}

type session struct {
	settings
	memory  optimizer.Memory
	blocks  []optimizer.Block
	squares []squares // scratch: of each block
	scales  []float32 // scratch: -lr·ratio of each tensor
}

// squares are sums of squares of parameters and updates.
type squares struct{ p, u float64 }

// Step implements optimizer.Session.
func (s *session) Step(_ context.Context, step optimizer.Step) (optimizer.StepResult, error) {
	if err := step.Check(); err != nil {
		return optimizer.StepResult{}, fmt.Errorf("lamb: %w", err)
	}
	norm := optimizer.Norm(s.blocks, s.memory.Grads)
	decayed := kernels.Adam{
		GradScale:   float32(optimizer.ClipScale(norm, s.maxGradNorm)),
		Beta1:       float32(s.beta1),
		Beta2:       float32(s.beta2),
		Beta3:       float32(1 - s.beta1),
		Beta4:       float32(1 - s.beta2),
		Correction1: 1,
		Correction2: 1,
		Eps:         float32(s.eps),
		WeightDecay: float32(s.weightDecay),
	}
	if !s.gradAveraging {
		decayed.Beta3 = 1
	}
	if s.biasCorrection {
		decayed.Correction1 = float32(1 / (1 - math.Pow(s.beta1, float64(step.Step))))
		decayed.Correction2 = float32(1 / (1 - math.Pow(s.beta2, float64(step.Step))))
	}
	plain := decayed
	plain.WeightDecay = 0
	tensors := s.memory.Layout.Tensors()
	p, g, m, v := s.memory.Params, s.memory.Grads, s.memory.Slots[0], s.memory.Slots[1]
	kernels.Parallel(len(s.blocks), func(i0, i1 int) {
		for i := i0; i < i1; i++ {
			b := s.blocks[i]
			rule := &plain
			if optimizer.Decays(tensors[b.Tensor].Kind) {
				rule = &decayed
			}
			u := g[b.Begin:b.End]
			if s.moment.Narrow() {
				s.moment.Update(rule, step.Step, b, m[b.Begin:b.End], u)
				kept := s.moment.Kept(*rule)
				rule = &kept
			}
			s.squares[i].p, s.squares[i].u = rule.LAMBUpdate(u, p[b.Begin:b.End], m[b.Begin:b.End], v[b.Begin:b.End], u)
			if s.roundUpdate {
				kernels.Round(u, u, numerics.Rounding{Format: numerics.FP16}, 0)
				s.squares[i].u = kernels.SumSquares(u)
			}
		}
	})
	s.trust(step.LR)
	kernels.Parallel(len(s.blocks), func(i0, i1 int) {
		for _, b := range s.blocks[i0:i1] {
			kernels.Axpy(p[b.Begin:b.End], s.scales[b.Tensor], g[b.Begin:b.End])
		}
	})
	return optimizer.StepResult{GradientNorm: norm}, nil
}

// trust turns the sums of squares of the blocks into -lr·ratio of each tensor.
func (s *session) trust(lr float64) {
	i := 0
	for t, of := range s.memory.Layout.Tensors() {
		var sum squares
		for ; i < len(s.blocks) && s.blocks[i].Tensor == t; i++ {
			sum.p += s.squares[i].p
			sum.u += s.squares[i].u
		}
		ratio := 1.0
		if decays := s.weightDecay != 0 && optimizer.Decays(of.Kind); (decays || s.nvlamb) && sum.p > 0 && sum.u > 0 {
			weight := math.Sqrt(sum.p)
			if s.maxWeightNorm > 0 {
				weight = min(weight, s.maxWeightNorm)
			}
			ratio = weight / math.Sqrt(sum.u)
		}
		s.scales[t] = float32(-lr * ratio)
	}
}

// Close implements optimizer.Session.
func (s *session) Close() error { return nil }
