package costmodel

import (
	"math"
	"slices"
)

// format is what numbers take in a precision.
type format struct {
	bytes       float64 // of an activation
	weightBytes float64 // of a weight that matrix products read
	masters     float64 // of a parameter in FP32, besides the weight
	tensorCores bool    // multiply in it
	narrow      *narrow // of the operands of linear operators in layers; nil: as all others
}

// narrow is how a policy quantises operands.
type narrow struct {
	rate  string  // whose peak their products have, of Chip.Flops
	bytes float64 // of an element, with its share of a block's scale
	// largest: the largest magnitude of the tensor is searched before it can be cast. Delayed scales are there already,
	// and those of blocks are found on the way.
	largest bool
}

// formats by precision, and by the policies that come with the program. Those store what BF16 stores.
var formats = map[string]format{
	"fp16":        {2, 2, 4, true, nil},
	"bf16":        {2, 2, 4, true, nil},
	"tf32":        {4, 4, 0, true, nil},
	"fp32":        {4, 4, 0, false, nil},
	"fp8":         {2, 2, 4, true, &narrow{"fp8", 1, false}},
	"fp8-current": {2, 2, 4, true, &narrow{"fp8", 1, true}},
	"mxfp8":       {2, 2, 4, true, &narrow{"mxfp8", 1 + 1./32, false}},
	"mxfp6":       {2, 2, 4, true, &narrow{"mxfp6", 6./8 + 1./32, false}},
	"mxfp4":       {2, 2, 4, true, &narrow{"mxfp4", 4./8 + 1./32, false}},
	"nvfp4":       {2, 2, 4, true, &narrow{"nvfp4", 4./8 + 1./16, true}},
}

// Policies are those that come with the program and that the model knows, sorted.
func Policies() []string {
	var names []string
	for name, f := range formats {
		if f.narrow != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Quantises reports whether a precision is one of Policies.
func Quantises(precision string) bool { return formats[precision].narrow != nil }

// base is the precision that a policy stores, and multiplies where it quantises nothing.
func base(name string) string {
	if formats[name].narrow != nil {
		return "bf16"
	}
	return name
}

// cost is time on the device by what bounds it, and the number of kernels.
type cost struct {
	compute float64 // bound by arithmetic
	memory  float64 // bound by the memory
	kernels float64
}

func (c cost) seconds() float64 { return c.compute + c.memory }

func (c cost) plus(d cost) cost {
	return cost{c.compute + d.compute, c.memory + d.memory, c.kernels + d.kernels}
}

func (c cost) times(f float64) cost { return cost{c.compute * f, c.memory * f, c.kernels * f} }

// tiles are the blocks of C that cuBLAS computes on a multiprocessor, largest first.
var tiles = []struct{ rows, columns int }{{256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 128}, {64, 64}, {64, 32}, {32, 32}}

// innerBlock is the unit of the inner dimension of a tile; the last block is computed in full.
const innerBlock = 32

// sharedBytesPerCycle is what the shared memory of a multiprocessor reads or writes. Source: NVIDIA, Tesla V100 GPU
// Architecture, 2017: 128 bytes a clock.
const sharedBytesPerCycle = 128

// operand is what a product reads: bytes of an element, and the peak rate of the units that multiply it.
type operand struct{ bytes, flops float64 }

// stored is an operand as it is stored.
func (m *model) stored() operand { return operand{m.format.bytes, m.flops} }

// multiply prices groups matrix products C[m, n] = A[m, k]·B[k, n] in one kernel. The multiprocessors take blocks of
// C in waves; the last wave takes as long as the others, however few blocks it has. A block takes as long as its
// arithmetic or as loading its operands from the cache, whichever is longer, and the kernel at least as long as
// moving operands and results to and from memory. Without asynchronous copies the warps that compute also load the
// operands and store them in shared memory: a block then fills a multiprocessor, and the tensor cores wait
// meanwhile. The blocks of a wave write their results together, while none computes. When C has fewer blocks than
// there are multiprocessors, the inner dimension is split as well.
func (m *model) multiply(o operand, groups, rows, inner, columns int) cost {
	c := &m.system.Chip
	flopsPerSM := o.flops / float64(c.Multiprocessors)
	if m.format.tensorCores {
		flopsPerSM *= m.constants.MatmulEfficiency
	}
	cachePerSM := c.L2BytesPerSecond / float64(c.Multiprocessors)
	best := math.Inf(1)
	for _, t := range tiles {
		blocks := groups * ceil(rows, t.rows) * ceil(columns, t.columns)
		splits := max(1, min(c.Multiprocessors/blocks, inner/(8*innerBlock)))
		k := float64(ceil(ceil(inner, splits), innerBlock) * innerBlock)
		waves := float64(ceil(blocks*splits, c.Multiprocessors))
		arithmetic := 2 * float64(t.rows) * float64(t.columns) * k / flopsPerSM
		block := float64(t.rows+t.columns) * k * o.bytes
		if !c.AsynchronousCopies {
			arithmetic += 2 * block / (sharedBytesPerCycle * c.ClockHz)
		}
		operands := block / cachePerSM
		results := float64(t.rows*t.columns) * m.format.bytes * float64(c.Multiprocessors) / m.memoryBytesPerSecond
		best = min(best, waves*(max(arithmetic, operands)+results))
	}
	g := float64(groups)
	bytes := g*(float64(rows)*float64(inner)+float64(inner)*float64(columns))*o.bytes + g*float64(rows)*float64(columns)*m.format.bytes
	if t := bytes / m.memoryBytesPerSecond; t > best {
		return cost{memory: t, kernels: 1}
	}
	return cost{compute: best, kernels: 1}
}

// passes prices kernels by the elements that they read and write: each takes the time of its bytes and of its
// instructions.
func (m *model) passes(elements, moved, kernels float64) cost {
	n := elements * moved
	c := &m.system.Chip
	perSecond := m.constants.ElementsPerCycle * float64(c.Multiprocessors) * c.ClockHz
	return cost{memory: n*m.format.bytes/m.memoryBytesPerSecond + n/perSecond, kernels: kernels}
}

// quantise prices the casts of an operand: from one reading, for a product along its rows and for one along its columns,
// since tensor cores want the inner dimension of narrow operands in a row (CUTLASS and cuBLAS: "TN" alone on Hopper).
func (m *model) quantise(rows, columns int) cost {
	n, elements := m.format.narrow, float64(rows)*float64(columns)
	c := m.passes(elements, 1+2*n.bytes/m.format.bytes, 1)
	if n.largest {
		c = c.plus(m.passes(elements, 1, 1))
	}
	return c
}

func ceil(a, b int) int { return (a + b - 1) / b }
