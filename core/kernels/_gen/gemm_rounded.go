package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// gemmRounded writes the micro-kernels whose sums are rounded to FP16 after every chunk products. They stay in their
// registers meanwhile.
func gemmRounded(wide bool) func(c *build.Context) {
	panels := []int{6, 4, 2, 1}
	if wide {
		panels = []int{12, 8, 4, 2, 1}
	}
	return func(c *build.Context) {
		e := newVector(c, wide)
		for _, rows := range panels {
			for _, columns := range []bool{false, true} {
				e.roundedKernel(rows, columns)
			}
		}
	}
}

const (
	chunk    = 16
	gridStep = 0x9e3779b9 // see core/random
)

// rounded is a micro-kernel whose sums are rounded. What changes from panel to panel, or from chunk to chunk, is in
// memory.
type rounded struct {
	*micro
	noise struct{ row, time, strip, column, over, stochastic operand.Mem } // the parameters' copies

	row, time   operand.Mem // of the panel, of the chunk
	mixed, keys operand.Mem // of the panel's rows, of the rows and the chunk

	column    [vectors]operand.Mem // the columns' numbers (AVX2; in AVX-512 there is one vector, in a register)
	shift     operand.Mem          // AVX2: where the strip's bits begin
	numbers   vec                  // AVX-512: of the columns
	least     vec                  // AVX-512: 2^-14
	truncated vec                  // AVX-512: the bits that FP16 has

	// A kernel with skewed panels has no register to spare: the columns' numbers are in memory, and so are, while it
	// multiplies, other registers. It keeps the factors of the chunk before.
	skew      bool
	columnsAt operand.Mem
	before    operand.Mem
	saved     [4]operand.Mem
	plain     operand.Mem // not 0: the panel is computed again, without skew
}

// roundedKernel writes one.
func (c *vector) roundedKernel(rows int, columns bool) {
	m := &rounded{micro: &micro{vector: c, rows: rows, columns: columns}, skew: c.wide && rows == 12}
	m.declare("Rounded", "noise *uint32, ",
		"Sums begin with c or 0 and are rounded to FP16 after every 16 products and after the last.")
	m.parameters()
	m.copyNoise()
	for i := range rows {
		for v := range vectors {
			m.sums[i][v] = c.reg()
		}
	}
	if c.wide {
		m.truncated = m.fill(m.bits(^uint32(lowMask)))
	}
	if c.wide && !m.skew {
		m.least, m.numbers = m.fill(m.bits(halfNormal)), m.reg()
	}
	a, cc, t := c.GP64().(reg.GPVirtual), c.GP64().(reg.GPVirtual), c.GP64()
	c.Label("strip")
	m.columnNumbers()
	c.MOVQ(m.panels, t)
	c.MOVQ(t, m.left)
	c.MOVQ(m.begin, a)
	c.MOVQ(m.corner, cc)
	c.MOVL(m.noise.row, t.As32())
	c.MOVL(t.As32(), m.row)
	c.Label("panel")
	m.panel(a, cc)
	m.store(cc, false)
	if columns {
		c.ADDQ(operand.I32(4*rows), a)
	} else {
		step := c.GP64()
		c.IMUL3Q(operand.I32(rows), m.lda, step)
		c.ADDQ(step, a)
	}
	c.ADDL(operand.U8(rows), m.row)
	c.DECQ(m.left)
	c.JNZ(operand.LabelRef("panel"))
	c.ADDQ(operand.I32(vectors*c.bytes()), m.corner)
	c.ADDL(operand.U8(c.lanes()/8), m.noise.strip)
	c.MOVQ(address(c.Param("next")), t)
	c.SHLQ(operand.U8(2), t)
	c.ADDQ(t, m.strip)
	c.DECQ(m.strips)
	c.JNZ(operand.LabelRef("strip"))
	c.VZEROUPPER()
	c.RET()
	c.Label("apart")
	c.ADDQ(m.apart, m.line)
	c.JMP(operand.LabelRef("near"))
	if m.skew {
		c.Label("again")
		c.MOVB(operand.U8(1), m.plain)
		c.JMP(operand.LabelRef("start"))
	}
}

// copyNoise copies the parameters of rounding, which are six numbers of 32 bits.
func (m *rounded) copyNoise() {
	p, t := m.Load(m.Param("noise"), m.GP64()), m.GP32()
	for i, to := range []*operand.Mem{&m.noise.row, &m.noise.time, &m.noise.strip, &m.noise.column, &m.noise.over, &m.noise.stochastic} {
		*to = m.AllocLocal(8)
		m.MOVL(operand.Mem{Base: p, Disp: 4 * i}, t)
		m.MOVL(t, *to)
	}
	m.row, m.time = m.AllocLocal(8), m.AllocLocal(8)
	m.mixed, m.keys = m.AllocLocal(m.bytes()), m.AllocLocal(m.bytes())
	if m.skew {
		m.columnsAt, m.before, m.plain = m.AllocLocal(m.bytes()), m.AllocLocal(m.bytes()), m.AllocLocal(8)
		for i := range m.saved {
			m.saved[i] = m.AllocLocal(8)
		}
		m.MOVB(operand.U8(0), m.plain)
	}
	if !m.wide {
		m.shift = m.AllocLocal(16)
		for v := range m.column {
			m.column[v] = m.AllocLocal(m.bytes())
		}
	}
}

// iota is 0, 1, 2 and so on.
func (e *vector) iota() operand.Mem {
	const key = 0x7fa00020 // no float32 that a kernel uses
	table, ok := e.consts[key]
	if !ok {
		table = e.StaticGlobal("iota")
		e.DataAttributes(attr.RODATA | attr.NOPTR)
		for i := range 16 {
			e.AddDatum(4*i, operand.U32(i))
		}
		e.consts[key] = table
	}
	return table
}

// mix changes x as random.Mix does.
func (e *vector) mix(x vec) {
	t := e.reg()
	for i, shift := range []uint64{16, 15, 16} {
		e.VPSRLD(operand.U8(shift), x, t)
		if e.wide {
			e.VPXORD(x, t, x)
		} else {
			e.VPXOR(x, t, x)
		}
		if i < 2 {
			e.into(e.VPMULLD, e.VPMULLD_BCST, x, e.bits([]uint32{0x7feb352d, 0x846ca68b}[i]), x)
		}
	}
}

// odd sets the last bit of x.
func (e *vector) odd(x vec) {
	if e.wide {
		e.VPORD_BCST(e.bits(1).Mem, x, x)
	} else {
		e.VPOR(e.bits(1).Mem, x, x)
	}
}

// columnNumbers sets the numbers of the strip's columns, whose bits are in words of 16 for 32 columns.
func (m *rounded) columnNumbers() {
	first := m.GP32()
	m.MOVL(m.noise.strip, first)
	if !m.wide { // 16 columns have one half of a word
		shift := m.GP32()
		m.MOVL(first, shift)
		m.ANDL(operand.U8(1), shift)
		m.IMUL3L(operand.U8(13), shift, shift)
		m.ADDL(operand.U8(6), shift)
		m.MOVQ(shift.As64(), m.shift)
		m.ANDL(operand.I8(-2), first)
	}
	m.SHLL(operand.U8(3), first)
	m.ADDL(m.noise.column, first)
	at := m.AllocLocal(8)
	m.MOVL(first, at)
	for v := range vectors {
		x := m.reg()
		m.VPBROADCASTD(at, x)
		table := m.iota()
		table.Disp += v * 4 * m.lanes()
		m.VPADDD(table, x, x)
		m.mix(x)
		m.odd(x)
		if m.skew {
			m.VMOVUPS(x, m.columnsAt)
			return
		}
		if m.wide {
			m.VMOVDQA32(x, m.numbers)
			return
		}
		m.VMOVDQU(x, m.column[v])
	}
}

// panel computes the sums of one panel of A, which begins at a, and of the panel of C at cc.
func (m *rounded) panel(a, cc reg.GPVirtual) {
	b, k := m.GP64().(reg.GPVirtual), m.GP64().(reg.GPVirtual)
	m.Label("start")
	m.MOVQ(m.strip, b)
	m.begins(cc)
	m.pointers(a)
	m.rowBase()
	m.MOVQ(m.kc, k)
	if m.skew {
		m.whole(a, cc, b, k)
	}
	m.Label("chunk")
	m.rowKeys()
	m.SUBQ(operand.U8(chunk), k)
	m.JLT(operand.LabelRef("rest"))
	for range chunk / unroll {
		m.products(b, unroll)
	}
	m.TESTB(operand.U8(63), k.As8()) // after 1 KB of lines, see gemm_ahead.go, comes the next piece
	m.JEQ(operand.LabelRef("apart"))
	m.Label("near")
	m.JMP(operand.LabelRef("round"))
	m.Label("rest")
	m.ADDQ(operand.U8(chunk), k)
	m.Label("single")
	m.products(b, 1)
	m.DECQ(k)
	m.JNZ(operand.LabelRef("single"))
	m.Label("round")
	m.round()
	m.TESTQ(k, k)
	m.JG(operand.LabelRef("chunk"))
	if m.skew {
		m.Label("done")
		m.MOVB(operand.U8(0), m.plain)
	}
}

// whole computes the whole chunks of a panel, if there are any, skewed, unless sums are rounded to nearest, which takes
// no longer than the multiplications that it waits for, or the panel is computed again.
func (m *rounded) whole(a, cc, b, k reg.GPVirtual) {
	m.CMPB(m.noise.stochastic, operand.U8(0))
	m.JEQ(operand.LabelRef("chunk"))
	m.CMPB(m.plain, operand.U8(0))
	m.JNE(operand.LabelRef("chunk"))
	m.CMPQ(k, operand.U8(chunk))
	m.JLT(operand.LabelRef("chunk"))
	saved := [4]reg.GPVirtual{a, cc, m.ldc, m.apart}
	for i, p := range saved {
		m.MOVQ(p, m.saved[i])
	}
	large := m.skewed(b, k)
	for i, p := range saved {
		m.MOVQ(m.saved[i], p)
	}
	m.KORTESTW(large, large)
	m.JNZ(operand.LabelRef("again"))
	m.TESTQ(k, k)
	m.JZ(operand.LabelRef("done"))
}

// begins sets the sums to C or to 0.
func (m *rounded) begins(cc reg.Register) {
	row := m.GP64()
	m.CMPB(m.add, operand.U8(0))
	m.JEQ(operand.LabelRef("zero"))
	m.MOVQ(cc, row)
	for i := range m.rows {
		for v := range vectors {
			at := operand.Mem{Base: row, Disp: m.bytes() * v}
			if m.wide {
				m.VMOVUPS_Z(at, m.masks[v], m.sums[i][v])
			} else {
				m.VMOVUPS(at, m.sums[i][v])
			}
		}
		if i+1 < m.rows {
			m.ADDQ(m.ldc, row)
		}
	}
	m.JMP(operand.LabelRef("begun"))
	m.Label("zero")
	m.MOVQ(cc, row)
	for i := range m.rows {
		for v := range vectors {
			m.clear(m.sums[i][v])
		}
		for d := 0; d < vectors*m.bytes(); d += 64 {
			m.PREFETCHT0(operand.Mem{Base: row, Disp: d})
		}
		if i+1 < m.rows {
			m.ADDQ(m.ldc, row)
		}
	}
	m.Label("begun")
}

// rowBase begins the time and mixes the numbers of the panel's rows.
func (m *rounded) rowBase() {
	t, x := m.GP32(), m.reg()
	m.MOVL(m.noise.time, t)
	m.MOVL(t, m.time)
	m.VPBROADCASTD(m.row, x)
	m.VPADDD(m.iota(), x, x)
	m.mix(x)
	m.VMOVUPS(x, m.mixed)
}

// rowKeys sets the rows' factors for the chunk that begins.
func (m *rounded) rowKeys() {
	x := m.reg()
	m.VPBROADCASTD(m.time, x)
	m.VPADDD(m.mixed, x, x)
	m.mix(x)
	m.odd(x)
	m.VMOVUPS(x, m.keys)
	m.ADDL(operand.U32(gridStep), m.time)
}

// key is the factor of a row.
func (m *rounded) key(i int) operand.Mem {
	at := m.keys
	at.Disp += 4 * i
	return at
}
