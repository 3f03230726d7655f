package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// gemmAVX512 writes the micro-kernels for strips of 32 columns: 12 rows by two vectors keep 24 of the 32 registers
// as sums, which hides the latency of the multiply-add (4 cycles, 2 a cycle) and takes 20 or 22 loads for 24 of
// them. Kernels with fewer rows serve the last panel.
func gemmAVX512(c *build.Context) {
	for _, rows := range []int{12, 8, 4, 2, 1} {
		for _, columns := range []bool{false, true} {
			newVector(c, true).microKernel(rows, columns)
		}
	}
	for _, width := range []int{32, 48} {
		copyPanelAVX512(c, width)
		copyPanelsAVX512(c, width)
	}
	transposeAVX512(c)
	newVector(c, true).peak(24)
}

// gemmAVX2 is the same for 16 registers: 6 rows by two vectors. An incomplete strip goes through a buffer, so there
// are no masks.
func gemmAVX2(c *build.Context) {
	for _, rows := range []int{6, 4, 2, 1} {
		for _, columns := range []bool{false, true} {
			newVector(c, false).microKernel(rows, columns)
		}
	}
	newVector(c, false).peak(12)
}

// vectors is the number of vectors in a row of a strip of B, unroll the number of products along K in one iteration.
const vectors, unroll = 2, 8

// micro is a micro-kernel while it is written: the products of a number of rows of A with strips of B, either
// packed or in place.
type micro struct {
	*vector
	rows    int
	columns bool // A is read down its columns, from one pointer, else along its rows

	// What is read once for a panel stays in memory: there are just enough registers for the pointers of the loop.
	panels, strips, kc, begin, strip, corner, add, left operand.Mem

	lda, ldb, ldc, apart reg.GPVirtual
	line                 reg.Register // to prefetch next
	masks                [vectors]reg.OpmaskVirtual
	sums                 [12][vectors]reg.VecVirtual
	base                 []reg.GPVirtual // pointers to rows of A, one for so many rows together
	together             int
}

// microKernel writes a micro-kernel.
func (c *vector) microKernel(rows int, columns bool) {
	m := &micro{vector: c, rows: rows, columns: columns}
	m.declare("", "", "")
	m.parameters()
	for i := range rows {
		for v := range vectors {
			m.sums[i][v] = c.reg()
		}
	}
	a, cc, t := c.GP64(), c.GP64(), c.GP64()
	c.Label("strip")
	c.MOVQ(m.panels, t)
	c.MOVQ(t, m.left)
	c.MOVQ(m.begin, a)
	c.MOVQ(m.corner, cc)
	c.Label("panel")
	m.panel(a, cc)
	c.CMPB(m.add, operand.U8(0))
	c.JEQ(operand.LabelRef("replace"))
	m.store(cc, true)
	c.JMP(operand.LabelRef("next"))
	c.Label("replace")
	m.store(cc, false)
	c.Label("next")
	if columns {
		c.ADDQ(operand.I32(4*rows), a)
	} else {
		step := c.GP64()
		c.IMUL3Q(operand.I32(rows), m.lda, step)
		c.ADDQ(step, a)
	}
	c.DECQ(m.left)
	c.JNZ(operand.LabelRef("panel"))
	c.ADDQ(operand.I32(vectors*c.bytes()), m.corner)
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
}

// declare writes the kernel's name, parameters and description; a kind of kernel may have more of each.
func (m *micro) declare(kind, more, doc string) {
	name, element, next := "Rows", "a[i·lda + k]", fmt.Sprintf("a[%d·lda]", m.rows)
	if m.columns {
		name, element, next = "Panel", "a[k·lda + i]", fmt.Sprintf("a[%d]", m.rows)
	}
	width := vectors * m.lanes()
	mask, which := "", fmt.Sprintf("j < %d", width)
	if m.wide {
		mask, which = "mask uint32, ", "the columns j whose bit is set in mask"
	}
	signature := "func(panels, strips, kc int, a *float32, lda int, b *float32, ldb, next int, c *float32, ldc int, " +
		"ahead uintptr, apart int, " + mask + more + "add bool)"
	if doc != "" {
		doc += "\n"
	}
	m.vector.begin(fmt.Sprintf("gemm%s%s%d", kind, name, m.rows), signature,
		fmt.Sprintf("computes c[i·ldc + j] (+)= Σ_k %s·b[k·ldb + j] for i < %d, k < kc and %s,\n", element, m.rows, which)+
			fmt.Sprintf("for each of panels blocks of %d rows, of which the next one begins at %s and c[%d·ldc], and that\n", m.rows, next, m.rows)+
			fmt.Sprintf("for each of strips, of which the next one begins at b[next] and c[%d].\n", width)+
			doc+"Meanwhile two lines of 64 bytes are prefetched for every eight products: 1 KB from ahead on, one from ahead + 4·apart, and so on.")
}

// parameters finds the parameters, and loads those that the loop needs. Distances become bytes.
func (m *micro) parameters() {
	of := func(name string) operand.Mem { return address(m.Param(name)) }
	m.panels, m.strips, m.kc = of("panels"), of("strips"), of("kc")
	m.begin, m.strip, m.corner, m.add = of("a"), of("b"), of("c"), of("add")
	m.left = m.AllocLocal(8) // panels
	m.lda = m.Load(m.Param("lda"), m.GP64()).(reg.GPVirtual)
	m.SHLQ(operand.U8(2), m.lda)
	m.ldb = m.Load(m.Param("ldb"), m.GP64()).(reg.GPVirtual)
	m.SHLQ(operand.U8(2), m.ldb)
	m.apart = m.Load(m.Param("apart"), m.GP64()).(reg.GPVirtual)
	m.SHLQ(operand.U8(2), m.apart)
	m.SUBQ(operand.U32(1024), m.apart)
	m.line = m.Load(m.Param("ahead"), m.GP64())
	m.ldc = m.Load(m.Param("ldc"), m.GP64()).(reg.GPVirtual)
	m.masks = [vectors]reg.OpmaskVirtual{m.K(), m.K()}
	if m.wide {
		mask := m.Load(m.Param("mask"), m.GP32()).(reg.GPVirtual)
		m.KMOVW(mask, m.masks[0])
		m.SHRL(operand.U8(16), mask)
		m.KMOVW(mask, m.masks[1])
	}
	m.SHLQ(operand.U8(2), m.ldc)
}

// panel computes the sums of one panel of A, which begins at a, and prefetches the panel of C at cc.
func (m *micro) panel(a, cc reg.Register) {
	b, k, row := m.GP64(), m.GP64().(reg.GPVirtual), m.GP64()
	m.MOVQ(m.strip, b)
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
	m.pointers(a)
	m.MOVQ(m.kc, k)
	m.SUBQ(operand.U8(unroll), k)
	m.JLT(operand.LabelRef("rest"))
	m.Label("unrolled")
	m.products(b, unroll)
	m.TESTB(operand.U8(63), k.As8()) // after eight times 128 bytes, see gemm_ahead.go, comes the next piece
	m.JEQ(operand.LabelRef("apart"))
	m.Label("near")
	m.SUBQ(operand.U8(unroll), k)
	m.JGE(operand.LabelRef("unrolled"))
	m.Label("rest")
	m.ADDQ(operand.U8(unroll), k)
	m.JZ(operand.LabelRef("done"))
	m.Label("single")
	m.products(b, 1)
	m.DECQ(k)
	m.JNZ(operand.LabelRef("single"))
	m.Label("done")
}

// pointers sets the pointers to a panel of A: one for a column, one for every two rows (AVX2: three), which are
// reached by adding once or twice lda.
func (m *micro) pointers(a reg.Register) {
	m.together = 3
	switch {
	case m.columns:
		m.together = m.rows
	case m.wide:
		m.together = 2
	}
	m.base = nil
	for i := 0; i < m.rows; i += m.together {
		p := m.GP64()
		if i == 0 {
			m.MOVQ(a, p)
		} else {
			m.LEAQ(operand.Mem{Base: m.base[len(m.base)-1], Index: m.lda, Scale: 2}, p)
			if m.together == 3 {
				m.ADDQ(m.lda, p)
			}
		}
		m.base = append(m.base, p)
	}
}

// element is a(i, k).
func (m *micro) element(i, k int) operand.Mem {
	if m.columns {
		return operand.Mem{Base: m.base[0], Disp: 4 * i}
	}
	at := operand.Mem{Base: m.base[i/m.together], Disp: 4 * k}
	if i%m.together > 0 {
		at.Index, at.Scale = m.lda, uint8(i%m.together)
	}
	return at
}

// broadcasts says whether a row's multiply-adds broadcast an operand from memory, as AVX-512 can, which saves an
// instruction for one more load. Where the other thread of the core is busy, instructions are the limit; the load
// ports can take two rows in three. With an index register it would be two instructions again.
func (m *micro) broadcasts(i int) bool {
	if m.columns {
		return m.wide && m.rows >= 8 && i%3 != 1
	}
	return m.wide && m.rows >= 8 && i%2 == 0
}

// products adds so many products along K to the sums, and advances the pointers. Strips come from the second level
// cache where others use the first one too, or where their rows lie far apart in place; so do columns of A.
// Prefetching them eight products ahead is early enough.
func (m *micro) products(b reg.Register, count int) {
	prefetches := m.wide && m.rows >= 8
	for k := range count {
		b0, b1 := m.reg(), m.reg()
		for v, x := range []reg.VecVirtual{b0, b1} {
			m.VMOVUPS(operand.Mem{Base: b, Disp: v * m.bytes()}, x)
			if prefetches {
				m.PREFETCHT0(operand.Mem{Base: b, Index: m.ldb, Scale: 8, Disp: v * m.bytes()})
			}
		}
		m.ADDQ(m.ldb, b)
		switch k % 8 {
		case 3:
			m.PREFETCHT1(operand.Mem{Base: m.line})
		case 7:
			m.PREFETCHT1(operand.Mem{Base: m.line, Disp: 64})
			m.SUBQ(operand.I8(-128), m.line)
		}
		for i := range m.rows {
			if m.broadcasts(i) {
				m.VFMADD231PS_BCST(m.element(i, k), b0, m.sums[i][0])
				m.VFMADD231PS_BCST(m.element(i, k), b1, m.sums[i][1])
				continue
			}
			x := m.reg()
			m.VBROADCASTSS(m.element(i, k), x)
			m.VFMADD231PS(b0, x, m.sums[i][0])
			m.VFMADD231PS(b1, x, m.sums[i][1])
		}
		if m.columns {
			if prefetches { // rows of a column lie on one line or two
				m.PREFETCHT0(operand.Mem{Base: m.base[0], Index: m.lda, Scale: 8})
				m.PREFETCHT0(operand.Mem{Base: m.base[0], Index: m.lda, Scale: 8, Disp: 4 * (m.rows - 1)})
			}
			m.ADDQ(m.lda, m.base[0])
		}
	}
	if !m.columns {
		for _, p := range m.base {
			m.ADDQ(operand.I32(4*count), p)
		}
	}
}

// store writes the sums to the panel of C at cc, or adds them, and moves cc on to the next.
func (m *micro) store(cc reg.Register, adding bool) {
	for i := range m.rows {
		for v := range vectors {
			at := operand.Mem{Base: cc, Disp: m.bytes() * v}
			switch {
			case m.wide && adding:
				old := m.ZMM()
				m.VMOVUPS_Z(at, m.masks[v], old)
				m.VADDPS(old, m.sums[i][v], m.sums[i][v])
			case adding:
				m.VADDPS(at, m.sums[i][v], m.sums[i][v])
			}
			if m.wide {
				m.VMOVUPS(m.sums[i][v], m.masks[v], at)
			} else {
				m.VMOVUPS(m.sums[i][v], at)
			}
		}
		m.ADDQ(m.ldc, cc)
	}
}
