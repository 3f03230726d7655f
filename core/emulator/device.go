package emulator

import (
	"math"
	"sync"
	"sync/atomic"

	"harness.invalid/core/bert"
	"harness.invalid/core/kernels"
	"harness.invalid/core/numerics"
	"harness.invalid/core/random"
)

// Device is a bert.Device that follows a Policy. It may serve several passes at the same time.
type Device struct {
	policy    Policy
	overflows atomic.Int64
	invalid   atomic.Int64
	large     atomic.Int64 // gradients above the policy's HistogramEdge
	counted   atomic.Int64 // gradients
	scratch   scratchPool
	scaling   *scaling // nil: no scale follows a history
	effects   *effects // nil: nobody asks
}

var _ bert.Device = (*Device)(nil)

// New returns a device. The policy must be valid.
func New(p Policy) *Device {
	d := &Device{policy: p}
	if p.Products.Delayed.History > 0 {
		d.scaling = newScaling(p.Products.Delayed)
	}
	return d
}

// TakeOverflows returns how many values left FP16's range since the last call, where the policy clips them or makes
// them NaN. Partial sums that saturate inside a matrix product are not counted separately.
func (d *Device) TakeOverflows() int64 { return d.overflows.Swap(0) }

// TakeInvalid returns how many stored results were NaN since the last call, including those with a NaN as operand.
// They are counted where overflows are.
func (d *Device) TakeInvalid() int64 { return d.invalid.Swap(0) }

// TakeHistogram returns how many gradients of parameters were computed since the last call, over all micro-batches,
// and how many of them were larger than the policy's HistogramEdge.
func (d *Device) TakeHistogram() (large, all int64) { return d.large.Swap(0), d.counted.Swap(0) }

// count adds gradients to the histogram.
func (d *Device) count(grad []float32) {
	edge := d.policy.HistogramEdge
	if edge == 0 {
		return
	}
	var large int64
	for _, g := range grad {
		if !(g <= edge && g >= -edge) { // NaN is large
			large++
		}
	}
	d.large.Add(large)
	d.counted.Add(int64(len(grad)))
}

// The draws of one site: each store of an operator has its own random bits.
const (
	drawOut uint32 = iota
	drawActivation
	drawDropout
	drawResidual
	drawMean
	drawRStd
	drawScaled
	drawMasked
	drawExponential
	drawReciprocal
	drawProbabilities
	drawContext
	drawBranch // gradient as it enters a branch
	drawDropoutGrad
	drawActivationGrad
	drawGrad
	drawMeet // gradient where branches meet
	drawWeight
	drawBias
	drawProbabilitiesGrad
	drawScoresGrad
	drawQueryGrad
	drawKeyGrad
	drawValueGrad
	drawPartials // and above: drawPartials + d is for the partial sums of draw d

	drawInputOperand   uint32 = 58 // operands of products that are quantised stochastically
	drawWeightOperand  uint32 = 59
	drawBackGradient   uint32 = 60
	drawBackWeight     uint32 = 61
	drawWeightGradient uint32 = 62
	drawWeightInput    uint32 = 63
)

// batchRows are the rows of a buffer: as many for each sequence, or those of tokens, see bert.Norm.
type batchRows struct {
	count  int
	tokens []int32
}

// place is where a buffer belongs in the global batch, which keys the random bits of each element. Where rows stand
// for tokens, it is the token's place in its sequence, whatever padding is left out.
type place struct {
	stream random.Stream
	sample int     // of the first row
	rows   int     // rows of one sequence
	tokens []int32 // of the rows, as rows of the batch; empty: they are in order
	width  int     // elements of a row
	stride int     // distance of rows in the stream
}

// stream returns the stream of a purpose, which of the pass's seed comes to a place. The odd factor, of an LCG by Steele
// and Vigna (2021, arXiv:2001.05304), keeps rounding seeds away from the seeds that neighbouring runs have.
func (d *Device) stream(p *bert.Pass, purpose random.Purpose) random.Stream {
	seed := p.Seed
	if purpose == random.Rounding {
		seed += d.policy.RoundingSeed * 0xd1342543de82ef95
	}
	return random.New(seed, purpose)
}

// place returns the place of a buffer of the pass whose rows have width elements.
func (d *Device) place(p *bert.Pass, purpose random.Purpose, site bert.Site, draw uint32, r batchRows, width int) place {
	s := d.stream(p, purpose)
	s.Step, s.Site = p.Step, site.Stream(draw, 0)
	l := place{stream: s, sample: p.Sample, tokens: r.tokens, width: width, stride: width}
	if l.rows = p.Length; len(r.tokens) == 0 {
		l.rows = r.count / p.Size
	}
	return l
}

// from returns the sample and the position in its stream of the element at (row, col), and how many of the n elements
// from there on follow it. It is small enough to be inlined where rows are in order and next to each other.
func (l *place) from(row, col, n int) (sample uint32, pos, count int) {
	sample = uint32(l.sample + row/l.rows)
	row %= l.rows
	if left := l.rows - row; left < n {
		n = min(n, left*l.width-col)
	}
	return sample, row*l.width + col, n
}

// apart reports whether rows are not in order and next to each other, so that find takes the part of from.
func (l *place) apart() bool { return len(l.tokens) > 0 || l.stride != l.width }

// find is from for any rows.
func (l *place) find(row, col, n int) (sample uint32, pos, count int) {
	token, rows := row, 1 // that follow each other
	if len(l.tokens) > 0 {
		token = int(l.tokens[row])
		for l.stride == l.width && rows*l.width-col < n && (token+rows)%l.rows > 0 && row+rows < len(l.tokens) &&
			int(l.tokens[row+rows]) == token+rows {
			rows++
		}
	}
	return uint32(l.sample + token/l.rows), token%l.rows*l.stride + col, min(n, rows*l.width-col)
}

// next is the row after the n elements from (row, col) on, where they end with a row.
func (l *place) next(row, col, n int) int { return row + (col+n)/l.width }

// store is a Store for a buffer at a place.
type store struct {
	Store
	place
}

// outputs returns the store of a buffer with rows for each sequence.
func (d *Device) outputs(p *bert.Pass, s Store, site bert.Site, draw uint32, r batchRows, width int) store {
	if s.Format == numerics.FP32 {
		return store{}
	}
	return store{s, d.place(p, random.Rounding, site, draw, r, width)}
}

// weights returns the store of a buffer that a micro-batch has one of, such as the gradient of a weight: a single
// row, keyed by the first sample.
func (d *Device) weights(p *bert.Pass, s Store, site bert.Site, draw uint32, width int) store {
	return d.outputs(p, s, site, draw, batchRows{count: math.MaxInt}, width)
}

// put rounds c, the contiguous elements of a buffer from (row, col) on.
func (d *Device) put(s *store, c []float32, row, col int) {
	if s.Format == numerics.FP32 {
		return
	}
	r := numerics.Rounding{Format: s.Format, Stochastic: s.Stochastic, Stream: s.stream}
	if !s.Stochastic {
		d.round(c, r, 0)
		return
	}
	for len(c) > 0 {
		var pos, n int
		if s.apart() {
			r.Stream.Sample, pos, n = s.find(row, col, len(c))
		} else {
			r.Stream.Sample, pos, n = s.from(row, col, len(c))
		}
		d.round(c[:n], r, pos)
		c, row, col = c[n:], s.next(row, col, n), 0
	}
}

// round rounds in place and handles overflow.
func (d *Device) round(c []float32, r numerics.Rounding, pos int) {
	if r.Format != numerics.FP16 || d.policy.Overflow == numerics.Inf {
		kernels.Round(c, c, r, pos)
	} else if !kernels.RoundFinite(c, c, r, pos) {
		d.saturate(c)
	}
}

// putRows rounds rows r0 to r1 of a buffer.
func (d *Device) putRows(s *store, x []float32, r0, r1 int) {
	d.put(s, x[r0*s.width:r1*s.width], r0, 0)
}

// saturate clips infinities or makes them NaN, as the policy says, and counts them and NaNs.
func (d *Device) saturate(c []float32) {
	n, invalid := int64(0), int64(0)
	for i, v := range c {
		if v != v {
			invalid++
		}
		if math.IsInf(float64(v), 0) {
			n++
			if d.policy.Overflow == numerics.Clip {
				c[i] = float32(math.Copysign(float64(numerics.FP16.Max()), float64(v)))
			} else {
				c[i] = float32(math.NaN())
			}
		}
	}
	d.overflows.Add(n)
	d.invalid.Add(invalid)
}

// partials says how the product whose result is stored with a draw stores its partial sums.
func (d *Device) partials(p *bert.Pass, site bert.Site, draw, head uint32, sample int) kernels.Partials {
	c := &d.policy.Partials
	if c.Chunk == 0 {
		return kernels.Partials{}
	}
	r := numerics.Rounding{Format: c.Store.Format, Stochastic: c.Store.Stochastic, Overflow: d.policy.Overflow}
	if r.Stochastic {
		r.Stream = d.stream(p, random.Rounding)
		r.Stream.Step, r.Stream.Sample, r.Stream.Site = p.Step, uint32(sample), site.Stream(drawPartials+draw, head)
	}
	return kernels.Partials{Chunk: c.Chunk, Rounding: r}
}

// keep returns the place of a dropout mask, and false where nothing is dropped.
func (d *Device) keep(p *bert.Pass, probability float64, site bert.Site, r batchRows, width int) (place, bool) {
	if !p.Train || probability == 0 {
		return place{}, false
	}
	return d.place(p, random.Dropout, site, 0, r, width), true
}

// drop applies dropout to x, the contiguous elements of a buffer from (row, col) on.
func (l *place) drop(x []float32, probability float64, row, col int) {
	stream := l.stream
	for len(x) > 0 {
		var pos, n int
		if l.apart() {
			stream.Sample, pos, n = l.find(row, col, len(x))
		} else {
			stream.Sample, pos, n = l.from(row, col, len(x))
		}
		kernels.Dropout(x[:n], x[:n], float32(probability), stream, pos)
		x, row, col = x[n:], l.next(row, col, n), 0
	}
}

// dropRows applies dropout to rows r0 to r1 of a buffer.
func (l *place) dropRows(x []float32, probability float64, r0, r1 int) {
	l.drop(x[r0*l.width:r1*l.width], probability, r0, 0)
}

// blockRows is the number of rows in a block. Sums over rows are computed block by block, so where they split
// depends only on the shape.
const blockRows = kernels.GradRows

// blocks calls body for every block of rows, in parallel.
func blocks(rows int, body func(block, r0, r1 int)) {
	kernels.Parallel((rows+blockRows-1)/blockRows, func(b0, b1 int) {
		for b := b0; b < b1; b++ {
			body(b, b*blockRows, min(rows, (b+1)*blockRows))
		}
	})
}

// sumBlocks sets y to the sum of the rows of x, of which there is one for each block.
func sumBlocks(y, x []float32, rows, ldx int) {
	clear(y)
	kernels.ColumnSums(y, x, (rows+blockRows-1)/blockRows, ldx)
}

// scratch is memory that one operator, or one of its workers, uses while it runs.
type scratch struct {
	floats []float32
	tokens []int32
	gemm   kernels.Gemm
}

// take returns n floats with arbitrary values.
func (s *scratch) take(n int) []float32 {
	if cap(s.floats) < n {
		s.floats = make([]float32, n)
	}
	return s.floats[:n]
}

// scratchPool keeps scratch memory, so that steps do not allocate. A sync.Pool would lose it at garbage collections.
type scratchPool struct {
	mu   sync.Mutex
	free []*scratch
}

func (p *scratchPool) get() *scratch {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		s := p.free[n-1]
		p.free = p.free[:n-1]
		return s
	}
	return new(scratch)
}

func (p *scratchPool) put(s *scratch) {
	s.gemm = kernels.Gemm{}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, s)
}
