// Package adafactor is Adafactor, which keeps only row and column statistics of a matrix's second moments:
// Shazeer and Stern, "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost", ICML 2018 (arXiv:1804.04235),
// algorithms 4 and 5.
//
//	β   = 1 - t^(-decay_rate)
//	R   = β·R + (1-β)·mean over a row of (g² + eps1)         of a matrix; likewise C over its columns
//	V   = R·C / mean(R)                                      of anything else: V = β·V + (1-β)·(g² + eps1)
//	u   = g / sqrt(V)
//	u   = u / max(1, rms(u) / clip_threshold)                over the tensor
//	u   = beta1·m + (1-beta1)·u, m = u                       only when beta1 > 0
//	p  -= lr·s·u + lr·λ·p                                    s = max(eps2, rms(p)) with scale_parameter, else 1
//
// λ = weight_decay, 0 for biases and layer normalisation. R and C lie side by side at the beginning of the tensor's
// part of the slot. A slot is as long as the parameters, but most of it is never touched. Arithmetic is
// float32, sums are float64.
package adafactor

import (
	"math"

	"harness.invalid/core/kernels"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/option"
	"harness.invalid/core/tensor"
)

var info = optimizer.Info{
	Name: "adafactor", Version: "1", Doc: "Adafactor (Shazeer and Stern 2018, arXiv:1804.04235)",
	Options: []option.Option{
		{Name: "decay_rate", Default: "0.8", Doc: "exponent of the second moment's decay, 1 - t^-decay_rate"},
		{Name: "beta1", Default: "0", Doc: "decay of the first moment, 0: none, and no state for it"},
		{Name: "eps1", Default: "1e-30", Doc: "added to the squared gradient"},
		{Name: "eps2", Default: "1e-3", Doc: "least root mean square of a tensor that scales its step"},
		{Name: "clip_threshold", Default: "1", Doc: "greatest root mean square of a tensor's update"},
		{Name: "scale_parameter", Default: "true", Doc: "scale a tensor's step by its root mean square"},
		{Name: "weight_decay", Default: "0", Doc: "decoupled weight decay λ; not on biases and layer normalisation"},
	},
}

// New returns the rule.
func New() optimizer.Optimizer { return optimizer.Rule{Info: info, Read: read} }

type rule struct {
	decayRate, beta1, eps1, eps2, clipThreshold, weightDecay float64
	scaleParameter                                           bool
}

func read(v *option.Values) (optimizer.Update, error) {
	return &rule{
		decayRate:      v.Float("decay_rate", 0, 1),
		beta1:          v.Float("beta1", 0, 1-1e-9),
		eps1:           v.Float("eps1", 0x1p-126, 1), // below the smallest normal float32 a parameter without gradient would divide 0 by 0
		eps2:           v.Float("eps2", 0, 1),
		clipThreshold:  v.Float("clip_threshold", 1e-6, math.MaxFloat32),
		scaleParameter: v.Bool("scale_parameter"),
		weightDecay:    v.Float("weight_decay", 0, 1e3),
	}, nil
}

// Slots implements optimizer.Update: the second moment v, whole or in factors, and the first one m, if there is one.
func (a *rule) Slots() []string {
	if a.beta1 > 0 {
		return []string{"v", "m"}
	}
	return []string{"v"}
}

// Step implements optimizer.Update.
func (a *rule) Step(w *optimizer.Work, step optimizer.Step) {
	beta := 1 - math.Pow(float64(step.Step), -a.decayRate)
	for _, t := range w.Layout.Tensors() {
		a.update(w, t, beta, step.LR)
	}
}

// update is one tensor's.
func (a *rule) update(w *optimizer.Work, t tensor.Tensor, beta, lr float64) {
	p, g, v := t.Of(w.Params), t.Of(w.Grads), t.Of(w.Slots[0])
	rate := lr
	if a.scaleParameter {
		rate *= max(a.eps2, rms(kernels.SumSquares(p), len(p)))
	}
	rows, cols, factors := sides(t)
	var squares float64 // of the update, before it is clipped
	if factors {
		squares = a.factored(g, v, rows, cols, beta)
	} else {
		squares = a.whole(g, v, beta)
	}
	clip := float32(1 / max(1, rms(squares, len(g))/a.clipThreshold))
	if a.beta1 > 0 {
		m := t.Of(w.Slots[1])
		kernels.Scale(m, float32(a.beta1), m)
		kernels.Axpy(m, float32(1-a.beta1)*clip, g)
		g, clip = m, 1
	}
	if a.weightDecay != 0 && optimizer.Decays(t.Kind) {
		kernels.Scale(p, float32(1-lr*a.weightDecay), p)
	}
	kernels.Axpy(p, float32(-rate)*clip, g)
}

func rms(squares float64, n int) float64 { return math.Sqrt(squares / float64(n)) }

// whole updates v and turns g into the update. It returns the sum of its squares.
func (a *rule) whole(g, v []float32, beta float64) float64 {
	keep, take, eps := float32(beta), float32(1-beta), float32(a.eps1)
	for i, x := range g {
		v[i] = float32(keep*v[i]) + float32(take*(float32(x*x)+eps))
		g[i] = x / float32(math.Sqrt(float64(v[i])))
	}
	return kernels.SumSquares(g)
}

// rowsAtOnce is the number of rows whose sums are taken together: where sums are split depends on the shape alone.
const rowsAtOnce = 64

// factored is whole for a matrix whose second moments are products of a row's and a column's.
func (a *rule) factored(g, v []float32, rows, cols int, beta float64) float64 {
	keep, take := float32(beta), float32(1-beta)
	blocks := (rows + rowsAtOnce - 1) / rowsAtOnce
	R, C := v[:rows], v[rows:rows+cols]
	columns := make([]float64, blocks*cols)
	each := func(body func(block, r0, r1 int)) {
		kernels.Parallel(blocks, func(b0, b1 int) {
			for b := b0; b < b1; b++ {
				body(b, b*rowsAtOnce, min(rows, (b+1)*rowsAtOnce))
			}
		})
	}
	each(func(block, r0, r1 int) {
		sums := columns[block*cols : (block+1)*cols]
		for r := r0; r < r1; r++ {
			row := 0.0
			for c, x := range g[r*cols : (r+1)*cols] {
				square := float64(x)*float64(x) + a.eps1
				row += square
				sums[c] += square
			}
			R[r] = float32(keep*R[r]) + float32(take*float32(row/float64(cols)))
		}
	})
	for c := range C {
		sum := 0.0
		for b := range blocks {
			sum += columns[b*cols+c]
		}
		C[c] = float32(keep*C[c]) + float32(take*float32(sum/float64(rows)))
	}
	mean := 0.0
	for _, x := range R {
		mean += float64(x)
	}
	mean /= float64(rows)
	squares := make([]float64, blocks)
	each(func(block, r0, r1 int) {
		for r := r0; r < r1; r++ {
			row, scale := g[r*cols:(r+1)*cols], float64(R[r])/mean
			for c := range row {
				row[c] /= float32(math.Sqrt(scale * float64(C[c])))
			}
			squares[block] += kernels.SumSquares(row)
		}
	})
	sum := 0.0
	for _, x := range squares {
		sum += x
	}
	return sum
}
