// Package lion is Lion, an update found by program search: Chen et al., "Symbolic Discovery of Optimization Algorithms", NeurIPS 2023
// (arXiv:2302.06675), algorithm 2.
//
//	g  = g · min(1, max_grad_norm / ‖g‖)    ‖g‖ over all parameters; only when max_grad_norm > 0
//	c  = beta1·m + (1-beta1)·g
//	p -= lr · (sign(c) + λ·p)               λ = weight_decay; 0 for biases and layer normalisation; sign(0) = 0
//	m  = beta2·m + (1-beta2)·g
//
// All elements move by the same amount, so the paper takes learning rates 3 to 10 times smaller than AdamW's and decays as much larger. All arithmetic
// is float32; the norm is summed in float64.
package lion

import (
	"context"
	"fmt"
	"math"

	"harness.invalid/core/kernels"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/option"
)

var options = []option.Option{
	{Name: "beta1", Default: "0.9", Doc: "share of the momentum in the sign that is taken"},
	{Name: "beta2", Default: "0.99", Doc: "decay of the momentum"},
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
	return optimizer.Info{Name: "lion", Version: "1", Doc: "Lion (Chen et al. 2023, arXiv:2302.06675)", Options: options}, nil
}

type settings struct{ beta1, beta2, weightDecay, maxGradNorm float64 }

func read(given map[string]string) (settings, error) {
	v, err := option.Read(options, given)
	if err != nil {
		return settings{}, fmt.Errorf("lion: %w", err)
	}
	s := settings{
		beta1:       v.Float("beta1", 0, 1-1e-9),
		beta2:       v.Float("beta2", 0, 1-1e-9),
		weightDecay: v.Float("weight_decay", 0, 1e3),
		maxGradNorm: v.Float("max_grad_norm", 0, math.MaxFloat32),
	}
	if err := v.Err(); err != nil {
		return settings{}, fmt.Errorf("lion: %w", err)
	}
	return s, nil
}

// Slots implements optimizer.Optimizer: the momentum m.
func (Optimizer) Slots(_ context.Context, given map[string]string) ([]string, error) {
	if _, err := read(given); err != nil {
		return nil, err
	}
	return []string{"m"}, nil
}

// Open implements optimizer.Optimizer.
func (Optimizer) Open(_ context.Context, given map[string]string, m optimizer.Memory) (optimizer.Session, error) {
	s, err := read(given)
	if err != nil {
		return nil, err
	}
	if err := m.Check(1); err != nil {
		return nil, fmt.Errorf("lion: %w", err)
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
		return optimizer.StepResult{}, fmt.Errorf("lion: %w", err)
	}
	norm := optimizer.Norm(s.blocks, s.memory.Grads)
	scale, lr := float32(optimizer.ClipScale(norm, s.maxGradNorm)), float32(step.LR)
	keep1, take1, keep2, take2 := float32(s.beta1), float32(1-s.beta1), float32(s.beta2), float32(1-s.beta2)
	tensors := s.memory.Layout.Tensors()
	kernels.Parallel(len(s.blocks), func(i0, i1 int) {
		for _, b := range s.blocks[i0:i1] {
			decay := float32(0)
			if optimizer.Decays(tensors[b.Tensor].Kind) {
				decay = float32(s.weightDecay)
			}
			p, g, m := s.memory.Params[b.Begin:b.End], s.memory.Grads[b.Begin:b.End], s.memory.Slots[0][b.Begin:b.End]
			for i := range p {
				g := scale * g[i]
				u := sign(float32(keep1*m[i]) + float32(take1*g))
				p[i] -= float32(lr * (u + float32(decay*p[i])))
				m[i] = float32(keep2*m[i]) + float32(take2*g)
			}
		}
	})
	return optimizer.StepResult{GradientNorm: norm}, nil
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

// Close implements optimizer.Session.
func (s *session) Close() error { return nil }
