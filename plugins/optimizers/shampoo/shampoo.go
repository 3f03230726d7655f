// Package shampoo is Shampoo: Gupta, Koren, Singer, "Shampoo: Preconditioned Stochastic Tensor Optimization", ICML
// 2018 (arXiv:1802.09568), algorithm 1, in blocks, with decaying statistics, grafting and rare roots as Anil,
// Gupta, Koren, Regan, Singer have it in "Scalable Second Order Optimization for Deep Learning" (2020,
// arXiv:2002.09018).
//
//	g  = g · min(1, max_grad_norm / ‖g‖)         ‖g‖ over all parameters; only when max_grad_norm > 0
//	v  = beta2·v + g²,  d = g / sqrt(w·v + epsilon)
//	L  = beta2·L + G·Gᵀ,  R = beta2·R + Gᵀ·G     of each block G of a matrix
//	S  = (w·L + ρI)^(-1/4) · G · (w·R + ρI)^(-1/4)
//	u  = S · ‖d‖ / ‖S‖                           norms over the tensor; with graft=none u = S; of what is no matrix u = d
//	m  = beta1·m + (1-beta1)·u
//	p -= lr · (m / (1-beta1^t) + λ·p)            λ = weight_decay; 0 for biases and layer normalisation
//
// w is (1-beta2) / (1-beta2^t), which makes means of sums, and 1 with beta2=1. ρ is epsilon + ridge · the greatest
// eigenvalue. Matrices are cut in blocks of at most block_size rows and columns; embeddings keep all their rows. A
// block that is not square is preconditioned on its shorter side alone, to the power -1/2, as Anil et al. do with
// embeddings: so L and R fit where the block lies in a slot. The roots are state, too. They are recomputed at steps
// 1, 2, 4, 8 ... and then at every multiple of precondition_every.
//
// Gupta et al. use beta1=0, beta2=1, ridge=0, graft=none and precondition_every=1. epsilon is theirs: L and R begin as
// epsilon times the identity.
//
// Arithmetic is float32; norms are summed and roots are taken in float64.
package shampoo

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"harness.invalid/core/kernels"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/option"
	"harness.invalid/core/tensor"
)

var info = optimizer.Info{
	Name: "shampoo", Version: "1", Doc: "Shampoo in blocks, grafted (Gupta et al. 2018, arXiv:1802.09568; Anil et al. 2020, arXiv:2002.09018)",
	Options: []option.Option{
		{Name: "beta1", Default: "0.9", Doc: "decay of the momentum"},
		{Name: "beta2", Default: "0.999", Doc: "decay of the statistics, 1: sums"},
		{Name: "epsilon", Default: "1e-16", Doc: "multiple of the identity with which statistics begin"},
		{Name: "ridge", Default: "1e-6", Doc: "added to statistics before their root, as a share of the greatest eigenvalue"},
		{Name: "graft", Default: "diagonal", Doc: "length of an update: diagonal: that without preconditioners; none: that with them"},
		{Name: "block_size", Default: "128", Doc: "greatest number of rows and columns of a block"},
		{Name: "precondition_every", Default: "10", Doc: "steps between roots"},
		{Name: "weight_decay", Default: "0.01", Doc: "decoupled weight decay λ; not on biases and layer normalisation"},
		{Name: "max_grad_norm", Default: "0", Doc: "clip the global gradient norm to this, 0: no clipping"},
	},
}

// New returns the rule.
func New() optimizer.Optimizer { return optimizer.Rule{Info: info, Read: read} }

type rule struct {
	beta1, beta2, epsilon, ridge, weightDecay, maxGradNorm float64
	graft                                                  bool
	blockSize, every                                       int
	blocks                                                 []block // of the session's layout
}

func read(v *option.Values) (optimizer.Update, error) {
	return &rule{
		beta1: v.Float("beta1", 0, 1-1e-9),
		beta2: v.Float("beta2", 0, 1),
		// Below the smallest normal float32 epsilon would round to nothing, and 0/0 follow for a parameter without gradient.
		epsilon:     v.Float("epsilon", 0x1p-126, 1e3),
		ridge:       v.Float("ridge", 0, 1),
		graft:       v.OneOf("graft", "diagonal", "none") == "diagonal",
		blockSize:   v.Int("block_size", 1, 1<<13),
		every:       v.Int("precondition_every", 1, 1<<30),
		weightDecay: v.Float("weight_decay", 0, 1e3),
		maxGradNorm: v.Float("max_grad_norm", 0, math.MaxFloat32),
	}, nil
}

// The slots.
const (
	slotM = iota
	slotV
	slotLeft
	slotRight
	slotLeftRoot
	slotRightRoot
)

// Slots implements optimizer.Update: the momentum, the diagonal statistics, and those of both sides with their
// roots, block after block at the beginning of a tensor's part of the slot.
func (*rule) Slots() []string { return []string{"m", "v", "l", "r", "l_root", "r_root"} }

// block is a part of a matrix.
type block struct {
	tensor     int
	at         int // of the first element, in the section
	rows, cols int
	stride     int // of a row
	state      int // where the block has its place in slots, in the section
}

// cut makes the blocks of all matrices.
func cut(l *tensor.Layout, size int) []block {
	var blocks []block
	for i, t := range l.Tensors() {
		if !matrix(t) {
			continue
		}
		rows, cols := t.Shape[0], t.Shape[1]
		high := size
		if t.Kind == tensor.Embedding {
			high = rows
		}
		state := t.Offset
		for r := 0; r < rows; r += high {
			for c := 0; c < cols; c += size {
				b := block{tensor: i, at: t.Offset + r*cols + c, rows: min(high, rows-r), cols: min(size, cols-c), stride: cols, state: state}
				blocks = append(blocks, b)
				state += b.rows * b.cols
			}
		}
	}
	return blocks
}

func matrix(t tensor.Tensor) bool { return len(t.Shape) == 2 }

// Step implements optimizer.Update.
func (r *rule) Step(w *optimizer.Work, step optimizer.Step) {
	if r.blocks == nil {
		r.blocks = cut(w.Layout, r.blockSize)
	}
	weight := 1.0
	if r.beta2 < 1 {
		weight = (1 - r.beta2) / (1 - math.Pow(r.beta2, float64(step.Step)))
	}
	norms := r.diagonal(w, weight)
	due := step.Step%r.every == 0 || step.Step < r.every && step.Step&(step.Step-1) == 0
	kernels.Parallel(len(r.blocks), func(i0, i1 int) {
		scratch := make([]float32, r.blockSize*r.blockSize)
		for _, b := range r.blocks[i0:i1] {
			r.precondition(w, b, weight, due, scratch)
		}
	})
	scales := r.scales(w, norms)
	lr, keep, take := float32(step.LR), float32(r.beta1), float32(1-r.beta1)
	correction := float32(1 / (1 - math.Pow(r.beta1, float64(step.Step))))
	w.Each(func(b optimizer.Block) {
		decay, scale := w.Decay(b, r.weightDecay), take*scales[b.Tensor]
		p, u, m := b.Of(w.Params), b.Of(w.Grads), b.Of(w.Slots[slotM])
		for i := range p {
			m[i] = float32(keep*m[i]) + float32(scale*u[i])
			p[i] -= float32(lr * (float32(correction*m[i]) + float32(decay*p[i])))
		}
	})
}

// diagonal clips the gradients, updates v, and returns ‖d‖ of each tensor. It puts d in the place of the gradients
// of what is no matrix.
func (r *rule) diagonal(w *optimizer.Work, weight float64) []float64 {
	clip, keep, mean, epsilon := float32(optimizer.ClipScale(w.Norm, r.maxGradNorm)), float32(r.beta2), float32(weight), float32(r.epsilon)
	squares := make([]float64, len(w.Blocks))
	kernels.Parallel(len(w.Blocks), func(i0, i1 int) {
		for i := i0; i < i1; i++ {
			b := w.Blocks[i]
			replace := !matrix(w.Tensor(b))
			g, v := b.Of(w.Grads), b.Of(w.Slots[slotV])
			for j, x := range g {
				x *= clip
				v[j] = float32(keep*v[j]) + float32(x*x)
				d := x / float32(math.Sqrt(float64(float32(mean*v[j])+epsilon)))
				squares[i] += float64(float64(d) * float64(d))
				if g[j] = x; replace {
					g[j] = d
				}
			}
		}
	})
	return lengths(w, squares)
}

// lengths are the norms of tensors from the sums of squares of their blocks.
func lengths(w *optimizer.Work, squares []float64) []float64 {
	norms := make([]float64, len(w.Layout.Tensors()))
	for i, b := range w.Blocks {
		norms[b.Tensor] += squares[i]
	}
	for i := range norms {
		norms[i] = math.Sqrt(norms[i])
	}
	return norms
}

// scales are the factors that give a tensor's update the length that it is grafted to.
func (r *rule) scales(w *optimizer.Work, norms []float64) []float32 {
	squares := make([]float64, len(w.Blocks))
	kernels.Parallel(len(w.Blocks), func(i0, i1 int) {
		for i := i0; i < i1; i++ {
			squares[i] = kernels.SumSquares(w.Blocks[i].Of(w.Grads))
		}
	})
	scales := make([]float32, len(norms))
	for i, n := range lengths(w, squares) {
		scales[i] = 1
		if r.graft && matrix(w.Layout.Tensors()[i]) && n > 0 {
			scales[i] = float32(norms[i] / n)
		}
	}
	return scales
}

// precondition updates the statistics of a block, and their roots when they are due, and puts S in the place of the
// gradient. scratch holds block_size rows and columns: a side that has a preconditioner is no longer than that.
func (r *rule) precondition(w *optimizer.Work, b block, weight float64, due bool, scratch []float32) {
	g, power := w.Grads[b.at:], -0.5
	if b.rows == b.cols {
		power = -0.25
	}
	side := func(stats, root, n int, gram kernels.Gemm) []float32 {
		statistics, inverse := w.Slots[stats][b.state:b.state+n*n], w.Slots[root][b.state:b.state+n*n]
		kernels.Scale(statistics, float32(r.beta2), statistics)
		gram.M, gram.N, gram.A, gram.B, gram.C = n, n, g, g, statistics
		gram.LDA, gram.LDB, gram.LDC, gram.Accumulate = b.stride, b.stride, n, true
		gram.RunSerial()
		if due {
			r.root(inverse, statistics, n, weight, power)
		}
		return inverse
	}
	var left, right []float32
	if b.rows <= b.cols {
		left = side(slotLeft, slotLeftRoot, b.rows, kernels.Gemm{K: b.cols, TransB: true})
	}
	if b.cols <= b.rows {
		right = side(slotRight, slotRightRoot, b.cols, kernels.Gemm{K: b.rows, TransA: true})
	}
	if left == nil { // of any number of rows
		for first := 0; first < b.rows; first += r.blockSize {
			n, rows := min(r.blockSize, b.rows-first), g[first*b.stride:]
			(&kernels.Gemm{M: n, N: b.cols, K: b.cols, A: rows, LDA: b.stride, B: right, LDB: b.cols, C: scratch, LDC: b.cols}).RunSerial()
			put(rows, b.stride, scratch, n, b.cols)
		}
		return
	}
	(&kernels.Gemm{M: b.rows, N: b.cols, K: b.rows, A: left, LDA: b.rows, B: g, LDB: b.stride, C: scratch, LDC: b.cols}).RunSerial()
	if right == nil {
		put(g, b.stride, scratch, b.rows, b.cols)
		return
	}
	(&kernels.Gemm{M: b.rows, N: b.cols, K: b.cols, A: scratch, LDA: b.cols, B: right, LDB: b.cols, C: g, LDC: b.stride}).RunSerial()
}

// put copies a product over rows that are a stride apart.
func put(g []float32, stride int, product []float32, rows, cols int) {
	for i := range rows {
		copy(g[i*stride:], product[i*cols:(i+1)*cols])
	}
}

// root writes (weight·statistics + ρI)^power, a symmetric matrix of n rows. Where the eigenvalues do not converge
// the last root stays.
func (r *rule) root(root, statistics []float32, n int, weight, power float64) {
	symmetric := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			symmetric.SetSym(i, j, weight*float64(statistics[i*n+j]))
		}
	}
	var eigen mat.EigenSym
	if !eigen.Factorize(symmetric, true) {
		return
	}
	values := eigen.Values(nil) // ascending
	shift := r.epsilon + r.ridge*max(0, values[n-1])
	var vectors, scaled, product mat.Dense
	eigen.VectorsTo(&vectors)
	scaled.Apply(func(_, j int, x float64) float64 { return x * math.Pow(max(0, values[j])+shift, power) }, &vectors)
	product.Mul(&scaled, vectors.T())
	for i := range n {
		for j := range n {
			root[i*n+j] = float32(product.At(i, j))
		}
	}
}
