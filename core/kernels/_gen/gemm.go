package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// gemmAVX512 writes the micro-kernels for strips of 32 columns: 12 rows by two vectors keep 24 of the 32 registers as sums, which hides the latency of
// the multiply-add (4 cycles, 2 a cycle) and takes 20 or 22 loads for 24 of them. Fewer rows serve the last panel.
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

// gemmAVX2 is the same for 16 registers: 6 rows by two vectors. Strips that are cut go through a buffer, so there are no masks.
func gemmAVX2(c *build.Context) {
	for _, rows := range []int{6, 4, 2, 1} {
		for _, columns := range []bool{false, true} {
			newVector(c, false).microKernel(rows, columns)
		}
	}
	newVector(c, false).peak(12)
}

// microKernel writes the products of a number of rows of A with strips of B. Either is packed or in place.
func (c *vector) microKernel(rows int, columns bool) {
	const vectors, unroll = 2, 8
	width := c.lanes()
	name, element, next := "Rows", "a[i·lda + k]", fmt.Sprintf("a[%d·lda]", rows)
	if columns {
		name, element, next = "Panel", "a[k·lda + i]", fmt.Sprintf("a[%d]", rows)
	}
	name = fmt.Sprintf("gemm%s%d", name, rows)
	signature, which := "func(panels, strips, kc int, a *float32, lda int, b *float32, ldb, next int, c *float32, ldc int, ahead uintptr, apart int, add bool)", fmt.Sprintf("j < %d", vectors*width)
	if c.wide {
		signature, which = "func(panels, strips, kc int, a *float32, lda int, b *float32, ldb, next int, c *float32, ldc int, ahead uintptr, apart int, mask uint32, add bool)", "the columns j whose bit is set in mask"
	}
	c.begin(name, signature,
		fmt.Sprintf("computes c[i·ldc + j] (+)= Σ_k %s·b[k·ldb + j] for i < %d, k < kc and %s,\n", element, rows, which)+
			fmt.Sprintf("for each of panels blocks of %d rows, of which the next one begins at %s and c[%d·ldc], and that\nfor each of strips, of which the next one begins at b[next] and c[%d].\n", rows, next, rows, vectors*width)+
			"Meanwhile two lines of 64 bytes are prefetched for every eight products: 1 KB from ahead on, one from ahead + 4·apart, and so on.")

	// What is read once for a panel stays in memory: there are just enough registers for the pointers of the loop.
	panels, strips, kc := address(c.Param("panels")), address(c.Param("strips")), address(c.Param("kc"))
	begin, strip, corner, add := address(c.Param("a")), address(c.Param("b")), address(c.Param("c")), address(c.Param("add"))
	left := c.AllocLocal(8) // panels
	lda := c.Load(c.Param("lda"), c.GP64()).(reg.GPVirtual)
	c.SHLQ(operand.U8(2), lda)
	ldb := c.Load(c.Param("ldb"), c.GP64()).(reg.GPVirtual)
	c.SHLQ(operand.U8(2), ldb)
	apart := c.Load(c.Param("apart"), c.GP64()).(reg.GPVirtual)
	c.SHLQ(operand.U8(2), apart)
	c.SUBQ(operand.U32(1024), apart)
	line := c.Load(c.Param("ahead"), c.GP64())
	ldc := c.Load(c.Param("ldc"), c.GP64()).(reg.GPVirtual)
	masks := []reg.OpmaskVirtual{c.K(), c.K()}
	if c.wide {
		mask := c.Load(c.Param("mask"), c.GP32()).(reg.GPVirtual)
		c.KMOVW(mask, masks[0])
		c.SHRL(operand.U8(16), mask)
		c.KMOVW(mask, masks[1])
	}
	c.SHLQ(operand.U8(2), ldc)

	var sums [12][vectors]reg.VecVirtual
	for i := range rows {
		for v := range vectors {
			sums[i][v] = c.reg()
		}
	}
	a, cc, t := c.GP64(), c.GP64(), c.GP64()
	c.Label("strip")
	c.MOVQ(panels, t)
	c.MOVQ(t, left)
	c.MOVQ(begin, a)
	c.MOVQ(corner, cc)
	c.Label("panel")
	b, k, row := c.GP64(), c.GP64().(reg.GPVirtual), c.GP64()
	c.MOVQ(strip, b)
	c.MOVQ(cc, row)
	for i := range rows {
		for v := range vectors {
			c.clear(sums[i][v])
		}
		for d := 0; d < vectors*c.bytes(); d += 64 {
			c.PREFETCHT0(operand.Mem{Base: row, Disp: d})
		}
		if i+1 < rows {
			c.ADDQ(ldc, row)
		}
	}
	// A column is reached from one pointer, rows from one for two rows (AVX2: three), plus once and twice lda.
	together := 3
	switch {
	case columns:
		together = rows
	case c.wide:
		together = 2
	}
	var base []reg.GPVirtual
	for i := 0; i < rows; i += together {
		p := c.GP64()
		if i == 0 {
			c.MOVQ(a, p)
		} else {
			c.LEAQ(operand.Mem{Base: base[len(base)-1], Index: lda, Scale: 2}, p)
			if together == 3 {
				c.ADDQ(lda, p)
			}
		}
		base = append(base, p)
	}
	element1 := func(i, k int) operand.Mem {
		if columns {
			return operand.Mem{Base: base[0], Disp: 4 * i}
		}
		m := operand.Mem{Base: base[i/together], Disp: 4 * k}
		if i%together > 0 {
			m.Index, m.Scale = lda, uint8(i%together)
		}
		return m
	}
	// AVX-512's multiply-adds broadcast an operand from memory, which leaves out an instruction for one more load. Where the other thread of the core is
	// busy, instructions are what is short; two rows in three are the most that the load ports bear. With an index it would be two instructions again.
	broadcasts := func(i int) bool {
		if columns {
			return c.wide && rows >= 8 && i%3 != 1
		}
		return c.wide && rows >= 8 && i%2 == 0
	}
	// Strips come from the second level cache, or again from there where others use the first one too, or where their rows lie far apart in place; so do
	// columns of A. Eight products ahead is early enough.
	prefetches := c.wide && rows >= 8
	products := func(count int) {
		for k := range count {
			b0, b1 := c.reg(), c.reg()
			for v, x := range []reg.VecVirtual{b0, b1} {
				c.VMOVUPS(operand.Mem{Base: b, Disp: v * c.bytes()}, x)
				if prefetches {
					c.PREFETCHT0(operand.Mem{Base: b, Index: ldb, Scale: 8, Disp: v * c.bytes()})
				}
			}
			c.ADDQ(ldb, b)
			switch k % 8 {
			case 3:
				c.PREFETCHT1(operand.Mem{Base: line})
			case 7:
				c.PREFETCHT1(operand.Mem{Base: line, Disp: 64})
				c.SUBQ(operand.I8(-128), line)
			}
			for i := range rows {
				if broadcasts(i) {
					c.VFMADD231PS_BCST(element1(i, k), b0, sums[i][0])
					c.VFMADD231PS_BCST(element1(i, k), b1, sums[i][1])
					continue
				}
				x := c.reg()
				c.VBROADCASTSS(element1(i, k), x)
				c.VFMADD231PS(b0, x, sums[i][0])
				c.VFMADD231PS(b1, x, sums[i][1])
			}
			if columns {
				if prefetches { // rows of a column lie on one line or two
					c.PREFETCHT0(operand.Mem{Base: base[0], Index: lda, Scale: 8})
					c.PREFETCHT0(operand.Mem{Base: base[0], Index: lda, Scale: 8, Disp: 4 * (rows - 1)})
				}
				c.ADDQ(lda, base[0])
			}
		}
		if !columns {
			for _, p := range base {
				c.ADDQ(operand.I32(4*count), p)
			}
		}
	}
	c.MOVQ(kc, k)
	c.SUBQ(operand.U8(unroll), k)
	c.JLT(operand.LabelRef("rest"))
	c.Label("unrolled")
	products(unroll)
	c.TESTB(operand.U8(63), k.As8()) // after eight times 128 bytes, see gemm_ahead.go, comes the next piece
	c.JEQ(operand.LabelRef("apart"))
	c.Label("near")
	c.SUBQ(operand.U8(unroll), k)
	c.JGE(operand.LabelRef("unrolled"))
	c.Label("rest")
	c.ADDQ(operand.U8(unroll), k)
	c.JZ(operand.LabelRef("done"))
	c.Label("single")
	products(1)
	c.DECQ(k)
	c.JNZ(operand.LabelRef("single"))
	c.Label("done")

	store := func(adding bool) {
		for i := range rows {
			for v := range vectors {
				at := operand.Mem{Base: cc, Disp: c.bytes() * v}
				switch {
				case c.wide && adding:
					old := c.ZMM()
					c.VMOVUPS_Z(at, masks[v], old)
					c.VADDPS(old, sums[i][v], sums[i][v])
				case adding:
					c.VADDPS(at, sums[i][v], sums[i][v])
				}
				if c.wide {
					c.VMOVUPS(sums[i][v], masks[v], at)
				} else {
					c.VMOVUPS(sums[i][v], at)
				}
			}
			c.ADDQ(ldc, cc)
		}
	}
	c.CMPB(add, operand.U8(0))
	c.JEQ(operand.LabelRef("replace"))
	store(true)
	c.JMP(operand.LabelRef("next"))
	c.Label("replace")
	store(false)
	c.Label("next")
	if columns {
		c.ADDQ(operand.I32(4*rows), a)
	} else {
		step := c.GP64()
		c.IMUL3Q(operand.I32(rows), lda, step)
		c.ADDQ(step, a)
	}
	c.DECQ(left)
	c.JNZ(operand.LabelRef("panel"))
	c.ADDQ(operand.I32(vectors*c.bytes()), corner)
	c.MOVQ(address(c.Param("next")), t)
	c.SHLQ(operand.U8(2), t)
	c.ADDQ(t, strip)
	c.DECQ(strips)
	c.JNZ(operand.LabelRef("strip"))
	c.VZEROUPPER()
	c.RET()
	c.Label("apart")
	c.ADDQ(apart, line)
	c.JMP(operand.LabelRef("near"))
}

// copyPanelAVX512 packs rows of a matrix that are read along the strip.
func copyPanelAVX512(c *build.Context, width int) {
	function(c, fmt.Sprintf("copyPanel%dAVX512", width), "func(dst, src *float32, ld, kc int, mask uint64)",
		fmt.Sprintf("copyPanel%dAVX512 copies dst[k·%d + j] = src[k·ld + j] where bit j of mask is set, and writes 0 elsewhere, for j < %d, k < kc, kc > 0.", width, width, width))
	dst := c.Load(c.Param("dst"), c.GP64())
	src := c.Load(c.Param("src"), c.GP64())
	ld := c.Load(c.Param("ld"), c.GP64())
	kc := c.Load(c.Param("kc"), c.GP64())
	mask := c.Load(c.Param("mask"), c.GP64()).(reg.GPVirtual)
	var masks []reg.OpmaskVirtual
	for range width / 16 {
		k := c.K()
		c.KMOVW(mask.As32(), k)
		c.SHRQ(operand.U8(16), mask)
		masks = append(masks, k)
	}
	c.SHLQ(operand.U8(2), ld)
	c.Label("row")
	for v, k := range masks {
		x := c.ZMM()
		c.VMOVUPS_Z(operand.Mem{Base: src, Disp: 64 * v}, k, x)
		c.VMOVUPS(x, operand.Mem{Base: dst, Disp: 64 * v})
	}
	c.ADDQ(ld, src)
	c.ADDQ(operand.I32(4*width), dst)
	c.DECQ(kc)
	c.JNZ(operand.LabelRef("row"))
	c.VZEROUPPER()
	c.RET()
}

// copyPanelsAVX512 packs rows of a matrix that are read along many strips: each row is read once, in order, which suits prefetchers and the TLB.
func copyPanelsAVX512(c *build.Context, width int) {
	const ahead = 8 // rows to prefetch ahead: the hardware does not follow a stride of a page
	function(c, fmt.Sprintf("copyPanels%dAVX512", width), "func(dst, src *float32, ld, kc, panels int)",
		fmt.Sprintf("copyPanels%dAVX512 copies dst[p·%d·kc + k·%d + j] = src[k·ld + p·%d + j] for p < panels, k < kc, j < %d; kc > 0, panels > 0.", width, width, width, width, width))
	dst := c.Load(c.Param("dst"), c.GP64())
	src := c.Load(c.Param("src"), c.GP64())
	ld := c.Load(c.Param("ld"), c.GP64())
	kc := c.Load(c.Param("kc"), c.GP64()).(reg.GPVirtual)
	panels := c.Load(c.Param("panels"), c.GP64())
	step := c.GP64()
	c.SHLQ(operand.U8(2), ld)
	c.IMUL3Q(operand.I32(4*width), kc, step)
	c.Label("row")
	from, to, left, next := c.GP64(), c.GP64(), c.GP64(), c.GP64()
	c.MOVQ(src, from)
	c.MOVQ(dst, to)
	c.MOVQ(panels, left)
	c.LEAQ(operand.Mem{Base: src, Index: ld, Scale: 8}, next)
	for range ahead/8 - 1 {
		c.LEAQ(operand.Mem{Base: next, Index: ld, Scale: 8}, next)
	}
	c.Label("panel")
	for at := 0; at < 4*width; at += 64 {
		x := c.ZMM()
		c.VMOVUPS(operand.Mem{Base: from, Disp: at}, x)
		c.PREFETCHT0(operand.Mem{Base: next, Disp: at})
		c.VMOVUPS(x, operand.Mem{Base: to, Disp: at})
	}
	for _, p := range []reg.Register{from, next} {
		c.ADDQ(operand.I32(4*width), p)
	}
	c.ADDQ(step, to)
	c.DECQ(left)
	c.JNZ(operand.LabelRef("panel"))
	c.ADDQ(ld, src)
	c.ADDQ(operand.I32(4*width), dst)
	c.DECQ(kc)
	c.JNZ(operand.LabelRef("row"))
	c.VZEROUPPER()
	c.RET()
}

// transposeAVX512 packs a matrix that is read across the strip. Quarters of vectors are gathered while they are loaded (inserts from memory can use two
// ports), so that only transposes of 4 x 4 within the quarters remain for the one port that shuffles. The next 16 rows are prefetched: as short as a run is
// of each, the hardware does not follow them.
func transposeAVX512(c *build.Context) {
	function(c, "transpose16AVX512", "func(dst *float32, ldd int, src *float32, lds, blocks int)",
		"transpose16AVX512 computes dst[k·ldd + j] = src[j·lds + k] for j < 16, k < 16·blocks, blocks > 0.")
	dst := c.Load(c.Param("dst"), c.GP64())
	ldd := c.Load(c.Param("ldd"), c.GP64())
	src := c.Load(c.Param("src"), c.GP64())
	lds := c.Load(c.Param("lds"), c.GP64())
	blocks := c.Load(c.Param("blocks"), c.GP64())
	c.SHLQ(operand.U8(2), ldd)
	c.SHLQ(operand.U8(2), lds)
	lds3 := c.GP64()
	c.LEAQ(operand.Mem{Base: lds, Index: lds, Scale: 2}, lds3)
	lds16 := c.GP64()
	c.MOVQ(lds, lds16)
	c.SHLQ(operand.U8(4), lds16)
	row := func(p reg.Register, i int) operand.Mem { // i < 4 rows after p
		m := operand.Mem{Base: p}
		switch i {
		case 1, 2:
			m.Index, m.Scale = lds, uint8(i)
		case 3:
			m.Index, m.Scale = lds3, 1
		}
		return m
	}
	p4, p8, p12 := c.GP64(), c.GP64(), c.GP64()
	c.Label("block")
	c.LEAQ(operand.Mem{Base: src, Index: lds, Scale: 4}, p4)
	c.LEAQ(operand.Mem{Base: src, Index: lds, Scale: 8}, p8)
	c.LEAQ(operand.Mem{Base: p4, Index: lds, Scale: 8}, p12)
	quarter := []reg.Register{src, p4, p8, p12}
	for _, p := range quarter {
		next := c.GP64()
		c.LEAQ(operand.Mem{Base: p, Index: lds16, Scale: 1}, next)
		for i := range 4 {
			c.PREFETCHT0(row(next, i))
		}
	}
	for q := range 4 {
		var r [4]reg.VecVirtual
		for i := range r {
			r[i] = c.ZMM()
			c.VMOVUPS(row(quarter[0], i).Offset(16*q), r[i].AsX())
			for l := 1; l < 4; l++ {
				c.VINSERTF32X4(operand.U8(l), row(quarter[l], i).Offset(16*q), r[i], r[i])
			}
		}
		lo01, hi01, lo23, hi23 := c.ZMM(), c.ZMM(), c.ZMM(), c.ZMM()
		c.VUNPCKLPS(r[1], r[0], lo01)
		c.VUNPCKHPS(r[1], r[0], hi01)
		c.VUNPCKLPS(r[3], r[2], lo23)
		c.VUNPCKHPS(r[3], r[2], hi23)
		for _, pair := range [][2]reg.VecVirtual{{lo01, lo23}, {hi01, hi23}} {
			x, y := c.ZMM(), c.ZMM()
			c.VUNPCKLPD(pair[1], pair[0], x)
			c.VUNPCKHPD(pair[1], pair[0], y)
			c.VMOVUPS(x, operand.Mem{Base: dst})
			c.VMOVUPS(y, operand.Mem{Base: dst, Index: ldd, Scale: 1})
			c.LEAQ(operand.Mem{Base: dst, Index: ldd, Scale: 2}, dst)
		}
	}
	c.ADDQ(operand.U8(64), src)
	c.DECQ(blocks)
	c.JNZ(operand.LabelRef("block"))
	c.VZEROUPPER()
	c.RET()
}

// peak is what the share of peak is measured against.
func (c *vector) peak(registers int) {
	c.begin("peak", "func(rounds int)", fmt.Sprintf("does rounds·%d multiply-adds of %d lanes on registers alone, none waiting for another.", registers, c.lanes()))
	rounds := c.Load(c.Param("rounds"), c.GP64())
	x := c.zero()
	sums := c.sums(registers)
	c.Label("round")
	for _, s := range sums {
		c.VFMADD231PS(x, x, s)
	}
	c.DECQ(rounds)
	c.JNZ(operand.LabelRef("round"))
	c.end()
}

// pauseInstruction lets a waiting loop rest.
func pauseInstruction(c *build.Context) {
	function(c, "pause", "func()", "pause waits for some tens of cycles without disturbing the other thread of the core.")
	c.PAUSE()
	c.RET()
}

// cpuidInstruction asks the processor what it is.
func cpuidInstruction(c *build.Context) {
	function(c, "cpuid", "func(leaf, subleaf uint32) (a, b, c, d uint32)", "cpuid returns what the processor says of itself under leaf and subleaf, in the registers EAX, EBX, ECX and EDX.")
	c.Load(c.Param("leaf"), reg.EAX)
	c.Load(c.Param("subleaf"), reg.ECX)
	c.CPUID()
	for i, r := range []reg.Register{reg.EAX, reg.EBX, reg.ECX, reg.EDX} {
		c.Store(r, c.ReturnIndex(i))
	}
	c.RET()
}
