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
		h.product(drawContext, d.policy.Linear.Out, h.ofQueries(op.Context), kernels.Gemm{M: h.queries, N: h.width, K: h.keys,
			A: h.p, LDA: h.ld, B: h.ofKeys(op.V).x, LDB: op.Width,
			RoundA: d.policy.read(d.policy.Probabilities.Out), RoundB: d.policy.read(d.policy.Linear.Out)})
	})
}

// AttentionBackward computes for each head, with P = softmax(scale·Q·Kᵀ + mask) and D = dropout(P),
//
//	dV = Dᵀ·dC    dP = dropout(dC·Vᵀ)    dS = scale·P·(dP - Σ dP·P)    dQ = dS·K    dK = dSᵀ·Q
func (d *Device) AttentionBackward(p *bert.Pass, op *bert.Attention, dcontext, dq, dk, dv []float32) {
	d.heads(p, op, func(h *head) {
		R, S, W, H := h.queries, h.keys, h.width, op.Width
		linear, grad := d.policy.read(d.policy.Linear.Out), d.policy.read(d.policy.Linear.Grad)
		h.probabilities()
		copy(h.dp, h.p)
		h.dropout(h.dp)
		dc, ldc := h.ofQueries(dcontext).read(h.side)
		h.product(drawValueGrad, d.policy.Linear.Grad, h.ofKeys(dv), kernels.Gemm{TransA: true, M: S, N: W, K: R, A: h.dp, LDA: h.ld,
			B: dc, LDB: ldc, RoundA: d.policy.read(d.policy.Probabilities.Out), RoundB: grad})
		h.product(drawProbabilitiesGrad, d.policy.Linear.Grad, h.scores(h.dp),
			kernels.Gemm{TransB: true, M: R, N: S, K: W, A: dc, LDA: ldc, B: h.ofKeys(op.V).x, LDB: H, RoundA: grad, RoundB: linear})
		if h.drop {
			h.mask.drop(h.dp, op.Dropout, 0, 0)
			h.put(h.dp, d.policy.Probabilities.Grad, drawDropoutGrad)
		}
		for i := range R {
			dp := h.row(h.dp, i)
			kernels.SoftmaxGrad(dp, dp, h.row(h.p, i), h.scale)
		}
		h.put(h.dp, d.policy.Scores.Grad, drawScoresGrad)
		scores := d.policy.read(d.policy.Scores.Grad)
		h.product(drawQueryGrad, d.policy.Linear.Grad, h.ofQueries(dq), kernels.Gemm{M: R, N: W, K: S, A: h.dp, LDA: h.ld,
			B: h.ofKeys(op.K).x, LDB: H, RoundA: scores, RoundB: linear})
		q, ldq := h.ofQueries(op.Q).read(h.side)
		h.product(drawKeyGrad, d.policy.Linear.Grad, h.ofKeys(dk), kernels.Gemm{TransA: true, M: S, N: W, K: R, A: h.dp, LDA: h.ld,
			B: q, LDB: ldq, RoundA: scores, RoundB: linear})
	})
}

// head is one head of one sequence, with the memory of the worker that computes it. Behind their ends, p, dp, rows
// and ones have room for any sequence.
type head struct {
	d             *Device
	pass          *bert.Pass
	op            *bert.Attention
	sequence      int          // in the micro-batch
	index         int          // of the head
	keyRows       bert.Span    // in K and V
	queryRows     [2]bert.Span // in Q
	queryTokens   []int32      // of queryRows; empty: Q has as many rows for each sequence
	keys, queries int          // K, R
	ld            int          // distance of the rows of p and dp, at least K: see enter
	width         int          // d
	scale         float32
	p, dp         []float32 // [R, ld], with anything finite behind the K columns
	numbers       []int32   // [S]: op.Mask of the sequence
	rows          []float32 // [Q, K]: mask for the queries of each sequence of a row, added to scores; Q is 1 in rows that are not packed
	ones          []float32 // [K]: 1
	tile, side    []float32 // [S, d]: of a result, of a factor
	gemm          *kernels.Gemm
	mask          place
	drop          bool
}

// heads calls body for every head of every sequence, in parallel. Workers divide the heads rather than the
// sequences, whose lengths differ; each takes its heads of one sequence after the other.
func (d *Device) heads(p *bert.Pass, op *bert.Attention, body func(h *head)) {
	S, R := op.Length, 0
	for i := range op.Size {
		_, queries := op.Rows(i)
		R = max(R, queries[0].Len()+queries[1].Len())
	}
	kernels.Parallel(op.Size*op.Heads, func(i0, i1 int) {
		s := d.scratch.get()
		defer d.scratch.put(s)
		W := op.Width / op.Heads
		Q := 1
		if op.Packed {
			Q = max(1, int(slices.Max(op.Mask)))
		}
		floats := s.take(2*R*S + (Q+1)*S + 2*S*W)
		take := func(n int) []float32 {
			var taken []float32
			taken, floats = floats[:n], floats[n:]
			return taken
		}
		h := head{d: d, pass: p, op: op, width: W, gemm: &s.gemm, p: take(R * S), dp: take(R * S), rows: take(Q * S), ones: take(S),
			tile: take(S * W), side: take(S * W), drop: p.Train && op.Dropout > 0}
		for i := range h.ones {
			h.ones[i] = 1
		}
		h.scale = float32(1 / math.Sqrt(float64(h.width)))
		for h.sequence = range op.Size {
			s.tokens = h.enter(s.tokens, Q)
			for h.index = range op.Heads {
				if i := h.index*op.Size + h.sequence; i < i0 || i >= i1 {
					continue
				}
				if h.drop {
					h.mask = h.place(random.Dropout, 0, h.scores(nil))
				}
				body(&h)
			}
		}
	})
}

// enter takes h to a sequence. It uses tokens as memory, and returns it for the next one; there are Q masks.
func (h *head) enter(tokens []int32, Q int) []int32 {
	op := h.op
	h.keyRows, h.queryRows = op.Rows(h.sequence)
	h.keys, h.queries = h.keyRows.Len(), h.queryRows[0].Len()+h.queryRows[1].Len()
	if len(op.Spans) > 0 && !op.Read {
		tokens = append(tokens[:0], op.Queries[h.queryRows[0].Begin:h.queryRows[0].End]...)
		tokens = append(tokens, op.Queries[h.queryRows[1].Begin:h.queryRows[1].End]...)
		h.queryTokens = tokens
	}
	// Rows as far apart as in the stream of random bits are rounded in one call, and share groups of the stream.
	h.ld = h.keys
	if h.d.policy.Probabilities.Out.Stochastic && op.Length <= random.Group {
		h.ld = op.Length
	}
	h.p, h.dp, h.rows, h.ones = h.p[:h.queries*h.ld], h.dp[:h.queries*h.ld], h.rows[:Q*h.keys], h.ones[:h.keys]
	h.numbers = op.Mask[h.sequence*op.Length : (h.sequence+1)*op.Length]
	for j := range h.keys {
		m := h.numbers[h.token(op.Keys, h.keyRows.Begin+j)]
		for q := range Q {
			h.rows[q*h.keys+j] = 0
			if m == 0 || op.Packed && int(m) != q+1 {
				h.rows[q*h.keys+j] = float32(op.MaskValue)
			}
		}
	}
	return tokens
}

// token is the place in the sequence of the token that a row stands for.
func (h *head) token(tokens []int32, row int) int {
	if len(tokens) > 0 {
		row = int(tokens[row])
	}
	return row - h.sequence*h.op.Length
}

// row is row i of p or dp.
func (h *head) row(x []float32, i int) []float32 { return x[i*h.ld:][:h.keys] }

// visible is the mask that is added to the scores of query i. Queries of padding get that of the first sequence.
func (h *head) visible(i int) []float32 {
	q := 0
	if h.op.Packed {
		row := h.queryRows[0].Begin + i
		if n := h.queryRows[0].Len(); i >= n {
			row = h.queryRows[1].Begin + i - n
		}
		q = max(0, int(h.numbers[h.token(h.op.Queries, row)])-1)
	}
	return h.rows[q*h.keys : (q+1)*h.keys]
}

// matrix is a part of a buffer: split rows of it from x on and the others from y on. Rows are ld apart in memory, and
// stride in the stream of random bits.
type matrix struct {
	x, y               []float32
	tokens             []int32 // of the rows; empty: in order
	split, rows, width int
	ld, stride         int
}

// ofKeys is the head's part of a buffer with rows for keys.
func (h *head) ofKeys(x []float32) matrix {
	m := matrix{x: x[h.keyRows.Begin*h.op.Width+h.index*h.width:], split: h.keys, rows: h.keys, width: h.width, ld: h.op.Width,
		stride: h.width}
	if len(h.op.Keys) > 0 {
		m.tokens = h.op.Keys[h.keyRows.Begin:h.keyRows.End]
	}
	return m
}

// ofQueries is the head's part of a buffer with rows for queries.
func (h *head) ofQueries(x []float32) matrix {
	m := matrix{x: x[h.queryRows[0].Begin*h.op.Width+h.index*h.width:], tokens: h.queryTokens, split: h.queryRows[0].Len(),
		rows: h.queries, width: h.width, ld: h.op.Width, stride: h.width}
	if m.split < m.rows {
		m.y = x[h.queryRows[1].Begin*h.op.Width+h.index*h.width:]
	}
	return m
}

// scores is a matrix [R, ld] of the head. In the stream, its rows are S apart, and a key has its place among those
// that are seen.
func (h *head) scores(x []float32) matrix {
	return matrix{x: x, tokens: h.queryTokens, split: h.queries, rows: h.queries, width: h.ld, ld: h.ld, stride: h.op.Length}
}

// row is row i.
func (m *matrix) row(i int) []float32 {
	if i >= m.split {
		return m.y[(i-m.split)*m.ld:][:m.width]
	}
	return m.x[i*m.ld:][:m.width]
}

// read returns the rows in one piece and how far they are apart, copied to scratch if they are not in one piece.
func (m matrix) read(scratch []float32) (x []float32, ld int) {
	if m.split == m.rows {
		return m.x, m.ld
	}
	for i := range m.rows {
		copy(scratch[i*m.width:], m.row(i))
	}
	return scratch[:m.rows*m.width], m.width
}

// place is the place of one of this head's matrices.
func (h *head) place(purpose random.Purpose, draw uint32, m matrix) place {
	s := h.d.stream(h.pass, purpose)
	s.Step, s.Site = h.pass.Step, h.op.Site.Stream(draw, uint32(h.index))
	l := place{stream: s, sample: h.pass.Sample, rows: h.op.Length, tokens: m.tokens, width: m.width, stride: m.stride}
	if len(m.tokens) == 0 {
		l.sample += h.sequence
	}
	return l
}

func (h *head) store(s Store, draw uint32, m matrix) store {
	if s.Format == numerics.FP32 {
		return store{}
	}
	return store{s, h.place(random.Rounding, draw, m)}
}

// put stores p or dp.
func (h *head) put(x []float32, s Store, draw uint32) {
	out := h.store(s, draw, h.scores(x))
	h.d.put(&out, x, 0, 0)
}

// product runs a matrix product on this worker and stores the result as c. A narrow one goes through a contiguous tile,
// where it can be rounded in one call.
func (h *head) product(draw uint32, s Store, c matrix, g kernels.Gemm) {
	out := h.store(h.d.policy.product(s), draw, c)
	g.Partials = h.d.partials(h.pass, h.op.Site, draw, uint32(h.index), h.pass.Sample+h.sequence)
	g.Inputs = h.d.policy.Inputs
	g.C, g.LDC = c.x, c.ld
	tiled := c.split < c.rows || out.Format != numerics.FP32 && c.ld != c.width
	if tiled {
		g.C, g.LDC = h.tile[:g.M*g.N], g.N
	}
	*h.gemm = g
	h.gemm.RunSerial()
	if out.Format != numerics.FP32 {
		h.d.put(&out, g.C[:g.M*g.LDC], 0, 0)
	}
	for r := 0; r < g.M && tiled; r++ {
		copy(c.row(r), g.C[r*g.N:][:g.N])
	}
}

// probabilities sets h.p to the softmax of the scaled and masked scores.
func (h *head) probabilities() {
	d, op, S := h.d, h.op, h.keys
	linear := d.policy.read(d.policy.Linear.Out)
	q, ldq := h.ofQueries(op.Q).read(h.side)
	for i := 0; i < h.queries && h.ld > S; i++ {
		clear(h.p[i*h.ld+S : (i+1)*h.ld])
	}
	h.product(drawOut, d.policy.Scores.Out, h.scores(h.p), kernels.Gemm{TransB: true, M: h.queries, N: S, K: h.width, A: q, LDA: ldq,
		B: h.ofKeys(op.K).x, LDB: op.Width, RoundA: linear, RoundB: linear})
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
			kernels.Softmax(h.row(h.p, i), h.row(h.p, i), h.visible(i), scale)
		}
	}
	h.put(h.p, d.policy.Probabilities.Out, drawProbabilities)
}

// softmaxRows is the number of rows that narrowSoftmax takes at a time, so that they stay in the first level cache.
const softmaxRows = 32

// narrowSoftmax is the softmax of a device that stores each step: x + mask - max, e^x, and the reciprocal of the sum.
func (h *head) narrowSoftmax() {
	d := h.d
	masked := h.store(d.policy.Masked, drawMasked, h.scores(h.p))
	exponential := h.store(d.policy.Exponential, drawExponential, h.scores(h.p))
	reciprocal := h.store(d.policy.Reciprocal, drawReciprocal, matrix{tokens: h.queryTokens, width: 1, stride: 1})
	for i0 := 0; i0 < h.queries; i0 += softmaxRows {
		i1 := min(h.queries, i0+softmaxRows)
		for i := i0; i < i1; i++ {
			x := h.row(h.p, i)
			kernels.Add(x, x, h.visible(i))
			kernels.Axpy(x, -kernels.Max(x), h.ones)
		}
		d.putRows(&masked, h.p, i0, i1)
		kernels.Exp(h.p[i0*h.ld:i1*h.ld], h.p[i0*h.ld:i1*h.ld])
		d.putRows(&exponential, h.p, i0, i1)
		sums := h.tile[:i1-i0]
		for i := i0; i < i1; i++ {
			sums[i-i0] = float32(1 / kernels.Dot(h.row(h.p, i), h.ones))
		}
		d.put(&reciprocal, sums, i0, 0)
		for i := i0; i < i1; i++ {
			kernels.Scale(h.row(h.p, i), sums[i-i0], h.row(h.p, i))
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
