package main

import (
	"math"
	"strings"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// elementwise writes the kernels that treat each element alone.
func elementwise(wide bool) func(c *build.Context) {
	return func(c *build.Context) {
		e := newVector(c, wide)
		e.zip("add", "z, x, y", 4, func(in []vec) vec { return e.add(in[0], in[1]) })
		e.zip("mul", "z, x, y", 4, func(in []vec) vec { return e.mul(in[0], in[1]) })
		e.scalarKernels()
		e.zip("exp", "y, x", 2, func(in []vec) vec { return e.exp(e.min(e.k(expHigh), in[0])) })
		e.zip("tanh", "y, x", 2, func(in []vec) vec { return e.tanh(in[0]) })
		e.zip("tanhGrad", "dx, dy, y", 2, func(in []vec) vec {
			t := e.copy(in[1])
			return e.mul(e.rest(t, in[1], e.k(1)), in[0])
		})
		e.zip("geluErf", "y, x", 2, func(in []vec) vec {
			x := e.max(e.k(-geluRange), in[0])
			cdf, _ := e.normal(x)
			return e.mul(cdf, x)
		})
		e.zip("geluErfGrad", "dx, dy, x", 2, func(in []vec) vec {
			x := e.min(e.k(geluRange), e.max(e.k(-geluRange), in[1]))
			cdf, density := e.normal(x)
			return e.mul(e.addMul(cdf, e.mul(x, e.k(1/math.Sqrt(2*math.Pi))), density), in[0])
		})
		e.zip("geluTanh", "y, x", 2, func(in []vec) vec {
			x := e.max(e.k(-geluRange), in[0])
			s, _ := e.logistic(x, e.mul(x, x))
			return e.mul(s, x)
		})
		// s + x·s·(1-s)·2u', u' = sqrt(2/π)·(1 + 3·0.044715·x²); 1-s is exp·s, which does not cancel.
		e.zip("geluTanhGrad", "dx, dy, x", 2, func(in []vec) vec {
			x := e.min(e.k(geluRange), e.max(e.k(-geluRange), in[1]))
			xx := e.mul(x, x)
			s, exp := e.logistic(x, xx)
			slope := e.mul(x, e.poly(xx, 2*sqrt2OverPi, 6*sqrt2OverPi*cubic))
			es := e.mul(exp, s)
			t := e.mul(es, s)
			return e.mul(e.addMul(s, slope, t), in[0])
		})
	}
}

const (
	sqrt2OverPi = 0.79788456080286535588
	cubic       = 0.044715
	geluRange   = 12   // beyond it GELU is 0 within 1e-31 or x to the last bit, and no intermediate result is subnormal
	expHigh     = 89   // overflows
	expLow      = -104 // underflows to 0
	log2e       = 1.44269504088896341
	ln2High     = 0.693359375 // 9 bits, so that its product with n is exact
	ln2Low      = math.Ln2 - ln2High
)

func newVector(c *build.Context, wide bool) *vector {
	return &vector{Context: c, wide: wide, consts: map[uint32]operand.Mem{}}
}

// zip writes a kernel that combines the slices after the first into the first.
func (e *vector) zip(name, names string, unroll int, f func(in []vec) vec) {
	list := strings.Split(names, ", ")
	e.begin(name, slices(names), "is the vector version of "+name+"Generic.")
	n := e.length(list[0])
	var p []reg.GPVirtual
	for _, s := range list {
		p = append(p, e.pointer(s))
	}
	e.each(n, p, unroll, func(j int, last bool) {
		var in []vec
		for _, q := range p[1:] {
			in = append(in, e.load(q, j, last))
		}
		e.store(f(in), p[0], j, last)
	})
	e.end()
}

func (e *vector) scalarKernels() {
	e.begin("axpy", "func(y []float32, a float32, x []float32)", "computes y += a·x, fused.")
	n, y, x, a := e.length("y"), e.pointer("y"), e.pointer("x"), e.scalar("a")
	e.each(n, []reg.GPVirtual{y, x}, 4, func(j int, last bool) {
		e.store(e.addMul(e.load(y, j, last), a, e.load(x, j, last)), y, j, last)
	})
	e.end()

	e.begin("scale", "func(y []float32, a float32, x []float32)", "computes y = a·x.")
	n, y, x, a = e.length("y"), e.pointer("y"), e.pointer("x"), e.scalar("a")
	e.each(n, []reg.GPVirtual{y, x}, 4, func(j int, last bool) { e.store(e.mul(e.load(x, j, last), a), y, j, last) })
	e.end()
}

// reduced returns n and the polynomial of e^r - 1 over r, where x = n·ln 2 + r, |r| <= ln(2)/2. Coefficients:
// Cephes, expf.
func (e *vector) reduced(x vec) (n, r, p vec) {
	n = e.nearest(e.mul(x, e.k(log2e)))
	r = e.copy(x)
	e.subMul(r, n, e.k(ln2High))
	e.subMul(r, n, e.k(ln2Low))
	p = e.poly(r, 5.0000001201e-1, 1.6666665459e-1, 4.1665795894e-2, 8.3334519073e-3, 1.3981999507e-3, 1.9875691500e-4)
	return n, r, p
}

// exp returns e^x for x below 10 000 or so, or NaN.
func (e *vector) exp(x vec) vec {
	n, r, p := e.reduced(e.max(e.k(expLow), x))
	e.mulAdd(p, e.mul(r, r), r)
	return e.scalb(e.add(p, e.k(1)), n)
}

// expCut returns e^x for x <= 0, or NaN, and 0 where x < -80. Smaller results would give subnormal products, which
// cost 150 cycles each: a row with masked positions, whose x is -10000, took ten times as long.
func (e *vector) expCut(x vec) vec {
	cut := e.fill(e.k(-80))
	if e.wide {
		k, d := e.K(), e.reg()
		e.VCMPPS(operand.U8(5), cut, x, k) // not less, or unordered
		n, r, p := e.reduced(x)
		e.mulAdd(p, e.mul(r, r), r)
		e.VSCALEFPS_Z(n, e.add(p, e.k(1)), k, d)
		return d
	}
	k := e.reg()
	e.VCMPPS(operand.U8(5), cut, x, k)
	return e.and(e.exp(e.op2(e.VMAXPS, nil, cut, x)), k)
}

// exp2 returns 2^t for t above -160, or NaN, with an absolute error of 2^-22. The relative error is that of t,
// |t|·2^-24, so use it only where small results need no relative precision. Coefficients: Cephes, exp2f.
func (e *vector) exp2(t vec) vec {
	n := e.nearest(t)
	p := e.poly(e.sub(t, n), 1, 6.931472028550421e-1, 2.402264791363012e-1, 5.550332471162809e-2, 9.618437357674640e-3,
		1.339887440266574e-3, 1.535336188319500e-4)
	return e.scalb(p, n)
}

// tanh returns (e^2a - 1)/(e^2a + 1), a = |x|, with the sign of x; e^2a - 1 = 2^n·(e^r - 1) + 2^n - 1 does not cancel.
func (e *vector) tanh(x vec) vec {
	a := e.min(e.k(10), e.and(x, e.bits(0x7fffffff)))
	n, r, p := e.reduced(e.add(a, a))
	e.mulAdd(p, e.mul(r, r), r)
	s := e.scalb(e.fill(e.k(1)), n)
	e.mulAdd(p, s, e.sub(s, e.k(1)))
	t := e.mul(p, e.inverse(e.add(p, e.k(2))))
	return e.or(t, e.and(x, e.bits(1<<31)))
}

// normal returns Φ(x) and exp(-x²/2) for x in ±12 or above, or NaN. With a = |x|, Φ(-a) = exp(-a²/2)·R(t), t = 1/(1
// + 0.3·a), where R is a polynomial with a relative error of 6e-8 on [0, 14] (least squares with Lawson's weights,
// of erfc in float64). The form is that of Abramowitz and Stegun, 26.2.17.
func (e *vector) normal(x vec) (cdf, exp vec) {
	a := e.min(e.k(geluRange), e.and(x, e.bits(0x7fffffff)))
	exp = e.exp2(e.mul(e.mul(a, a), e.k(-0.5*log2e)))
	d := e.copy(a)
	e.mulAdd(d, e.fill(e.k(0.3)), e.k(1))
	below := e.mul(exp, e.poly(e.inverse(d), millsPolynomial...))
	// 1 - below where x > 0.
	above := e.sub(e.fill(e.k(1)), below)
	if e.wide {
		negative := e.K()
		e.VPMOVD2M(x, negative)
		e.VMOVAPS(below, negative, above)
		return above, exp
	}
	cdf = e.reg()
	e.VBLENDVPS(x, below, above, cdf)
	return cdf, exp
}

// logistic returns 1/(1 + exp) and exp = e^-2u, u = sqrt(2/π)·(x + 0.044715·x³). The exponential is limited to
// 2^115, where the first is practically 0.
func (e *vector) logistic(x, xx vec) (s, exp vec) {
	u := e.mul(x, e.poly(xx, -2*sqrt2OverPi*log2e, -2*sqrt2OverPi*cubic*log2e)) // -2u·log2(e)
	exp = e.exp2(e.max(e.k(-150), e.min(e.k(115), u)))
	return e.inverse(e.add(exp, e.k(1))), exp
}

// millsPolynomial is R(t), lowest power first; see normal.
var millsPolynomial = []float64{
	7.16887597587e-06, 0.119487688949, 0.121920342208, 0.0946835229519, 0.142535524411, -0.0765064774371, 0.228660080962,
	-0.169166111566, 0.0383782895613,
}
