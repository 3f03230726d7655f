// Package sgd is stochastic gradient descent with momentum: Sutskever, Martens, Dahl, Hinton, "On the importance of initialization and
// momentum in deep learning", ICML 2013, in the form that torch.optim.SGD gives it.
//
//	g  = g · min(1, max_grad_norm / ‖g‖)    ‖g‖ over all parameters; only when max_grad_norm > 0
//	g  = g + λ·p                            λ = weight_decay; 0 for biases and layer normalisation
//	b  = momentum·b + (1-dampening)·g       b = g at the first step
//	p -= lr · b                             nesterov: lr · (g + momentum·b); without momentum: lr · g
//
// All arithmetic is float32; the norm is summed in float64.
package sgd

import (
	"context"
	"fmt"
	"math"

	"harness.invalid/core/kernels"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/option"
)

var options = []option.Option{
	{Name: "momentum", Default: "0", Doc: "share of the last update that goes on, 0: none, and no state"},
	{Name: "dampening", Default: "0", Doc: "share of the gradient that momentum leaves out"},
	{Name: "nesterov", Default: "false", Doc: "look ahead by the momentum (Nesterov); wants momentum and no dampening"},
	{Name: "weight_decay", Default: "0", Doc: "L2 penalty λ, added to the gradient; not on biases and layer normalisation"},
	{Name: "max_grad_norm", Default: "0", Doc: "clip the global gradient norm to this, 0: no clipping"},
}

// Optimizer is the rule.
type Optimizer struct{}

var _ optimizer.Optimizer = Optimizer{}

// New returns the rule.
func New() Optimizer { return Optimizer{} }

// Describe implements optimizer.Optimizer.
func (Optimizer) Describe(context.Context) (optimizer.Info, error) {
	return optimizer.Info{
		Name:    "sgd",
		Version: "1",
		Doc:     "stochastic gradient descent with momentum (Sutskever et al. 2013; as torch.optim.SGD)",
		Options: options,
	}, nil
}

type settings struct {
	momentum, dampening, weightDecay, maxGradNorm float64
	nesterov                                      bool
}

func read(given map[string]string) (settings, error) {
	v, err := option.Read(options, given)
	if err != nil {
		return settings{}, fmt.Errorf("sgd: %w", err)
	}
	s := settings{
		momentum:    v.Float("momentum", 0, 1),
		dampening:   v.Float("dampening", 0, 1),
		nesterov:    v.Bool("nesterov"),
		weightDecay: v.Float("weight_decay", 0, 1e3),
		maxGradNorm: v.Float("max_grad_norm", 0, math.MaxFloat32),
	}
	if err := v.Err(); err != nil {
		return settings{}, fmt.Errorf("sgd: %w", err)
	}
	if s.nesterov && (s.momentum == 0 || s.dampening != 0) {
		return settings{}, fmt.Errorf("sgd: nesterov with momentum %g and dampening %g, want a positive momentum and no dampening", s.momentum, s.dampening)
	}
	return s, nil
}

func (s settings) slots() []string {
	if s.momentum == 0 {
		return nil
	}
	return []string{"momentum_buffer"}
}

// Slots implements optimizer.Optimizer: the momentum, if there is one.
func (Optimizer) Slots(_ context.Context, given map[string]string) ([]string, error) {
	s, err := read(given)
	if err != nil {
		return nil, err
	}
	return s.slots(), nil
}

// Open implements optimizer.Optimizer.
func (Optimizer) Open(_ context.Context, given map[string]string, m optimizer.Memory) (optimizer.Session, error) {
	s, err := read(given)
	if err != nil {
		return nil, err
	}
	if err := m.Check(len(s.slots())); err != nil {
		return nil, fmt.Errorf("sgd: %w", err)
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
		return optimizer.StepResult{}, fmt.Errorf("sgd: %w", err)
	}
	norm := optimizer.Norm(s.blocks, s.memory.Grads)
	scale := float32(optimizer.ClipScale(norm, s.maxGradNorm))
	tensors := s.memory.Layout.Tensors()
	kernels.Parallel(len(s.blocks), func(i0, i1 int) {
		for _, b := range s.blocks[i0:i1] {
			p, g := s.memory.Params[b.Begin:b.End], s.memory.Grads[b.Begin:b.End]
			if scale != 1 {
				kernels.Scale(g, scale, g)
			}
			if s.weightDecay != 0 && optimizer.Decays(tensors[b.Tensor].Kind) {
				kernels.Axpy(g, float32(s.weightDecay), p)
			}
			if s.momentum == 0 {
				kernels.Axpy(p, float32(-step.LR), g)
				continue
			}
			buffer := s.memory.Slots[0][b.Begin:b.End]
			if step.Step == 1 {
				copy(buffer, g)
			} else {
				kernels.Scale(buffer, float32(s.momentum), buffer)
				kernels.Axpy(buffer, float32(1-s.dampening), g)
			}
			if s.nesterov {
				kernels.Axpy(g, float32(s.momentum), buffer)
				kernels.Axpy(p, float32(-step.LR), g)
			} else {
				kernels.Axpy(p, float32(-step.LR), buffer)
			}
		}
	})
	return optimizer.StepResult{GradientNorm: norm}, nil
}

// Close implements optimizer.Session.
func (s *session) Close() error { return nil }
