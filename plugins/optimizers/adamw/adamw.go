// Package adamw is Adam with decoupled weight decay: Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR 2019
// (arXiv:1711.05101), on Kingma and Ba's Adam (arXiv:1412.6980).
//
//	g  = g · min(1, max_grad_norm / ‖g‖)         only when max_grad_norm > 0; ‖g‖ over all parameters, or over the tensor with clip_by=tensor
//	m  = beta1·m + (1-beta1)·g
//	v  = beta2·v + (1-beta2)·g²
//	m̂  = m / (1-beta1^t),  v̂ = v / (1-beta2^t)   without bias correction m̂ = m, v̂ = v
//	p -= lr · (m̂ / (sqrt(v̂) + eps) + λ·p)        λ = weight_decay; 0 for biases and layer normalisation
//
// With bias_correction=false, eps=1e-6 and max_grad_norm=1 it is the AdamWeightDecayOptimizer with which google-research/bert was trained; with
// clip_by=tensor, too, it is NVIDIA's BertAdam (DeepLearningExamples PyTorch BERT, optimization.py).
// The moments are float32, and so is the arithmetic; norms are summed in float64. With first_moment=fp16 m is stored in FP16 before it is used.
package adamw

import (
	"context"
	"fmt"
	"math"

	"harness.invalid/core/kernels"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/option"
)

var options = append([]option.Option{
	{Name: "beta1", Default: "0.9", Doc: "decay of the first moment"},
	{Name: "beta2", Default: "0.999", Doc: "decay of the second moment"},
	{Name: "eps", Default: "1e-8", Doc: "added to the root of the second moment; BERT uses 1e-6"},
	{Name: "weight_decay", Default: "0.01", Doc: "decoupled weight decay λ; not on biases and layer normalisation"},
	{Name: "bias_correction", Default: "true", Doc: "divide the moments by 1-beta^t; BERT's Adam does not"},
	{Name: "max_grad_norm", Default: "0", Doc: "clip the gradient's norm to this, 0: no clipping; BERT uses 1"},
	{Name: "clip_by", Default: "global", Doc: "global: the norm over all parameters is clipped; tensor: that of each tensor, as NVIDIA's BertAdam does"},
}, optimizer.MomentOptions...)

// Optimizer is the rule.
type Optimizer struct{}

var _ optimizer.Optimizer = Optimizer{}

// New returns the rule.
func New() Optimizer { return Optimizer{} }

// Describe implements optimizer.Optimizer.
func (Optimizer) Describe(context.Context) (optimizer.Info, error) {
	return optimizer.Info{
		Name:    "adamw",
		Version: "1",
		Doc:     "Adam with decoupled weight decay (Loshchilov and Hutter 2019, arXiv:1711.05101)",
		Options: options,
	}, nil
}

type settings struct {
	beta1, beta2, eps, weightDecay, maxGradNorm float64
	biasCorrection, clipTensors                 bool
	moment                                      optimizer.Moment
}

func read(given map[string]string) (settings, error) {
	v, err := option.Read(options, given)
	if err != nil {
		return settings{}, fmt.Errorf("adamw: %w", err)
	}
	s := settings{
		beta1: v.Float("beta1", 0, 1-1e-9),
		beta2: v.Float("beta2", 0, 1-1e-9),
		// Below the smallest normal float32 eps would round to nothing, and 0/0 follow for a parameter without gradient.
		eps:            v.Float("eps", 0x1p-126, 1),
		weightDecay:    v.Float("weight_decay", 0, 1e3),
		maxGradNorm:    v.Float("max_grad_norm", 0, math.MaxFloat32),
		biasCorrection: v.Bool("bias_correction"),
		clipTensors:    v.OneOf("clip_by", "global", "tensor") == "tensor",
	}
	if s.moment, err = optimizer.ReadMoment(v); err != nil {
		return settings{}, fmt.Errorf("adamw: %w", err)
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
		return nil, fmt.Errorf("adamw: %w", err)
	}
	return &session{s, m, optimizer.Blocks(m.Layout)}, nil
}

type session struct {
	settings
	memory optimizer.Memory
	blocks []optimizer.Block
}

// Step implements optimizer.Session.
func (s *session) Step(_ context.Context, step optimizer.Step) (optimizer.StepResult, error) {
	if err := step.Check(); err != nil {
		return optimizer.StepResult{}, fmt.Errorf("adamw: %w", err)
	}
	norm := optimizer.Norm(s.blocks, s.memory.Grads)
	decayed := kernels.Adam{
		LR:          float32(step.LR),
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
	if s.biasCorrection {
		decayed.Correction1 = float32(1 / (1 - math.Pow(s.beta1, float64(step.Step))))
		decayed.Correction2 = float32(1 / (1 - math.Pow(s.beta2, float64(step.Step))))
	}
	plain := decayed
	plain.WeightDecay = 0
	tensors := s.memory.Layout.Tensors()
	scales := s.tensorScales()
	p, g, m, v := s.memory.Params, s.memory.Grads, s.memory.Slots[0], s.memory.Slots[1]
	kernels.Parallel(len(s.blocks), func(i0, i1 int) {
		for _, b := range s.blocks[i0:i1] {
			rule := &plain
			if optimizer.Decays(tensors[b.Tensor].Kind) {
				rule = &decayed
			}
			if scales != nil {
				clipped := *rule
				clipped.GradScale = scales[b.Tensor]
				rule = &clipped
			}
			if s.moment.Narrow() {
				s.moment.Update(rule, step.Step, b, m[b.Begin:b.End], g[b.Begin:b.End])
				kept := s.moment.Kept(*rule)
				rule = &kept
			}
			rule.AdamW(p[b.Begin:b.End], m[b.Begin:b.End], v[b.Begin:b.End], g[b.Begin:b.End])
		}
	})
	return optimizer.StepResult{GradientNorm: norm}, nil
}

// tensorScales are the factors of the gradient by tensor; nil: all have the same.
func (s *session) tensorScales() []float32 {
	if !s.clipTensors || s.maxGradNorm == 0 {
		return nil
	}
	tensors := s.memory.Layout.Tensors()
	scales := make([]float32, len(tensors))
	rest := s.blocks
	for i := range tensors {
		n := 0
		for n < len(rest) && rest[n].Tensor == i {
			n++
		}
		scales[i] = float32(optimizer.ClipScale(optimizer.Norm(rest[:n], s.memory.Grads), s.maxGradNorm))
		rest = rest[n:]
	}
	return scales
}

// Close implements optimizer.Session.
func (s *session) Close() error { return nil }
