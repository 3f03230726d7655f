package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// noise writes the kernels that round, and those that draw random bits.
func noise(wide bool) func(c *build.Context) {
	return func(c *build.Context) {
		e := newVector(c, wide)
		e.roundTruncated("roundTF32", 13)
		e.roundTruncated("roundBF16", 16)
		e.roundFP16()
		if wide {
			e.dropoutSpan()
			e.roundSpan("roundFP16Span", 13)
			e.roundSpan("roundBF16Span", 16)
		} else {
			e.dropoutGroupsAVX2()
			e.roundGroupsAVX2("roundFP16Groups", 13)
			e.roundGroupsAVX2("roundBF16Groups", 16)
		}
	}
}

const quiet = 1 << 22

// compare returns the lanes where unsigned a < b (predicate 1), a >= b (5), or a > b (6).
func (e *vector) compare(predicate uint64, a vec, b arg) reg.OpmaskVirtual {
	k := e.K()
	if c, ok := b.(konst); ok {
		e.VPCMPUD_BCST(operand.U8(predicate), c.Mem, a, k)
	} else {
		e.VPCMPUD(operand.U8(predicate), b.(operand.Op), a, k)
	}
	return k
}

// roundTruncated writes rounding to nearest for the formats with float32's exponent.
func (e *vector) roundTruncated(name string, discard int) {
	e.begin(name, slices("y, x"), "rounds to nearest, ties to even.")
	n, p := e.length("y"), []reg.GPVirtual{e.pointer("y"), e.pointer("x")}
	low := uint32(1)<<discard - 1
	e.each(n, p, 2, func(j int, last bool) {
		x := e.load(p[1], j, last)
		odd, nan := e.reg(), e.or(x, e.bits(quiet))
		e.VPSRLD(operand.U8(discard), x, odd)
		odd = e.and(odd, e.bits(1))
		up := e.addInt(e.addInt(x, odd), e.bits(low>>1))
		if e.wide {
			k := e.K()
			e.VCMPPS(operand.U8(3), x, x, k)
			e.VMOVAPS(nan, k, up)
		} else {
			k := e.reg()
			e.VCMPPS(operand.U8(3), x, x, k)
			e.VBLENDVPS(k, nan, up, up)
		}
		e.store(e.and(up, e.bits(^low)), p[0], j, last)
	})
	e.end()
}

func (e *vector) addInt(a vec, b arg) vec { return e.op2(e.VPADDD, e.VPADDD_BCST, a, b) }

// roundFP16 converts to half and back, which rounds as IEEE 754 says, and replaces the infinities that come from
// finite values.
func (e *vector) roundFP16() {
	e.begin("roundFP16", "func(y, x []float32, over uint32) (large uint32)",
		"rounds to nearest, ties to even; what overflows becomes the float32 with the bits over, and the sign. It returns 0\n"+
			"when nothing overflowed, and all of x was finite.")
	n, p := e.length("y"), []reg.GPVirtual{e.pointer("y"), e.pointer("x")}
	over := e.word("over")
	found := e.GP32()
	e.XORL(found, found)
	e.each(n, p, 2, func(j int, last bool) {
		x, y := e.load(p[1], j, last), e.reg()
		usual := e.label("usual")
		if e.wide {
			h := e.YMM()
			e.VCVTPS2PH(operand.U8(0), x, h)
			e.VCVTPH2PS(h, y)
			k := e.compare(5, e.and(y, e.bits(1<<31-1)), e.bits(infinity))
			e.KORTESTW(k, k)
			e.JZ(operand.LabelRef(usual))
			e.MOVL(operand.U32(1), found)
			finite := e.compare(1, e.and(x, e.bits(1<<31-1)), e.bits(infinity))
			e.KANDW(k, finite, k)
			e.VMOVAPS(e.or(e.and(x, e.bits(1<<31)), over), k, y)
		} else {
			h := e.XMM()
			e.VCVTPS2PH(operand.U8(0), x, h)
			e.VCVTPH2PS(h, y)
			// Signed comparison will do, as absolute values have no sign bit.
			k, infinite, mask := e.reg(), e.reg(), e.GP32()
			inf := e.fill(e.bits(infinity))
			below := e.reg()
			e.VPCMPGTD(e.and(y, e.bits(1<<31-1)), inf, below)
			e.VMOVMSKPS(below, mask)
			e.CMPL(mask, operand.U32(0xff))
			e.JEQ(operand.LabelRef(usual))
			e.MOVL(operand.U32(1), found)
			e.VPCMPEQD(inf, e.and(y, e.bits(1<<31-1)), k)
			e.VPCMPGTD(e.and(x, e.bits(1<<31-1)), inf, infinite)
			k = e.and(k, infinite)
			e.VBLENDVPS(k, e.or(e.and(x, e.bits(1<<31)), over), y, y)
		}
		e.Label(usual)
		e.store(y, p[0], j, last)
	})
	e.Store(found, e.ReturnIndex(0))
	e.end()
}

// Philox4x32, see core/random.
const (
	philoxM0 = 0xd2511f53
	philoxM1 = 0xcd9e8d57
)

// philox writes the generator for 16 blocks at a time. A word of the state is two registers, for the even and the
// odd lanes, each in the lower half of 64 bits. So the wide multiplication needs no shuffle, its low word is the
// lower half of the product, and upper halves are ignored. The part of the first three rounds that does not depend
// on the block is in the schedule, see philoxSchedule in package kernels.
type philox struct {
	*vector
	schedule reg.GPVirtual
	counter  [2]vec
	m0, m1   vec
	odd      reg.OpmaskVirtual
}

func (e *vector) newPhilox() *philox {
	g := &philox{vector: e, schedule: e.Load(e.Param("schedule"), e.GP64()).(reg.GPVirtual)}
	first := e.word("block")
	for h := range g.counter {
		key := uint32(0x7fa00000 + h)
		table, ok := e.consts[key]
		if !ok {
			table = e.StaticGlobal([]string{"evenLanes", "oddLanes"}[h])
			e.DataAttributes(attr.RODATA | attr.NOPTR)
			for i := range 8 {
				e.AddDatum(8*i, operand.U64(2*i+h))
			}
			e.consts[key] = table
		}
		g.counter[h] = e.reg()
		e.VPADDD(table, first, g.counter[h])
	}
	g.m0, g.m1 = e.reg(), e.reg()
	e.VPBROADCASTD(e.bits(philoxM0).Mem, g.m0)
	e.VPBROADCASTD(e.bits(philoxM1).Mem, g.m1)
	odd := e.GP32()
	e.MOVL(operand.U32(0xaaaa), odd)
	g.odd = e.K()
	e.KMOVW(odd, g.odd)
	return g
}

func (g *philox) key(i int) konst { return konst{operand.Mem{Base: g.schedule, Disp: 4 * i}} }

// product of one parity of lanes. Shifts and shuffles have one port each, so one parity uses shifts and the other
// shuffles.
func (g *philox) product(parity int, m, x vec) (hi, lo vec) {
	lo, hi = g.ZMM(), g.ZMM()
	g.VPMULUDQ(x, m, lo)
	if parity == 0 {
		g.VPSRLQ(operand.U8(32), lo, hi)
	} else {
		g.VPSHUFD(operand.U8(0xf5), lo, hi)
	}
	return hi, lo
}

// xor3 changes d to d ^ x ^ k.
func (g *philox) xor3(d, x vec, k konst) vec {
	g.VPTERNLOGD_BCST(operand.U8(0x96), k.Mem, x, d)
	return d
}

// next returns the four words of 16 blocks and moves on.
func (g *philox) next() [4]vec {
	var words [2][4]vec
	for h, c0 := range g.counter {
		hi, c3 := g.product(h, g.m0, c0)
		c2 := g.xor(hi, g.key(0))
		hi, c1 := g.product(h, g.m1, c2)
		c0 = g.xor(hi, g.key(1))
		c2 = g.xor(c3, g.key(2))
		hi0, lo0 := g.product(h, g.m0, c0)
		hi1, lo1 := g.product(h, g.m1, c2)
		c0, c1, c2, c3 = g.xor3(hi1, c1, g.key(3)), lo1, g.xor(hi0, g.key(4)), lo0
		for r := range 4 {
			hi0, lo0 := g.product(h, g.m0, c0)
			hi1, lo1 := g.product(h, g.m1, c2)
			c0, c1, c2, c3 = g.xor3(hi1, c1, g.key(5+2*r)), lo1, g.xor3(hi0, c3, g.key(6+2*r)), lo0
		}
		words[h] = [4]vec{c0, c1, c2, c3}
	}
	for h := range g.counter {
		g.VPADDD_BCST(g.bits(16).Mem, g.counter[h], g.counter[h])
	}
	for w := range 4 {
		g.VMOVSLDUP(words[1][w], g.odd, words[0][w])
	}
	return words[0]
}

// A span is elements of slices whose random bits are in consecutive groups; of the first and the last it may have
// only a part.
type span struct {
	*philox
	y, x       reg.GPVirtual // the elements at the beginning of the group
	begin, end reg.GPVirtual // of the span, counted in elements from the beginning of the group
}

const spanSignature = "func(y, x *float32, n, at int, block uint32, schedule *uint32, "

const spanDoc = "for n elements, n > 0, whose random bits begin at element at, at < 128, of those of block and the 15 after it"

func (e *vector) newSpan() *span {
	y, x := e.Load(e.Param("y"), e.GP64()).(reg.GPVirtual), e.Load(e.Param("x"), e.GP64()).(reg.GPVirtual)
	end, at := e.Load(e.Param("n"), e.GP64()).(reg.GPVirtual), e.Load(e.Param("at"), e.GP64()).(reg.GPVirtual)
	e.ADDQ(at, end)
	bytes := e.GP64()
	e.MOVQ(at, bytes)
	e.SHLQ(operand.U8(2), bytes)
	e.SUBQ(bytes, y)
	e.SUBQ(bytes, x)
	return &span{e.newPhilox(), y, x, at, end}
}

// at is the vector at offset j.
func (s *span) at(p reg.GPVirtual, j int) operand.Mem {
	return operand.Mem{Base: p, Disp: j * s.bytes()}
}

// load and store access only the elements of a mask, or all if there is none.
func (s *span) load(j int, mask reg.Register) vec {
	d := s.reg()
	if mask == nil {
		s.VMOVUPS(s.at(s.x, j), d)
	} else {
		s.VMOVUPS_Z(s.at(s.x, j), mask, d)
	}
	return d
}

func (s *span) store(x vec, j int, mask reg.Register) {
	if mask == nil {
		s.VMOVUPS(x, s.at(s.y, j))
	} else {
		s.VMOVUPS(x, mask, s.at(s.y, j))
	}
}

// each writes the loop over groups. pair writes the work on the vectors at j and j + 1, whose random bits are the
// lower and the upper halves of word.
func (s *span) each(pair func(j int, word vec, masks [2]reg.Register)) {
	s.Label("group")
	words := s.next()
	s.TESTQ(s.begin, s.begin)
	s.JNZ(operand.LabelRef("cut"))
	s.CMPQ(s.end, operand.U32(128))
	s.JLT(operand.LabelRef("cut"))
	for w, word := range words {
		pair(2*w, word, [2]reg.Register{})
	}
	s.JMP(operand.LabelRef("next"))

	s.Label("cut")
	var bits [2]reg.GPVirtual // a bit for each of the group's elements that is in the span
	for h := range bits {
		bits[h] = s.GP64()
		s.below(bits[h], s.end, 64*h)
		before := s.GP64()
		s.below(before, s.begin, 64*h)
		s.ANDNQ(bits[h], before, bits[h])
	}
	for w, word := range words {
		var masks [2]reg.Register
		for i := range masks {
			k := s.K()
			s.KMOVW(bits[w/2].As32(), k)
			s.SHRQ(operand.U8(16), bits[w/2])
			masks[i] = k
		}
		pair(2*w, word, masks)
	}

	s.Label("next")
	for _, p := range []reg.GPVirtual{s.y, s.x} {
		s.ADDQ(operand.I32(8*s.bytes()), p)
	}
	s.XORQ(s.begin, s.begin)
	s.SUBQ(operand.U32(128), s.end)
	s.JG(operand.LabelRef("group"))
}

// below sets the bits of d whose number is less than n - from, of 64.
func (s *span) below(d, n reg.GPVirtual, from int) {
	count, limit := s.GP64(), s.GP64()
	s.XORQ(d, d)
	s.MOVQ(n, count)
	s.SUBQ(operand.U8(from), count)
	s.CMOVQLT(d, count)
	s.MOVQ(operand.I32(64), limit) // BZHI reads eight bits of the count, and takes 64 and more for all
	s.CMPQ(count, limit)
	s.CMOVQGT(limit, count)
	s.NOTQ(d)
	s.BZHIQ(count, d, d)
}

func (e *vector) dropoutSpan() {
	e.begin("dropoutSpan", spanSignature+"threshold uint32, scale float32)",
		"is the vector version of dropoutGeneric "+spanDoc+";\nthreshold is shifted left by 16.")
	threshold, scale := e.word("threshold"), e.scalar("scale")
	s := e.newSpan()
	s.each(func(j int, word vec, masks [2]reg.Register) {
		low := e.reg()
		e.VPSLLD(operand.U8(16), word, low)
		for h, u := range []vec{low, word} {
			keep, d := e.compare(5, u, threshold), e.reg()
			e.VMULPS_Z(s.load(j+h, masks[h]), scale, keep, d)
			s.store(d, j+h, masks[h])
		}
	})
	e.end()
}

const roundDoc = "over the bits of what overflows. It returns 0 when nothing overflowed, and all of x was finite."

// roundSpan writes stochastic rounding. FP16's subnormal values are made normal for it: 2^-14 is added, rounding
// towards zero, which gives them the unit of the least normal values.
func (e *vector) roundSpan(name string, discard int) {
	e.begin(name, spanSignature+"over uint32) (large uint32)", "rounds stochastically as numerics.Rounding says, "+spanDoc+";\n"+roundDoc)
	over := e.word("over")
	found := e.GP32()
	e.XORL(found, found)
	low := uint32(1)<<discard - 1
	limit := uint32(infinity)
	var least vec
	if discard == 13 {
		limit = 0x47800000 // 2^16
		least = e.fill(e.bits(0x38800000))
	}
	p := e.newSpan()
	p.each(func(j int, word vec, masks [2]reg.Register) {
		if discard == 13 { // the upper 13 of 16 bits
			t := e.reg()
			e.VPSRLW(operand.U8(3), word, t)
			word = t
		}
		high := e.reg()
		e.VPSRLD(operand.U8(16), word, high)
		random := [2]vec{e.and(word, e.bits(1<<16-1)), high}
		var v, abs, s [2]vec
		var large [2]reg.OpmaskVirtual
		for h := range v {
			v[h] = p.load(j+h, masks[h])
			abs[h] = e.and(v[h], e.bits(1<<31-1))
			var subnormal reg.OpmaskVirtual
			if discard == 13 {
				subnormal = e.compare(1, abs[h], least)
				e.VADDPS_RZ_SAE(least, abs[h], subnormal, abs[h])
			}
			s[h] = e.and(e.addInt(abs[h], random[h]), e.bits(^low))
			if discard == 13 {
				e.VSUBPS(least, s[h], subnormal, s[h])
			}
			large[h] = e.compare(5, s[h], e.bits(limit))
		}
		usual := e.label("usual")
		e.KORTESTW(large[0], large[1])
		e.JZ(operand.LabelRef(usual))
		e.MOVL(operand.U32(1), found)
		for h := range v {
			e.VMOVAPS(over, large[h], s[h])
			special, nan := e.compare(5, abs[h], e.bits(infinity)), e.compare(6, abs[h], e.bits(infinity))
			e.VPANDD_BCST(e.bits(^low).Mem, abs[h], special, s[h])
			e.VPORD_BCST(e.bits(quiet).Mem, s[h], nan, s[h])
		}
		e.Label(usual)
		for h := range v {
			e.VPTERNLOGD_BCST(operand.U8(0xec), e.bits(1<<31).Mem, s[h], v[h]) // s | v & sign
			p.store(v[h], j+h, masks[h])
		}
	})
	e.Store(found, e.ReturnIndex(0))
	e.end()
}
