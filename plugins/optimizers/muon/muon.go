// Package muon is Muon, momentum whose matrices are made orthogonal: Jordan et al., "Muon: An optimizer for hidden layers in neural networks" (2024,
// kellerjordan.github.io/posts/muon), with the decay and the scale of Liu et al., "Muon is Scalable for LLM Training" (2025, arXiv:2502.16982), so that
// learning rates are AdamW's.
//
//	g  = g · min(1, max_grad_norm / ‖g‖)                     ‖g‖ over all parameters; only when max_grad_norm > 0
//	m  = momentum·m + (1-momentum)·g
//	X  = (1-momentum)·g + momentum·m                         without nesterov: X = m
//	X  = X / ‖X‖, then five times X = a·X + (b·A + c·A²)·X, A = X·Xᵀ, (a, b, c) = (3.4445, -4.7750, 2.0315)
//	p -= lr · (0.2·sqrt(max(rows, columns))·X + λ·p)         λ = weight_decay
//
// The five steps bring all singular values into about [0.7, 1.2]. Matrices of weights with at least 16 rows and columns are updated so; embeddings,
// biases, layer normalisation and the small output layers by AdamW with beta1, beta2 and eps. All arithmetic is float32; norms are summed in float64.
package muon

import (
	"context"
	"fmt"
	"math"

	"harness.invalid/core/kernels"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/option"
	"harness.invalid/core/tensor"
)

var options = []option.Option{
	{Name: "momentum", Default: "0.95", Doc: "decay of the momentum of matrices"},
	{Name: "nesterov", Default: "true", Doc: "look ahead by the momentum (Nesterov)"},
	{Name: "beta1", Default: "0.9", Doc: "AdamW: decay of the first moment"},
	{Name: "beta2", Default: "0.95", Doc: "AdamW: decay of the second moment"},
	{Name: "eps", Default: "1e-8", Doc: "AdamW: added to the root of the second moment"},
	{Name: "weight_decay", Default: "0.01", Doc: "decoupled weight decay λ; not on biases and layer normalisation"},
	{Name: "max_grad_norm", Default: "0", Doc: "clip the global gradient norm to this, 0: no clipping"},
}

// least is the number of rows and columns from which on a matrix of weights is made orthogonal.
const least = 16

// The coefficients of a Newton-Schulz step and the number of steps: Jordan et al. 2024, "tuning the coefficients".
const (
	quinticA, quinticB, quinticC = 3.4445, -4.7750, 2.0315

	quinticSteps = 5
)

// Optimizer is the rule.
type Optimizer struct{}

var _ optimizer.Optimizer = Optimizer{}

// New returns the rule.
func New() Optimizer { return Optimizer{} }

// Describe implements optimizer.Optimizer.
func (Optimizer) Describe(context.Context) (optimizer.Info, error) {
	return optimizer.Info{Name: "muon", Version: "1", Doc: "Muon for matrices, AdamW for the rest (Jordan et al. 2024; Liu et al. 2025, arXiv:2502.16982)", Options: options}, nil
}

type settings struct {
	momentum, beta1, beta2, eps, weightDecay, maxGradNorm float64
	nesterov                                              bool
}

func read(given map[string]string) (settings, error) {
	v, err := option.Read(options, given)
	if err != nil {
		return settings{}, fmt.Errorf("muon: %w", err)
	}
	s := settings{
		momentum: v.Float("momentum", 0, 1-1e-9),
		nesterov: v.Bool("nesterov"),
		beta1:    v.Float("beta1", 0, 1-1e-9),
		beta2:    v.Float("beta2", 0, 1-1e-9),
		// Below the smallest normal float32 eps would round to nothing, and 0/0 follow for a parameter without gradient.
		eps:         v.Float("eps", 0x1p-126, 1),
		weightDecay: v.Float("weight_decay", 0, 1e3),
		maxGradNorm: v.Float("max_grad_norm", 0, math.MaxFloat32),
	}
	if err := v.Err(); err != nil {
		return settings{}, fmt.Errorf("muon: %w", err)
	}
	return s, nil
}

// Slots implements optimizer.Optimizer: the momentum or first moment m, and the second moment v, which matrices do not use.
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
		return nil, fmt.Errorf("muon: %w", err)
	}
	return &session{settings: s, memory: m, blocks: optimizer.Blocks(m.Layout)}, nil
}

type session struct {
	settings
	memory  optimizer.Memory
	blocks  []optimizer.Block
	scratch [4][]float32 // X, the next X, A, A²
}

// orthogonal reports whether a tensor is one of the matrices.
func orthogonal(t tensor.Tensor) bool {
	return t.Kind == tensor.Weight && len(t.Shape) == 2 && t.Shape[0] >= least && t.Shape[1] >= least
}

// Step implements optimizer.Session.
func (s *session) Step(_ context.Context, step optimizer.Step) (optimizer.StepResult, error) {
	if err := step.Check(); err != nil {
		return optimizer.StepResult{}, fmt.Errorf("muon: %w", err)
	}
	norm := optimizer.Norm(s.blocks, s.memory.Grads)
	scale := float32(optimizer.ClipScale(norm, s.maxGradNorm))
	s.rest(step, scale)
	for _, t := range s.memory.Layout.Tensors() {
		if orthogonal(t) {
			s.matrix(t, step.LR, scale)
		}
	}
	return optimizer.StepResult{GradientNorm: norm}, nil
}

// rest updates what is no matrix.
func (s *session) rest(step optimizer.Step, scale float32) {
	decayed := kernels.Adam{
		LR: float32(step.LR), GradScale: scale,
		Beta1: float32(s.beta1), Beta2: float32(s.beta2), Beta3: float32(1 - s.beta1), Beta4: float32(1 - s.beta2),
		Correction1: float32(1 / (1 - math.Pow(s.beta1, float64(step.Step)))),
		Correction2: float32(1 / (1 - math.Pow(s.beta2, float64(step.Step)))),
		Eps:         float32(s.eps), WeightDecay: float32(s.weightDecay),
	}
	plain := decayed
	plain.WeightDecay = 0
	tensors := s.memory.Layout.Tensors()
	p, g, m, v := s.memory.Params, s.memory.Grads, s.memory.Slots[0], s.memory.Slots[1]
	kernels.Parallel(len(s.blocks), func(i0, i1 int) {
		for _, b := range s.blocks[i0:i1] {
			t := tensors[b.Tensor]
			switch {
			case orthogonal(t):
			case optimizer.Decays(t.Kind):
				decayed.AdamW(p[b.Begin:b.End], m[b.Begin:b.End], v[b.Begin:b.End], g[b.Begin:b.End])
			default:
				plain.AdamW(p[b.Begin:b.End], m[b.Begin:b.End], v[b.Begin:b.End], g[b.Begin:b.End])
			}
		}
	})
}

// matrix updates one matrix.
func (s *session) matrix(t tensor.Tensor, lr float64, scale float32) {
	p, g, m := t.Of(s.memory.Params), t.Of(s.memory.Grads), t.Of(s.memory.Slots[0])
	momentum, fresh := float32(s.momentum), float32(1-s.momentum)
	kernels.Scale(g, scale, g)
	kernels.Scale(m, momentum, m)
	kernels.Axpy(m, fresh, g)
	x := m
	if s.nesterov {
		kernels.Scale(g, fresh, g)
		kernels.Axpy(g, momentum, m)
		x = g
	}
	rows, cols := t.Shape[0], t.Shape[1]
	o := s.orthogonalize(x, rows, cols)
	if s.weightDecay != 0 {
		kernels.Scale(p, float32(1-lr*s.weightDecay), p)
	}
	kernels.Axpy(p, float32(-lr*0.2*math.Sqrt(float64(max(rows, cols)))), o)
}

// orthogonalize returns the matrix whose singular vectors are those of x and whose singular values are near 1, in memory that the next call takes. The
// smaller of X·Xᵀ and Xᵀ·X serves: the polynomial commutes with X.
func (s *session) orthogonalize(x []float32, rows, cols int) []float32 {
	n := min(rows, cols)
	for i, size := range []int{rows * cols, rows * cols, n * n, n * n} {
		if cap(s.scratch[i]) < size {
			s.scratch[i] = make([]float32, size)
		}
		s.scratch[i] = s.scratch[i][:size]
	}
	X, next, A, B := s.scratch[0], s.scratch[1], s.scratch[2], s.scratch[3]
	kernels.Scale(X, float32(1/(math.Sqrt(kernels.SumSquares(x))+1e-7)), x)
	for range quinticSteps {
		gram := kernels.Gemm{M: n, N: n, K: max(rows, cols), A: X, LDA: cols, B: X, LDB: cols, C: A, LDC: n}
		gram.TransA, gram.TransB = rows > cols, rows <= cols
		gram.Run()
		(&kernels.Gemm{M: n, N: n, K: n, A: A, LDA: n, B: A, LDB: n, C: B, LDC: n}).Run()
		kernels.Scale(B, quinticC, B)
		kernels.Axpy(B, quinticB, A)
		if rows <= cols {
			(&kernels.Gemm{M: rows, N: cols, K: n, A: B, LDA: n, B: X, LDB: cols, C: next, LDC: cols}).Run()
		} else {
			(&kernels.Gemm{M: rows, N: cols, K: n, A: X, LDA: cols, B: B, LDB: n, C: next, LDC: cols}).Run()
		}
		kernels.Axpy(next, quinticA, X)
		X, next = next, X
	}
	return X
}

// Close implements optimizer.Session.
func (s *session) Close() error { return nil }
