// Package muon is Muon, momentum with orthogonalised matrices: Jordan et al., "Muon: An optimizer for hidden
// layers in neural networks" (2024, kellerjordan.github.io/posts/muon), with the decay and the scale of Liu et al.,
// "Muon is Scalable for LLM Training" (2025, arXiv:2502.16982), so that learning rates are AdamW's.
//
//	g  = g · min(1, max_grad_norm / ‖g‖)                     ‖g‖ over all parameters; only when max_grad_norm > 0
//	m  = momentum·m + (1-momentum)·g
//	X  = (1-momentum)·g + momentum·m                         without nesterov: X = m
//	X  = X / ‖X‖, then five times X = a·X + (b·A + c·A²)·X, A = X·Xᵀ, (a, b, c) = (3.4445, -4.7750, 2.0315)
//	p -= lr · (0.2·sqrt(max(rows, columns))·X + λ·p)         λ = weight_decay
//
// The five steps bring all singular values into about [0.7, 1.2]. This applies to weight matrices with at least 16
// rows and columns. AdamW, with beta1, beta2 and eps, updates embeddings, biases, layer normalisation and small output
// layers. All arithmetic is float32; norms are summed in float64.
package muon

import (
	"math"

	"harness.invalid/core/kernels"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/option"
	"harness.invalid/core/tensor"
)

var info = optimizer.Info{
	Name: "muon", Version: "1", Doc: "Muon for matrices, AdamW for the rest (Jordan et al. 2024; Liu et al. 2025, arXiv:2502.16982)",
	Options: []option.Option{
		{Name: "momentum", Default: "0.95", Doc: "decay of the momentum of matrices"},
		{Name: "nesterov", Default: "true", Doc: "look ahead by the momentum (Nesterov)"},
		{Name: "beta1", Default: "0.9", Doc: "AdamW: decay of the first moment"},
		{Name: "beta2", Default: "0.95", Doc: "AdamW: decay of the second moment"},
		{Name: "eps", Default: "1e-8", Doc: "AdamW: added to the root of the second moment"},
		{Name: "weight_decay", Default: "0.01", Doc: "decoupled weight decay λ; not on biases and layer normalisation"},
		{Name: "max_grad_norm", Default: "0", Doc: "clip the global gradient norm to this, 0: no clipping"},
	},
}

// least is the minimum number of rows and columns of a weight matrix that is orthogonalised.
const least = 16

// The coefficients of a Newton-Schulz step and the number of steps: Jordan et al. 2024, "tuning the coefficients".
const (
	quinticA, quinticB, quinticC = 3.4445, -4.7750, 2.0315

	quinticSteps = 5
)

// New returns the rule.
func New() optimizer.Optimizer { return optimizer.Rule{Info: info, Read: read} }

type rule struct {
	optimizer.Adam // for parameters that are not matrices; its decay applies to all
	momentum       float64
	nesterov       bool
	maxGradNorm    float64
	scratch        [4][]float32 // X, the next X, A, A²
}

func read(v *option.Values) (optimizer.Update, error) {
	return &rule{
		Adam:        optimizer.ReadAdam(v),
		momentum:    v.Float("momentum", 0, 1-1e-9),
		nesterov:    v.Bool("nesterov"),
		maxGradNorm: v.Float("max_grad_norm", 0, math.MaxFloat32),
	}, nil
}

// Slots implements optimizer.Update: the momentum or first moment m, and the second moment v, which matrices do not
// use.
func (*rule) Slots() []string { return []string{"m", "v"} }

// orthogonal reports whether a tensor is one of the matrices.
func orthogonal(t tensor.Tensor) bool {
	return t.Kind == tensor.Weight && len(t.Shape) == 2 && t.Shape[0] >= least && t.Shape[1] >= least
}

// Step implements optimizer.Update.
func (r *rule) Step(w *optimizer.Work, step optimizer.Step) {
	all := r.Kernel(step, optimizer.ClipScale(w.Norm, r.maxGradNorm))
	w.Each(func(b optimizer.Block) {
		if orthogonal(w.Tensor(b)) {
			return
		}
		k := all
		k.WeightDecay = w.Decay(b, r.WeightDecay)
		k.AdamW(b.Of(w.Params), b.Of(w.Slots[0]), b.Of(w.Slots[1]), b.Of(w.Grads))
	})
	for _, t := range w.Layout.Tensors() {
		if orthogonal(t) {
			r.matrix(w, t, step.LR, all.GradScale)
		}
	}
}

// matrix updates one matrix.
func (r *rule) matrix(w *optimizer.Work, t tensor.Tensor, lr float64, scale float32) {
	p, g, m := t.Of(w.Params), t.Of(w.Grads), t.Of(w.Slots[0])
	momentum, fresh := float32(r.momentum), float32(1-r.momentum)
	kernels.Scale(g, scale, g)
	kernels.Scale(m, momentum, m)
	kernels.Axpy(m, fresh, g)
	x := m
	if r.nesterov {
		kernels.Scale(g, fresh, g)
		kernels.Axpy(g, momentum, m)
		x = g
	}
	rows, cols := t.Shape[0], t.Shape[1]
	o := r.orthogonalize(x, rows, cols)
	if r.WeightDecay != 0 {
		kernels.Scale(p, float32(1-lr*r.WeightDecay), p)
	}
	kernels.Axpy(p, float32(-lr*0.2*math.Sqrt(float64(max(rows, cols)))), o)
}

// orthogonalize returns the matrix whose singular vectors are those of x and whose singular values are near 1, in
// memory that the next call takes. The smaller of X·Xᵀ and Xᵀ·X serves: the polynomial commutes with X.
func (r *rule) orthogonalize(x []float32, rows, cols int) []float32 {
	n := min(rows, cols)
	for i, size := range []int{rows * cols, rows * cols, n * n, n * n} {
		if cap(r.scratch[i]) < size {
			r.scratch[i] = make([]float32, size)
		}
		r.scratch[i] = r.scratch[i][:size]
	}
	X, next, A, B := r.scratch[0], r.scratch[1], r.scratch[2], r.scratch[3]
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
