package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rows writes the kernels that reduce slices or work on one row at a time.
func rows(wide bool) func(c *build.Context) {
	return func(c *build.Context) {
		e := newVector(c, wide)
		if wide { // the order of the float64 sums needs 16 lanes at a time
			e.dot()
			e.sumSquares()
		}
		e.max1()
		e.allFinite()
		e.columnSums()
		e.layerNorm()
		e.layerNormGrad()
		e.normalise()
		e.softmax(false)
		e.softmax(true)
		e.softmaxGrad()
		e.expSum()
	}
}

// sum64 is a float64 sum in 16 lanes.
type sum64 [2]vec

func (e *vector) newSum64() sum64 { return sum64{e.zero(), e.zero()} }

// add64 adds x·y, exact products.
func (e *vector) add64(s sum64, x, y vec) {
	for h := range s {
		a, b := e.half64(x, h), e.half64(y, h)
		e.VFMADD231PD(a, b, s[h])
	}
}

func (e *vector) addSquare64(s sum64, x vec) {
	for h := range s {
		a := e.half64(x, h)
		e.VFMADD231PD(a, a, s[h])
	}
}

func (e *vector) half64(x vec, h int) vec {
	d := e.ZMM()
	if h == 0 {
		e.VCVTPS2PD(x.AsY(), d)
		return d
	}
	y := e.YMM()
	e.VEXTRACTF32X8(operand.U8(1), x, y)
	e.VCVTPS2PD(y, d)
	return d
}

// result64 stores the sum of the lanes, folded in halves as sumLanes does.
func (e *vector) result64(s sum64, index int) {
	x := e.ZMM()
	e.VADDPD(s[1], s[0], x)
	y := e.YMM()
	e.VEXTRACTF64X4(operand.U8(1), x, y)
	e.VADDPD(y, x.AsY(), y)
	z := e.XMM()
	e.VEXTRACTF64X2(operand.U8(1), y, z)
	e.VADDPD(z, y.AsX(), z)
	w := e.XMM()
	e.VPERMILPD(operand.U8(1), z, w)
	e.VADDSD(w, z, z)
	e.VMOVSD(z, address(e.ReturnIndex(index)))
}

func (e *vector) dot() {
	e.begin("dot", "func(x, y []float32) float64", "is the vector version of dotGeneric, with the same bits.")
	n, p := e.length("x"), []reg.GPVirtual{e.pointer("x"), e.pointer("y")}
	s := e.newSum64()
	e.each(n, p, 1, func(j int, last bool) { e.add64(s, e.load(p[0], j, last), e.load(p[1], j, last)) })
	e.result64(s, 0)
	e.end()
}

func (e *vector) sumSquares() {
	e.begin("sumSquares", "func(x []float32) float64", "is the vector version of sumSquaresGeneric, with the same bits.")
	n, p := e.length("x"), []reg.GPVirtual{e.pointer("x")}
	e.prefetch()
	s := e.newSum64()
	e.each(n, p, 1, func(j int, last bool) { e.addSquare64(s, e.fetch(p[0], j, last)) })
	e.result64(s, 0)
	e.end()
}

// sums returns n cleared registers.
func (e *vector) sums(n int) []vec {
	s := make([]vec, n)
	for i := range s {
		s[i] = e.zero()
	}
	return s
}

// total returns the sum of all lanes of all registers, in every lane.
func (e *vector) total(s []vec) vec {
	for len(s) > 1 {
		var half []vec
		for i := 0; i < len(s); i += 2 {
			half = append(half, e.add(s[i], s[i+1]))
		}
		s = half
	}
	return e.fold(s[0], e.VADDPS)
}

// largest is total for the maximum.
func (e *vector) largest(s []vec) vec {
	m := s[0]
	for _, x := range s[1:] {
		m = e.op2(e.VMAXPS, nil, m, x)
	}
	return e.fold(m, e.VMAXPS)
}

const infinity = 0x7f800000

func (e *vector) max1() {
	e.begin("max", "func(x []float32) float32", "is the vector version of maxGeneric.")
	n, p := e.length("x"), []reg.GPVirtual{e.pointer("x")}
	var m []vec
	for range 4 {
		m = append(m, e.fill(e.bits(infinity|1<<31)))
	}
	unordered := e.zero()
	e.each(n, p, 4, func(j int, last bool) {
		x := e.load(p[0], j, last)
		// x + x·0 would be NaN for infinities, too; comparing with itself finds only NaN.
		if e.wide {
			k := e.K()
			e.VCMPPS(operand.U8(3), x, x, k)
			e.VMOVAPS(x, k, unordered)
		} else {
			u := e.reg()
			e.VCMPPS(operand.U8(3), x, x, u)
			e.VBLENDVPS(u, x, unordered, unordered)
		}
		e.merge(m[j], e.op2(e.VMAXPS, nil, m[j], x), last)
	})
	// Each lane of unordered is NaN or 0, so its sum is NaN if any lane is, and 0 otherwise. Adding 0 could change the
	// sign of a zero, so the maximum is replaced instead.
	top, nan := e.largest(m), e.fold(unordered, e.VADDPS)
	done := e.label("done")
	e.VUCOMISS(nan.AsX(), nan.AsX())
	e.JPC(operand.LabelRef(done))
	e.VMOVAPS(nan, top)
	e.Label(done)
	e.result(top, 0)
	e.end()
}

func (e *vector) allFinite() {
	e.begin("allFinite", "func(x []float32) bool", "is the vector version of allFiniteGeneric.")
	n, p := e.length("x"), []reg.GPVirtual{e.pointer("x")}
	e.prefetch()
	any := e.zero()
	// x·0 is NaN for NaN and infinities, and 0 otherwise, and so is the sum.
	e.each(n, p, 4, func(j int, last bool) { e.addMul(any, e.fetch(p[0], j, last), e.k(0)) })
	all, flag := e.fold(any, e.VADDPS), e.GP8()
	e.VUCOMISS(all.AsX(), all.AsX())
	e.SETPC(flag)
	e.Store(flag, e.ReturnIndex(0))
	e.end()
}

func (e *vector) columnSums() {
	// Rows that together exceed the second level cache come from memory, from more pages than prefetchers follow.
	// Measured: 640 rows of 30522 0.75 to 0.26 ns a number; 64 rows of 512, in cache, would be half as fast.
	const long, groupsAhead = 8 << 10, 4
	e.begin("columnSums", "func(y, x []float32, rows, ldx int)", "is the vector version of columnSumsGeneric, with the same bits; rows > 0.")
	n, y, x := e.length("y"), e.pointer("y"), e.pointer("x")
	rows := e.Load(e.Param("rows"), e.GP64()).(reg.GPVirtual)
	ldx := e.Load(e.Param("ldx"), e.GP64()).(reg.GPVirtual)
	e.SHLQ(operand.U8(2), ldx)
	sums := func(ahead int) {
		e.groups(n, []reg.GPVirtual{y, x}, 4, func(count int, last bool) {
			s := e.sums(count)
			row, left := e.GP64(), e.GP64()
			e.MOVQ(x, row)
			e.MOVQ(rows, left)
			loop := e.label("row")
			e.Label(loop)
			for j := range s {
				if ahead > 0 && count > 1 {
					e.PREFETCHT0(operand.Mem{Base: row, Disp: (ahead*count + j) * e.bytes()})
				}
				e.into(e.VADDPS, nil, s[j], e.load(row, j, last), s[j])
			}
			e.ADDQ(ldx, row)
			e.DECQ(left)
			e.JNZ(operand.LabelRef(loop))
			for j := range s {
				e.store(e.add(e.load(y, j, last), s[j]), y, j, last)
			}
		})
		e.end()
	}
	fromMemory := e.label("memory")
	e.CMPQ(ldx, operand.U32(4*long))
	e.JGE(operand.LabelRef(fromMemory))
	sums(0)
	e.Label(fromMemory)
	sums(groupsAhead)
}

// float returns n as a float32 in lane 0.
func (e *vector) float(n reg.GPVirtual) vec {
	d := e.reg()
	e.clear(d)
	e.VCVTSI2SSQ(n, d.AsX(), d.AsX())
	return d
}

// average divides lane 0 of the total by n and broadcasts it.
func (e *vector) average(total, n vec) vec {
	q, d := e.XMM(), e.reg()
	e.VDIVSS(n.AsX(), total.AsX(), q)
	e.VBROADCASTSS(q, d)
	return d
}

func (e *vector) layerNorm() {
	e.begin("layerNorm", "func(y, x, gamma, beta []float32, eps float32) (mean, rstd float32)",
		"is the vector version of layerNormGeneric; the row is not empty.")
	n, y, x, gamma, beta := e.length("y"), e.pointer("y"), e.pointer("x"), e.pointer("gamma"), e.pointer("beta")
	count := e.float(n)
	first := e.again(x)
	sums := e.sums(4)
	e.each(n, first, 4, func(j int, last bool) { e.into(e.VADDPS, nil, sums[j], e.load(first[0], j, last), sums[j]) })
	mean := e.average(e.total(sums), count)
	e.VMOVSS(mean.AsX(), address(e.ReturnIndex(0)))
	second := e.again(x)
	squares := e.sums(4)
	e.each(n, second, 4, func(j int, last bool) {
		d := e.existing(e.sub(e.load(second[0], j, last), mean), last)
		e.addMul(squares[j], d, d)
	})
	variance := e.average(e.total(squares), count)
	v, one := e.XMM(), e.XMM()
	e.VADDSS(address(e.Param("eps")), variance.AsX(), v)
	e.VSQRTSS(v, v, v)
	e.VMOVSS(e.k(1).Mem, one)
	e.VDIVSS(v, one, v)
	e.VMOVSS(v, address(e.ReturnIndex(1)))
	rstd := e.reg()
	e.VBROADCASTSS(v, rstd)
	e.each(n, []reg.GPVirtual{y, x, gamma, beta}, 2, func(j int, last bool) {
		d := e.mul(e.sub(e.load(x, j, last), mean), rstd)
		e.store(e.mulAdd(d, e.load(gamma, j, last), e.load(beta, j, last)), y, j, last)
	})
	e.end()
}

func (e *vector) layerNormGrad() {
	e.begin("layerNormGrad", "func(dx, dgamma, dbeta, dy, x, gamma []float32, mean, rstd float32)",
		"is the vector version of layerNormGradGeneric; the row is not empty.")
	n := e.length("dx")
	dx, dgamma, dbeta, dy, x, gamma := e.pointer("dx"), e.pointer("dgamma"), e.pointer("dbeta"), e.pointer("dy"),
		e.pointer("x"), e.pointer("gamma")
	mean, rstd := e.scalar("mean"), e.scalar("rstd")
	count := e.float(n)
	first := e.again(dy, x, gamma)
	sums, sumsX := e.sums(2), e.sums(2)
	e.each(n, append(first, dgamma, dbeta), 2, func(j int, last bool) {
		d := e.load(first[0], j, last)
		xhat := e.mul(e.sub(e.load(first[1], j, last), mean), rstd)
		e.store(e.addMul(e.load(dgamma, j, last), d, xhat), dgamma, j, last)
		e.store(e.add(e.load(dbeta, j, last), d), dbeta, j, last)
		g := e.mul(d, e.load(first[2], j, last))
		e.into(e.VADDPS, nil, sums[j], g, sums[j])
		e.addMul(sumsX[j], g, xhat)
	})
	avg, avgX := e.average(e.total(sums), count), e.average(e.total(sumsX), count)
	e.each(n, []reg.GPVirtual{dx, dy, x, gamma}, 2, func(j int, last bool) {
		xhat := e.mul(e.sub(e.load(x, j, last), mean), rstd)
		g := e.mul(e.load(dy, j, last), e.load(gamma, j, last))
		g = e.sub(g, avg)
		e.store(e.mul(e.subMul(g, xhat, avgX), rstd), dx, j, last)
	})
	e.end()
}

func (e *vector) normalise() {
	e.begin("normalise", "func(y, x, gamma, beta []float32, mean, rstd float32)",
		"is the vector version of normaliseGeneric, with the same bits.")
	n, y, x, gamma, beta := e.length("y"), e.pointer("y"), e.pointer("x"), e.pointer("gamma"), e.pointer("beta")
	mean, rstd := e.scalar("mean"), e.scalar("rstd")
	e.each(n, []reg.GPVirtual{y, x, gamma, beta}, 2, func(j int, last bool) {
		d := e.mul(e.sub(e.load(x, j, last), mean), rstd)
		e.store(e.add(e.mul(d, e.load(gamma, j, last)), e.load(beta, j, last)), y, j, last)
	})
	e.end()
}

// exponentials writes y = exp(x - top), 0 below -80, and returns the registers of the sum.
func (e *vector) exponentials(n, y, x reg.GPVirtual, top vec) []vec {
	p := e.again(y, x)
	sums := e.sums(2)
	e.each(n, p, 2, func(j int, last bool) {
		v := e.expCut(e.sub(e.load(p[1], j, last), top))
		e.store(v, p[0], j, last)
		e.into(e.VADDPS, nil, sums[j], e.existing(v, last), sums[j])
	})
	return sums
}

func (e *vector) softmax(masked bool) {
	name, signature := "softmax", "func(y, x []float32, scale float32)"
	if masked {
		name, signature = "softmaxMasked", "func(y, x, mask []float32, scale float32)"
	}
	e.begin(name, signature, "is the vector version of softmaxGeneric; the row is not empty.")
	n, y, x, scale := e.length("y"), e.pointer("y"), e.pointer("x"), e.scalar("scale")
	p := e.again(y, x)
	if masked {
		p = append(p, e.pointer("mask"))
	}
	var top []vec
	for range 4 {
		top = append(top, e.fill(e.bits(infinity|1<<31)))
	}
	e.each(n, p, 4, func(j int, last bool) {
		z := e.load(p[1], j, last)
		if masked {
			z = e.mulAdd(z, scale, e.load(p[2], j, last))
		} else {
			z = e.mul(z, scale)
		}
		e.store(z, p[0], j, last)
		e.merge(top[j], e.op2(e.VMAXPS, nil, top[j], z), last)
	})
	total := e.total(e.exponentials(n, y, y, e.largest(top)))
	one, inverse := e.XMM(), e.reg()
	e.VMOVSS(e.k(1).Mem, one)
	e.VDIVSS(total.AsX(), one, one)
	e.VBROADCASTSS(one, inverse)
	e.each(n, []reg.GPVirtual{y}, 4, func(j int, last bool) { e.store(e.mul(e.load(y, j, last), inverse), y, j, last) })
	e.end()
}

func (e *vector) expSum() {
	e.begin("expSum", "func(y, x []float32, top float32) float32", "is the vector version of expSumGeneric.")
	n, y, x, top := e.length("y"), e.pointer("y"), e.pointer("x"), e.scalar("top")
	e.result(e.total(e.exponentials(n, y, x, top)), 0)
	e.end()
}

func (e *vector) softmaxGrad() {
	e.begin("softmaxGrad", "func(dx, dy, y []float32, scale float32)", "is the vector version of softmaxGradGeneric.")
	n, dx, dy, y, scale := e.length("dx"), e.pointer("dx"), e.pointer("dy"), e.pointer("y"), e.scalar("scale")
	p := e.again(dy, y)
	sums := e.sums(4)
	e.each(n, p, 4, func(j int, last bool) { e.addMul(sums[j], e.load(p[0], j, last), e.load(p[1], j, last)) })
	sum := e.total(sums)
	e.each(n, []reg.GPVirtual{dx, dy, y}, 2, func(j int, last bool) {
		e.store(e.mul(e.sub(e.load(dy, j, last), sum), e.mul(e.load(y, j, last), scale)), dx, j, last)
	})
	e.end()
}
