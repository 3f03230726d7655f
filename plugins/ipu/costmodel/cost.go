package costmodel

// cost is work of all tiles at once, in cycles of the slowest one, and the supersteps that it takes: each ends with a
// synchronisation.
type cost struct {
	compute, exchange, supersteps float64
}

func (c cost) plus(d cost) cost {
	return cost{c.compute + d.compute, c.exchange + d.exchange, c.supersteps + d.supersteps}
}

func (c cost) times(f float64) cost {
	return cost{c.compute * f, c.exchange * f, c.supersteps * f}
}

// cycles is the time of work that nothing overlaps.
func (m *model) cycles(c cost) float64 {
	return c.compute + c.exchange + c.supersteps*superstepCycles
}

// superstepCycles is the cost of a superstep besides its work: synchronisation, the start of an exchange, and tiles
// waiting for the slowest. It is an assumption, 0.3 microseconds: nothing is published, and the published rows
// cannot tell it apart from vectorCycles.
const superstepCycles = 500

// multiply is the cost of a product.
func (m *model) multiply(groups, rows, inner, columns int) cost {
	p := m.planProduct(product{groups, rows, inner, columns})
	m.temporaries = max(m.temporaries, p.tileBytes)
	return p.cost
}

// vector is the cost of passes over elements that are spread evenly over the tiles; each pass reads and writes an
// element in place.
func (m *model) vector(elements, passes float64) cost {
	return cost{compute: elements * passes * m.vectorCycles / float64(m.chip.Tiles), supersteps: passes / passesPerSuperstep}
}

// move is the cost of laying elements out anew.
func (m *model) move(elements float64) cost {
	return cost{exchange: elements * m.format.bytes / m.exchangeBytesPerSecond * m.chip.ClockHz, supersteps: 1}
}

// Passes over elements, counted in the codelets of poplibs: one pass reads and writes an element once.
const (
	biasPasses        = 1
	residualPasses    = 1
	dropoutPasses     = 2 // random bits, product
	geluPasses        = 3 // tanh, and the polynomials around it
	geluGradPasses    = 4
	normPasses        = 5 // mean, variance, centre, scale, shift
	normGradPasses    = 8
	softmaxPasses     = 5 // greatest, difference, exponential, sum, product
	softmaxGradPasses = 4
	scorePasses       = 2 // scale, mask
	scoreGradPasses   = 1
	accumulatePasses  = 1
	packedMaskPasses  = 1 // which scores lie within one sequence

	passesPerSuperstep = 2 // codelets of poplibs fuse neighbours
)

// both is forward and backward of an operator.
type both struct{ forward, backward cost }

func (b both) plus(c both) both { return both{b.forward.plus(c.forward), b.backward.plus(c.backward)} }

// linear is y = x·Wᵀ + bias. Backward makes the gradients of x and of W, adds the latter to the sum over
// micro-batches, and sums the bias's.
func (m *model) linear(rows, in, out int) both {
	outs, weights := float64(rows)*float64(out), float64(in)*float64(out)
	f := m.multiply(1, rows, in, out).plus(m.vector(outs, biasPasses))
	b := m.multiply(1, rows, out, in).plus(m.multiply(1, in, rows, out))
	b = b.plus(m.vector(weights, accumulatePasses)).plus(m.vector(outs, biasPasses))
	return both{f, b}
}

// pointwise is an operator on elements.
func (m *model) pointwise(elements, forward, backward float64) both {
	return both{m.vector(elements, forward), m.vector(elements, backward)}
}

// moved is a change of layout, undone in the backward pass.
func (m *model) moved(elements float64) both { return both{m.move(elements), m.move(elements)} }

// dropout is nothing at probability 0.
func (m *model) dropout(elements, p float64) both {
	if p == 0 {
		return both{}
	}
	return m.pointwise(elements, dropoutPasses, dropoutPasses)
}
