package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// philoxAVX2 is philox for 8 blocks at a time, half of a group. Sixteen registers are enough for one parity of
// lanes at a time; constants are in memory.
type philoxAVX2 struct {
	*vector
	schedule reg.GPVirtual
	first    vec // number of the group's first block
}

func (e *vector) newPhiloxAVX2() *philoxAVX2 {
	return &philoxAVX2{vector: e, schedule: e.Load(e.Param("schedule"), e.GP64()).(reg.GPVirtual), first: e.word("block")}
}

// lanesOf are the numbers of the even or odd lanes of half a group, each in 64 bits.
func (g *philoxAVX2) lanesOf(half, parity int) operand.Mem {
	key := uint32(0x7fa00010 + 2*half + parity) // no float32 that a kernel uses
	table, ok := g.consts[key]
	if !ok {
		table = g.StaticGlobal(fmt.Sprintf("lanes%d%d", half, parity))
		g.DataAttributes(attr.RODATA | attr.NOPTR)
		for i := range 4 {
			g.AddDatum(8*i, operand.U64(8*half+2*i+parity))
		}
		g.consts[key] = table
	}
	return table
}

func (g *philoxAVX2) product(m uint32, x vec) (hi, lo vec) {
	lo, hi = g.reg(), g.reg()
	g.VPMULUDQ(g.bits(m).Mem, x, lo)
	g.VPSRLQ(operand.U8(32), lo, hi)
	return hi, lo
}

// xor returns x ^ y..., ^ a word of the schedule.
func (g *philoxAVX2) xor(key int, x vec, y ...vec) vec {
	d := g.reg()
	g.VPBROADCASTD(operand.Mem{Base: g.schedule, Disp: 4 * key}, d)
	for _, v := range append(y, x) {
		g.VPXOR(v, d, d)
	}
	return d
}

// half returns the four words of 8 blocks.
func (g *philoxAVX2) half(h int) [4]vec {
	var words [2][4]vec
	for parity := range words {
		c0 := g.reg()
		g.VPADDD(g.lanesOf(h, parity), g.first, c0)
		hi, c3 := g.product(philoxM0, c0)
		c2 := g.xor(0, hi)
		hi, c1 := g.product(philoxM1, c2)
		c0 = g.xor(1, hi)
		c2 = g.xor(2, c3)
		hi0, lo0 := g.product(philoxM0, c0)
		hi1, lo1 := g.product(philoxM1, c2)
		c0, c1, c2, c3 = g.xor(3, hi1, c1), lo1, g.xor(4, hi0), lo0
		for r := range 4 {
			hi0, lo0 := g.product(philoxM0, c0)
			hi1, lo1 := g.product(philoxM1, c2)
			c0, c1, c2, c3 = g.xor(5+2*r, hi1, c1), lo1, g.xor(6+2*r, hi0, c3), lo0
		}
		words[parity] = [4]vec{c0, c1, c2, c3}
	}
	for w := range 4 {
		odd := g.reg()
		g.VMOVSLDUP(words[1][w], odd)
		g.VPBLENDD(operand.U8(0xaa), odd, words[0][w], words[0][w])
	}
	return words[0]
}

// eachGroup writes a loop over groups of 128 elements; body gets the offset of 8 elements in bytes, the word of
// their random bits, and which half of it.
func (g *philoxAVX2) eachGroup(groups reg.GPVirtual, pointers []reg.GPVirtual, body func(disp int, word vec, high bool)) {
	g.Label("group")
	for h := range 2 {
		for w, word := range g.half(h) {
			body(128*w+32*h, word, false)
			body(128*w+64+32*h, word, true)
		}
	}
	g.VPADDD(g.bits(16).Mem, g.first, g.first)
	for _, p := range pointers {
		g.ADDQ(operand.I32(512), p)
	}
	g.DECQ(groups)
	g.JNZ(operand.LabelRef("group"))
}

const groupSignature = "func(y, x *float32, groups int, block uint32, schedule *uint32, "

func (e *vector) dropoutGroupsAVX2() {
	e.begin("dropoutGroups", groupSignature+"threshold uint32, scale float32)",
		"is the vector version of dropoutGeneric for groups of 128 elements, groups > 0; "+
			"block is the number of the first block of random bits and\n"+
			"threshold is shifted left by 16.")
	y, x := e.Load(e.Param("y"), e.GP64()).(reg.GPVirtual), e.Load(e.Param("x"), e.GP64()).(reg.GPVirtual)
	groups := e.Load(e.Param("groups"), e.GP64()).(reg.GPVirtual)
	threshold, scale := e.word("threshold"), e.scalar("scale")
	g := e.newPhiloxAVX2()
	g.eachGroup(groups, []reg.GPVirtual{y, x}, func(disp int, word vec, high bool) {
		u, keep, d := word, e.reg(), e.reg()
		if !high {
			u = e.reg()
			e.VPSLLD(operand.U8(16), word, u)
		}
		e.VPMAXUD(threshold, u, keep)
		e.VPCMPEQD(u, keep, keep) // u >= threshold, unsigned
		e.VMULPS(operand.Mem{Base: x, Disp: disp}, scale, d)
		e.VANDPS(keep, d, d)
		e.VMOVUPS(d, operand.Mem{Base: y, Disp: disp})
	})
	e.end()
}

func (e *vector) roundGroupsAVX2(name string, discard int) {
	e.begin(name, groupSignature+"over uint32) (large uint32)",
		"rounds stochastically as numerics.Rounding says, groups > 0; block is the number of the first block of random bits,\n"+roundDoc)
	y, x := e.Load(e.Param("y"), e.GP64()).(reg.GPVirtual), e.Load(e.Param("x"), e.GP64()).(reg.GPVirtual)
	groups := e.Load(e.Param("groups"), e.GP64()).(reg.GPVirtual)
	over := e.word("over")
	found := e.GP32()
	e.XORL(found, found)
	low := uint32(1)<<discard - 1
	limit := uint32(infinity)
	if discard == 13 {
		limit = 0x47800000 // 2^16
	}
	atLeast := func(a vec, b uint32) vec { // all ones where a >= b, unsigned: NaN + r may have the upper bit
		k := e.reg()
		e.VPMAXUD(e.bits(b).Mem, a, k)
		e.VPCMPEQD(a, k, k)
		return k
	}
	g := e.newPhiloxAVX2()
	g.eachGroup(groups, []reg.GPVirtual{y, x}, func(disp int, word vec, high bool) {
		r := e.reg()
		if high {
			e.VPSRLD(operand.U8(32-discard), word, r)
		} else {
			e.VPSLLD(operand.U8(16), word, r)
			e.VPSRLD(operand.U8(32-discard), r, r)
		}
		v := e.reg()
		e.VMOVUPS(operand.Mem{Base: x, Disp: disp}, v)
		abs := e.and(v, e.bits(1<<31-1))
		s := e.and(e.addInt(abs, r), e.bits(^low))
		if discard == 13 {
			// Subnormal in FP16: in units of 2^-37, exactly.
			units, subnormal := e.reg(), e.fill(e.bits(0x38800000))
			e.VCVTTPS2DQ(e.mul(abs, e.k(1<<37)), units)
			units = e.addInt(units, r)
			e.VPSRLD(operand.U8(13), units, units)
			e.VCVTDQ2PS(units, units)
			e.VPCMPGTD(abs, subnormal, subnormal)
			e.VBLENDVPS(subnormal, e.mul(units, e.k(1.0/(1<<24))), s, s)
		}
		usual, mask := e.label("usual"), e.GP32()
		large := atLeast(s, limit)
		e.VMOVMSKPS(large, mask)
		e.TESTL(mask, mask)
		e.JZ(operand.LabelRef(usual))
		e.MOVL(operand.U32(1), found)
		e.VBLENDVPS(large, over, s, s)
		e.VBLENDVPS(atLeast(abs, infinity), e.and(abs, e.bits(^low)), s, s)
		e.VORPS(e.and(atLeast(abs, infinity+1), e.bits(quiet)), s, s)
		e.Label(usual)
		e.VMOVUPS(e.or(s, e.and(v, e.bits(1<<31))), operand.Mem{Base: y, Disp: disp})
	})
	e.Store(found, e.ReturnIndex(0))
	e.end()
}
