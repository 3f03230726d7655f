// Package nadamw is Adam with Nesterov's momentum and decoupled weight decay: Dozat, "Incorporating Nesterov Momentum into Adam", ICLR workshop 2016,
// with the decay of Loshchilov and Hutter 2019 (arXiv:1711.05101), as AlgoPerf's baseline has it (Dahl et al. 2023, arXiv:2306.07179) and optax computes
// it: the momentum is constant, without Dozat's schedule, which torch.optim.NAdam has.
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
	"context"
	"fmt"
	"math"

	"harness.invalid/core/kernels"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/option"
)

var options = []option.Option{
	{Name: "beta1", Default: "0.9", Doc: "decay of the first moment"},
	{Name: "beta2", Default: "0.999", Doc: "decay of the second moment"},
	{Name: "eps", Default: "1e-8", Doc: "added to the root of the second moment"},
	{Name: "weight_decay", Default: "0.01", Doc: "decoupled weight decay λ; not on biases and layer normalisation"},
	{Name: "max_grad_norm", Default: "0", Doc: "clip the global gradient norm to this, 0: no clipping"},
}

// Optimizer is the rule.
type Optimizer struct{}

var _ optimizer.Optimizer = Optimizer{}

// New returns the rule.
func New() Optimizer { return Optimizer{} }

// Describe implements optimizer.Optimizer.
func (Optimizer) Describe(context.Context) (optimizer.Info, error) {
	return optimizer.Info{Name: "nadamw", Version: "1", Doc: "Adam with Nesterov's momentum and decoupled decay (Dozat 2016; as in AlgoPerf, arXiv:2306.07179)", Options: options}, nil
}

type settings struct{ beta1, beta2, eps, weightDecay, maxGradNorm float64 }

func read(given map[string]string) (settings, error) {
	v, err := option.Read(options, given)
	if err != nil {
		return settings{}, fmt.Errorf("nadamw: %w", err)
	}
	s := settings{
		beta1: v.Float("beta1", 0, 1-1e-9),
		beta2: v.Float("beta2", 0, 1-1e-9),
		// Below the smallest normal float32 eps would round to nothing, and 0/0 follow for a parameter without gradient.
		eps:         v.Float("eps", 0x1p-126, 1),
		weightDecay: v.Float("weight_decay", 0, 1e3),
		maxGradNorm: v.Float("max_grad_norm", 0, math.MaxFloat32),
	}
	if err := v.Err(); err != nil {
		return settings{}, fmt.Errorf("nadamw: %w", err)
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
		return nil, fmt.Errorf("nadamw: %w", err)
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
		return optimizer.StepResult{}, fmt.Errorf("nadamw: %w", err)
	}
	norm := optimizer.Norm(s.blocks, s.memory.Grads)
	scale, lr, eps := float32(optimizer.ClipScale(norm, s.maxGradNorm)), float32(step.LR), float32(s.eps)
	keep1, take1, keep2, take2 := float32(s.beta1), float32(1-s.beta1), float32(s.beta2), float32(1-s.beta2)
	t := float64(step.Step)
	ahead := float32(s.beta1 / (1 - math.Pow(s.beta1, t+1)))     // factor of m in m̂
	fresh := float32((1 - s.beta1) / (1 - math.Pow(s.beta1, t))) // factor of g in m̂
	second := float32(1 / (1 - math.Pow(s.beta2, t)))
	tensors := s.memory.Layout.Tensors()
	kernels.Parallel(len(s.blocks), func(i0, i1 int) {
		for _, b := range s.blocks[i0:i1] {
			decay := float32(0)
			if optimizer.Decays(tensors[b.Tensor].Kind) {
				decay = float32(s.weightDecay)
			}
			p, g := s.memory.Params[b.Begin:b.End], s.memory.Grads[b.Begin:b.End]
			m, v := s.memory.Slots[0][b.Begin:b.End], s.memory.Slots[1][b.Begin:b.End]
			for i := range p {
				g := scale * g[i]
				m[i] = float32(keep1*m[i]) + float32(take1*g)
				v[i] = float32(keep2*v[i]) + float32(float32(take2*g)*g)
				top := float32(ahead*m[i]) + float32(fresh*g)
				root := float32(math.Sqrt(float64(second * v[i])))
				p[i] -= float32(lr * (top/(root+eps) + float32(decay*p[i])))
			}
		}
	})
	return optimizer.StepResult{GradientNorm: norm}, nil
}

// Close implements optimizer.Session.
func (s *session) Close() error { return nil }
