package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// copyPanelAVX512 packs rows of a matrix that are read along the strip.
func copyPanelAVX512(c *build.Context, width int) {
	function(c, fmt.Sprintf("copyPanel%dAVX512", width), "func(dst, src *float32, ld, kc int, mask uint64)",
		fmt.Sprintf("copyPanel%dAVX512 copies dst[k·%d + j] = src[k·ld + j] where bit j of mask is set, and writes 0 elsewhere, ", width, width)+
			fmt.Sprintf("for j < %d, k < kc, kc > 0.", width))
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

// copyPanelsAVX512 packs rows of a matrix that are read along many strips: each row is read once, in order, which
// suits prefetchers and the TLB.
func copyPanelsAVX512(c *build.Context, width int) {
	const ahead = 8 // rows to prefetch ahead: the hardware does not follow a stride of a page
	function(c, fmt.Sprintf("copyPanels%dAVX512", width), "func(dst, src *float32, ld, kc, panels int)",
		fmt.Sprintf("copyPanels%dAVX512 copies dst[p·%d·kc + k·%d + j] = src[k·ld + p·%d + j] ", width, width, width, width)+
			fmt.Sprintf("for p < panels, k < kc, j < %d; kc > 0, panels > 0.", width))
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

// transposeAVX512 packs a matrix that is read across the strip. Quarters of vectors are gathered while they are
// loaded (inserts from memory can use two ports), so that only transposes of 4 x 4 within the quarters remain for
// the one port that shuffles. The next 16 rows are prefetched: the run that is read of each is too short for the
// hardware to follow.
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
