package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The fields of kernels.Adam, in order.
const (
	adamLR = iota
	adamGradScale
	adamBeta1
	adamBeta2
	adamBeta3
	adamBeta4
	adamCorrection1
	adamCorrection2
	adamEps
	adamWeightDecay
)

func adam(wide bool) func(c *build.Context) {
	return func(c *build.Context) {
		e := newVector(c, wide)
		e.begin("adamW", "func(p, m, v, g []float32, c *float32)", "is the vector version of adamWGeneric; c points to an Adam.")
		at := e.Load(e.Param("c"), e.GP64()).(reg.GPVirtual)
		n, p, m, v, g := e.length("p"), e.pointer("p"), e.pointer("m"), e.pointer("v"), e.pointer("g")
		e.prefetch()
		restore := e.flush()
		e.each(n, []reg.GPVirtual{p, m, v, g}, 1, func(j int, last bool) {
			x, u := e.update(at, p, m, v, g, j, last)
			e.store(e.subMul(x, u, e.coefficient(at, adamLR)), p, j, last)
		})
		restore()
		e.end()

		doc := "is the vector version of lambGeneric; c points to an Adam."
		signature := "func(u, p, m, v, g []float32, c *float32) (pp, uu float64)"
		if !wide {
			doc = "computes u, m and v as lambGeneric does, without the sums; c points to an Adam."
			signature = "func(u, p, m, v, g []float32, c *float32)"
		}
		e.begin("lamb", signature, doc)
		at = e.Load(e.Param("c"), e.GP64()).(reg.GPVirtual)
		n, p, m, v, g = e.length("p"), e.pointer("p"), e.pointer("m"), e.pointer("v"), e.pointer("g")
		e.prefetch()
		restore = e.flush()
		out := e.pointer("u")
		var pp, uu sum64
		if wide {
			pp, uu = e.newSum64(), e.newSum64()
		}
		e.each(n, []reg.GPVirtual{out, p, m, v, g}, 1, func(j int, last bool) {
			x, u := e.update(at, p, m, v, g, j, last)
			e.store(u, out, j, last)
			if wide {
				e.addSquare64(pp, x)
				e.addSquare64(uu, e.existing(u, last))
			}
		})
		restore()
		if wide {
			e.result64(pp, 0)
			e.result64(uu, 1)
		}
		e.end()
	}
}

// coefficient is a field of the Adam that at points to.
func (e *vector) coefficient(at reg.GPVirtual, field int) arg {
	k := konst{operand.Mem{Base: at, Disp: 4 * field}}
	if e.wide {
		return k
	}
	return e.fill(k)
}

// update advances the moments at offset j and returns the parameters and their update.
func (e *vector) update(at, p, m, v, g reg.GPVirtual, j int, last bool) (x, u vec) {
	grad := e.mul(e.fetch(g, j, last), e.coefficient(at, adamGradScale))
	m1 := e.mul(e.fetch(m, j, last), e.coefficient(at, adamBeta1))
	e.addMul(m1, grad, e.coefficient(at, adamBeta3))
	e.store(m1, m, j, last)
	v1 := e.mul(e.fetch(v, j, last), e.coefficient(at, adamBeta2))
	e.addMul(v1, e.mul(grad, e.coefficient(at, adamBeta4)), grad)
	e.store(v1, v, j, last)
	root := e.add(e.sqrt(e.mul(v1, e.coefficient(at, adamCorrection2))), e.coefficient(at, adamEps))
	u = e.mul(e.mul(m1, e.coefficient(at, adamCorrection1)), e.inverse(root))
	x = e.fetch(p, j, last)
	return x, e.addMul(u, x, e.coefficient(at, adamWeightDecay))
}

// flush makes the processor treat subnormal numbers as 0 until restore. Moments that decay without gradients, those
// of rare words, become subnormal and would cost an assist of 150 cycles in every step.
func (e *vector) flush() (restore func()) {
	old, flushed, word := e.AllocLocal(8), e.AllocLocal(8), e.GP32()
	e.STMXCSR(old)
	e.MOVL(old, word)
	e.ORL(operand.U32(1<<15|1<<6), word) // FTZ: results; DAZ: operands
	e.MOVL(word, flushed)
	e.LDMXCSR(flushed)
	return func() { e.LDMXCSR(old) }
}
