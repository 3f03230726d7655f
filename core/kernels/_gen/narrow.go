package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// narrow writes the casts to narrow formats.
func narrow(wide bool) func(c *build.Context) {
	return func(c *build.Context) {
		e := newVector(c, wide)
		e.zip("magnitudes", "z, x, y", 4, func(in []vec) vec {
			return e.maxInt(e.magnitude(in[0]), e.magnitude(in[1]))
		})
		e.blockMagnitudes()
		e.cast()
		for _, decode := range []string{"float32", "float64"} {
			e.castColumns(decode)
			e.castBlocks(decode)
		}
	}
}

func (e *vector) magnitude(x vec) vec { return e.and(x, e.bits(1<<31-1)) }

// maxInt is the larger of signed integers: of magnitudes, whose order as integers is that as numbers, with NaN above all.
func (e *vector) maxInt(a, b vec) vec {
	d := e.reg()
	e.VPMAXSD(a, b, d)
	return d
}

const narrowDoc = "f points to a Narrow."

// loop writes a loop over n > 0 rounds.
func (e *vector) loop(n reg.GPVirtual, body func()) {
	label := e.label("loop")
	e.Label(label)
	body()
	e.DECQ(n)
	e.JNZ(operand.LabelRef(label))
}

func (e *vector) blockMagnitudes() {
	e.begin("blockMagnitudes", "func(m, x []float32, vectors int)",
		"is the vector version of blockMagnitudesGeneric for blocks of whole vectors; m is not empty.")
	blocks, m, x := e.length("m"), e.pointer("m"), e.pointer("x")
	vectors := e.Load(e.Param("vectors"), e.GP64()).(reg.GPVirtual)
	left := e.GP64()
	e.loop(blocks, func() {
		top := e.zero()
		e.MOVQ(vectors, left)
		e.loop(left, func() {
			e.VPMAXSD(e.magnitude(e.load(x, 0, false)), top, top)
			e.ADDQ(operand.I32(e.bytes()), x)
		})
		e.VMOVSS(e.fold(top, e.VPMAXSD).AsX(), operand.Mem{Base: m})
		e.ADDQ(operand.I32(4), m)
	})
	e.end()
}

// format is the constants of a narrow format: 16 lanes keep them in registers, 8 have too few and read them again.
type format struct {
	*vector
	at   reg.GPVirtual
	kept [7]vec
}

// The words of a Narrow.
const (
	limitWord = iota
	normalWord
	shiftWord
	largestWord
	beyondWord
	leastWord
	zeroWord
)

func (e *vector) format() *format {
	f := &format{vector: e, at: e.Load(e.Param("f"), e.GP64()).(reg.GPVirtual)}
	if e.wide {
		for i := range f.kept {
			f.kept[i] = f.read(i)
		}
	}
	return f
}

func (f *format) read(i int) vec {
	d := f.reg()
	f.VBROADCASTSS(operand.Mem{Base: f.at, Disp: 4 * i}, d)
	return d
}

func (f *format) word(i int) vec {
	if f.wide {
		return f.kept[i]
	}
	return f.read(i)
}

// cast rounds x, as Narrow.round does.
func (f *format) cast(x vec) vec {
	abs := f.op2(f.VMINPS, nil, f.word(limitWord), f.magnitude(x)) // NaN stays
	unit := f.op2(f.VMAXPS, nil, f.word(normalWord), f.and(abs, f.bits(infinity)))
	unit = f.addInt(unit, f.word(shiftWord))
	r := f.sub(f.add(abs, unit), unit)
	if f.wide {
		large, small := f.K(), f.K()
		f.VCMPPS(operand.U8(30), f.word(largestWord), r, large) // greater, and ordered
		f.VMOVAPS(f.word(beyondWord), large, r)
		f.VCMPPS(operand.U8(17), f.word(leastWord), r, small) // less, and ordered
		y := f.copy(x)
		f.VPTERNLOGD_BCST(operand.U8(0xec), f.bits(1<<31).Mem, r, y) // r | y & sign
		f.VPANDD(f.word(zeroWord), y, small, y)
		return y
	}
	large, small := f.reg(), f.reg()
	f.VCMPPS(operand.U8(30), f.word(largestWord), r, large)
	f.VBLENDVPS(large, f.word(beyondWord), r, r)
	f.VCMPPS(operand.U8(17), f.word(leastWord), r, small)
	y := f.or(r, f.and(x, f.bits(1<<31)))
	f.VBLENDVPS(small, f.and(y, f.word(zeroWord)), y, y)
	return y
}

func (e *vector) cast() {
	e.begin("cast", "func(y, x []float32, encode, decode float32, f *float32)", "is the vector version of castGeneric; "+narrowDoc)
	n, p := e.length("y"), []reg.GPVirtual{e.pointer("y"), e.pointer("x")}
	f, encode, decode := e.format(), e.scalar("encode"), e.scalar("decode")
	e.each(n, p, 2, func(j int, last bool) {
		e.store(e.mul(f.cast(e.mul(e.load(p[1], j, last), encode)), decode), p[0], j, last)
	})
	e.end()
}

// double is a vector of float64 in two registers.
type double [2]vec

// decoded is r·d, rounded once.
func (e *vector) decoded(r vec, d double) vec {
	out := e.reg()
	if e.wide {
		var part [2]vec
		for h := range part {
			wide := e.half64(r, h)
			e.VMULPD(d[h], wide, wide)
			part[h] = e.YMM()
			e.VCVTPD2PS(wide, part[h])
		}
		e.VINSERTF32X8(operand.U8(1), part[1], part[0].AsZ(), out)
		return out
	}
	var part [2]vec
	for h := range part {
		wide, half := e.YMM(), e.XMM()
		e.VEXTRACTF128(operand.U8(h), r, half)
		e.VCVTPS2PD(half, wide)
		e.VMULPD(d[h], wide, wide)
		part[h] = e.XMM()
		e.VCVTPD2PSY(wide, part[h])
	}
	e.VINSERTF128(operand.U8(1), part[1], part[0].AsY(), out)
	return out
}

// named is the name of a function for factors of a type.
func named(name, decode string) string {
	if decode == "float64" {
		return name + "64"
	}
	return name
}

func (e *vector) castColumns(wide string) {
	e.begin(named("castColumns", wide), "func(y, x, encode []float32, decode []"+wide+", f *float32)",
		"is castGeneric with factors for each element; "+narrowDoc)
	n, p := e.length("y"), []reg.GPVirtual{e.pointer("y"), e.pointer("x"), e.pointer("encode")}
	decode := e.pointer("decode")
	f := e.format()
	e.each(n, p, 1, func(j int, last bool) {
		r := f.cast(e.mul(e.load(p[1], j, last), e.load(p[2], j, last)))
		if wide == "float64" {
			e.store(e.decoded(r, e.load64(decode, last)), p[0], j, last)
			e.ADDQ(operand.I32(2*e.bytes()), decode)
		} else {
			e.store(e.mul(r, e.load(decode, j, last)), p[0], j, last)
			e.ADDQ(operand.I32(e.bytes()), decode)
		}
	})
	e.end()
}

// load64 reads as many float64 at p as a vector has lanes.
func (e *vector) load64(p reg.GPVirtual, last bool) double {
	var d double
	for h := range d {
		d[h] = e.reg()
		m := operand.Mem{Base: p, Disp: h * e.bytes()}
		switch {
		case !last:
			e.VMOVUPD(m, d[h])
		case e.wide:
			k := e.K()
			e.KSHIFTRW(operand.U8(8*h), e.tail.k, k)
			e.VMOVUPD_Z(m, k, d[h])
		default:
			half, mask := e.XMM(), e.YMM()
			e.VEXTRACTF128(operand.U8(h), e.tail.v, half)
			e.VPMOVSXDQ(half, mask)
			e.VMASKMOVPD(m, mask, d[h])
		}
	}
	return d
}

func (e *vector) castBlocks(wide string) {
	e.begin(named("castBlocks", wide), "func(y, x, encode []float32, decode []"+wide+", vectors int, f *float32)",
		"is castGeneric with factors for each block of whole vectors; encode is not empty, and "+narrowDoc)
	blocks, y, x, encodes := e.length("encode"), e.pointer("y"), e.pointer("x"), e.pointer("encode")
	decodes := e.pointer("decode")
	vectors := e.Load(e.Param("vectors"), e.GP64()).(reg.GPVirtual)
	f, left := e.format(), e.GP64()
	e.loop(blocks, func() {
		encode, decode := e.reg(), e.reg()
		e.VBROADCASTSS(operand.Mem{Base: encodes}, encode)
		if wide == "float64" {
			e.VBROADCASTSD(operand.Mem{Base: decodes}, decode)
		} else {
			e.VBROADCASTSS(operand.Mem{Base: decodes}, decode)
		}
		e.MOVQ(vectors, left)
		e.loop(left, func() {
			r := f.cast(e.mul(e.load(x, 0, false), encode))
			if wide == "float64" {
				r = e.decoded(r, double{decode, decode})
			} else {
				r = e.mul(r, decode)
			}
			e.store(r, y, 0, false)
			e.ADDQ(operand.I32(e.bytes()), x)
			e.ADDQ(operand.I32(e.bytes()), y)
		})
		e.ADDQ(operand.I32(4), encodes)
		if wide == "float64" {
			e.ADDQ(operand.I32(8), decodes)
		} else {
			e.ADDQ(operand.I32(4), decodes)
		}
	})
	e.end()
}
