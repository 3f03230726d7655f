package emulator

import (
	"math"
	"slices"

	"harness.invalid/core/bert"
	"harness.invalid/core/kernels"
	"harness.invalid/core/numerics"
	"harness.invalid/core/random"
)

// Attention computes head by head, each in its worker's cache. The scores and probabilities of the whole batch are
// never in memory; the backward pass computes them again.
func (d *Device) Attention(p *bert.Pass, op *bert.Attention) {
	d.heads(p, op, func(h *head) {
		h.probabilities()
		h.dropout(h.p)
		h.product(drawContext, d.policy.Linear.Out, kernels.Gemm{M: h.queries, N: h.width, K: h.length, A: h.p, LDA: h.length,
			B: h.of(op.V), LDB: op.Width,
			RoundA: d.policy.read(d.policy.Probabilities.Out), RoundB: d.policy.read(d.policy.Linear.Out),
			C: h.ofQueries(op.Context), LDC: op.Width})
	})
}

// AttentionBackward computes for each head, with P = softmax(scale·Q·Kᵀ + mask) and D = dropout(P),
//
//	dV = Dᵀ·dC    dP = dropout(dC·Vᵀ)    dS = scale·P·(dP - Σ dP·P)    dQ = dS·K    dK = dSᵀ·Q
func (d *Device) AttentionBackward(p *bert.Pass, op *bert.Attention, dcontext, dq, dk, dv []float32) {
	d.heads(p, op, func(h *head) {
		R, S, W, H := h.queries, h.length, h.width, op.Width
		linear, grad := d.policy.read(d.policy.Linear.Out), d.policy.read(d.policy.Linear.Grad)
		h.probabilities()
		copy(h.dp, h.p)
		h.dropout(h.dp)
		h.product(drawValueGrad, d.policy.Linear.Grad, kernels.Gemm{TransA: true, M: S, N: W, K: R, A: h.dp, LDA: S,
			B: h.ofQueries(dcontext), LDB: H, C: h.of(dv), LDC: H,
			RoundA: d.policy.read(d.policy.Probabilities.Out), RoundB: grad})
		h.product(drawProbabilitiesGrad, d.policy.Linear.Grad,
			kernels.Gemm{TransB: true, M: R, N: S, K: W, A: h.ofQueries(dcontext), LDA: H, B: h.of(op.V), LDB: H, C: h.dp, LDC: S,
				RoundA: grad, RoundB: linear})
		if h.drop {
			h.mask.drop(h.dp, op.Dropout, 0, 0)
			h.put(h.dp, d.policy.Probabilities.Grad, drawDropoutGrad)
		}
		for i := range R {
			kernels.SoftmaxGrad(h.dp[i*S:(i+1)*S], h.dp[i*S:(i+1)*S], h.p[i*S:(i+1)*S], h.scale)
		}
		h.put(h.dp, d.policy.Scores.Grad, drawScoresGrad)
		scores := d.policy.read(d.policy.Scores.Grad)
		h.product(drawQueryGrad, d.policy.Linear.Grad, kernels.Gemm{M: R, N: W, K: S, A: h.dp, LDA: S, B: h.of(op.K), LDB: H,
			C: h.ofQueries(dq), LDC: H, RoundA: scores, RoundB: linear})
		h.product(drawKeyGrad, d.policy.Linear.Grad, kernels.Gemm{TransA: true, M: S, N: W, K: R, A: h.dp, LDA: S,
			B: h.ofQueries(op.Q), LDB: H, C: h.of(dk), LDC: H, RoundA: scores, RoundB: linear})
	})
}

// head is one head of one sequence, with the memory of the worker that computes it.
type head struct {
	d             *Device
	pass          *bert.Pass
	op            *bert.Attention
	sequence      int // in the micro-batch
	index         int // of the head
	queries       int // R
	length, width int // S, d
	scale         float32
	p, dp         []float32 // [R, S]
	numbers       []int32   // [S]: op.Mask of the sequence
	rows          []float32 // [Q, S]: mask for the queries of each sequence of a row, added to scores; Q is 1 in rows that are not packed
	ones          []float32 // [S]: 1
	tile          []float32 // [S, d]
	gemm          *kernels.Gemm
	mask          place
	drop          bool
}

// heads calls body for every head of every sequence, in parallel.
func (d *Device) heads(p *bert.Pass, op *bert.Attention, body func(h *head)) {
	S, R := op.Length, op.Length
	if len(op.Queries) > 0 {
		R = len(op.Queries) / op.Size
	}
	kernels.Parallel(op.Size*op.Heads, func(i0, i1 int) {
		s := d.scratch.get()
		defer d.scratch.put(s)
		W := op.Width / op.Heads
		Q := 1
		if op.Packed {
			Q = max(1, int(slices.Max(op.Mask)))
		}
		floats := s.take(2*R*S + (Q+1)*S + S*W)
		h := head{d: d, pass: p, op: op, queries: R, length: S, width: W, gemm: &s.gemm}
		h.p, h.dp, floats = floats[:R*S], floats[R*S:2*R*S], floats[2*R*S:]
		h.rows, h.ones, h.tile = floats[:Q*S], floats[Q*S:(Q+1)*S], floats[(Q+1)*S:]
		for i := range h.ones {
			h.ones[i] = 1
		}
		h.scale = float32(1 / math.Sqrt(float64(h.width)))
		for i := i0; i < i1; i++ {
			h.sequence, h.index = i/op.Heads, i%op.Heads
			h.numbers = op.Mask[h.sequence*S : (h.sequence+1)*S]
			for j, m := range h.numbers {
				for q := range Q {
					h.rows[q*S+j] = 0
					if m == 0 || op.Packed && int(m) != q+1 {
						h.rows[q*S+j] = float32(op.MaskValue)
					}
				}
			}
			if h.drop = p.Train && op.Dropout > 0; h.drop {
				h.mask = h.place(random.Dropout, 0, S)
			}
			body(&h)
		}
	})
}

// row is the mask that is added to the scores of query i. Queries of padding get that of the first sequence, since
// their results are not used.
func (h *head) row(i int) []float32 {
	q := 0
	if h.op.Packed {
		token := i
		if len(h.op.Queries) > 0 {
			token = int(h.op.Queries[h.sequence*h.queries+i]) - h.sequence*h.length
		}
		q = max(0, int(h.numbers[token])-1)
	}
	return h.rows[q*h.length : (q+1)*h.length]
}

// of is the head's part of a [B·S, H] buffer, from its first row on; rows are H apart.
func (h *head) of(x []float32) []float32 {
	return x[h.sequence*h.length*h.op.Width+h.index*h.width:]
}

// ofQueries is the head's part of a [B·R, H] buffer.
func (h *head) ofQueries(x []float32) []float32 {
	return x[h.sequence*h.queries*h.op.Width+h.index*h.width:]
}

// place is the place of one of this head's buffers.
func (h *head) place(purpose random.Purpose, draw uint32, width int) place {
	s := random.New(h.pass.Seed, purpose)
	s.Step, s.Site = h.pass.Step, h.op.Site.Stream(draw, uint32(h.index))
	return place{stream: s, sample: h.pass.Sample + h.sequence, rows: h.length, width: width}
}

func (h *head) store(s Store, draw uint32, width int) store {
	if s.Format == numerics.FP32 {
		return store{}
	}
	return store{s, h.place(random.Rounding, draw, width)}
}

// put stores an [R, S] matrix of the head.
func (h *head) put(x []float32, s Store, draw uint32) {
	out := h.store(s, draw, h.length)
	h.d.put(&out, x, 0, 0)
}

// product runs a matrix product on this worker and stores the result. A narrow one goes through a contiguous tile,
// where it can be rounded in one call.
func (h *head) product(draw uint32, s Store, g kernels.Gemm) {
	out := h.store(h.d.policy.product(s), draw, g.N)
	g.Partials = h.d.partials(h.pass, h.op.Site, draw, uint32(h.index), h.pass.Sample+h.sequence)
	g.Inputs = h.d.policy.Inputs
	c, ldc := g.C, g.LDC
	if out.Format != numerics.FP32 && ldc != g.N {
		g.C, g.LDC = h.tile[:g.M*g.N], g.N
	}
	*h.gemm = g
	h.gemm.RunSerial()
	if out.Format == numerics.FP32 {
		return
	}
	h.d.put(&out, g.C[:g.M*g.N], 0, 0)
	for r := 0; r < g.M && ldc != g.N; r++ {
		copy(c[r*ldc:r*ldc+g.N], g.C[r*g.N:])
	}
}

// probabilities sets h.p to the softmax of the scaled and masked scores.
func (h *head) probabilities() {
	d, op, S := h.d, h.op, h.length
	linear := d.policy.read(d.policy.Linear.Out)
	h.product(drawOut, d.policy.Scores.Out, kernels.Gemm{TransB: true, M: h.queries, N: S, K: h.width, A: h.ofQueries(op.Q),
		LDA: op.Width, B: h.of(op.K), LDB: op.Width, C: h.p, LDC: S,
		RoundA: linear, RoundB: linear})
	scale := h.scale
	if d.policy.Scores.Out.Format != numerics.FP32 {
		kernels.Scale(h.p, scale, h.p)
		h.put(h.p, d.policy.Scores.Out, drawScaled)
		scale = 1
	}
	if d.policy.Exponential.Format != numerics.FP32 {
		h.narrowSoftmax()
	} else {
		for i := range h.queries {
			kernels.Softmax(h.p[i*S:(i+1)*S], h.p[i*S:(i+1)*S], h.row(i), scale)
		}
	}
	h.put(h.p, d.policy.Probabilities.Out, drawProbabilities)
}

// softmaxRows is the number of rows that narrowSoftmax takes at a time, so that they stay in the first level cache.
const softmaxRows = 32

// narrowSoftmax is the softmax of a device that stores each step: x + mask - max, e^x, and the reciprocal of the sum.
func (h *head) narrowSoftmax() {
	d, S := h.d, h.length
	masked := h.store(d.policy.Masked, drawMasked, S)
	exponential := h.store(d.policy.Exponential, drawExponential, S)
	reciprocal := h.store(d.policy.Reciprocal, drawReciprocal, 1)
	for i0 := 0; i0 < h.queries; i0 += softmaxRows {
		i1 := min(h.queries, i0+softmaxRows)
		for i := i0; i < i1; i++ {
			x := h.p[i*S : (i+1)*S]
			kernels.Add(x, x, h.row(i))
			kernels.Axpy(x, -kernels.Max(x), h.ones)
		}
		d.putRows(&masked, h.p, i0, i1)
		kernels.Exp(h.p[i0*S:i1*S], h.p[i0*S:i1*S])
		d.putRows(&exponential, h.p, i0, i1)
		sums := h.tile[:i1-i0]
		for i := i0; i < i1; i++ {
			sums[i-i0] = float32(1 / kernels.Dot(h.p[i*S:(i+1)*S], h.ones))
		}
		d.put(&reciprocal, sums, i0, 0)
		for i := i0; i < i1; i++ {
			kernels.Scale(h.p[i*S:(i+1)*S], sums[i-i0], h.p[i*S:(i+1)*S])
		}
	}
}

// dropout applies dropout to probabilities.
func (h *head) dropout(p []float32) {
	if h.drop {
		h.mask.drop(p, h.op.Dropout, 0, 0)
		h.put(p, h.d.policy.Probabilities.Out, drawDropout)
	}
}
