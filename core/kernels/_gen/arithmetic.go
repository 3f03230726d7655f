package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
)

type instruction func(...operand.Op)

// op2 writes d = f(a, b).
func (e *vector) op2(f, broadcast instruction, a vec, b arg) vec {
	d := e.reg()
	e.into(f, broadcast, a, b, d)
	return d
}

func (e *vector) into(f, broadcast instruction, a vec, b arg, d vec) {
	switch b := b.(type) {
	case konst:
		if e.wide {
			broadcast(b.Mem, a, d)
		} else {
			f(b.Mem, a, d)
		}
	case operand.Op:
		f(b, a, d)
	default:
		panic(fmt.Sprintf("operand %v", b))
	}
}

func (e *vector) add(a vec, b arg) vec { return e.op2(e.VADDPS, e.VADDPS_BCST, a, b) }
func (e *vector) sub(a vec, b arg) vec { return e.op2(e.VSUBPS, e.VSUBPS_BCST, a, b) }
func (e *vector) mul(a vec, b arg) vec { return e.op2(e.VMULPS, e.VMULPS_BCST, a, b) }

// max and min return their second argument when one is NaN: it must be the variable.
func (e *vector) max(a konst, b vec) vec { return e.op2(e.VMAXPS, nil, e.fill(a), b) }
func (e *vector) min(a konst, b vec) vec { return e.op2(e.VMINPS, nil, e.fill(a), b) }

func (e *vector) and(a vec, b arg) vec {
	if e.wide {
		return e.op2(e.VPANDD, e.VPANDD_BCST, a, b)
	}
	return e.op2(e.VANDPS, nil, a, b)
}

func (e *vector) or(a vec, b arg) vec {
	if e.wide {
		return e.op2(e.VPORD, e.VPORD_BCST, a, b)
	}
	return e.op2(e.VORPS, nil, a, b)
}

func (e *vector) xor(a vec, b arg) vec {
	if e.wide {
		return e.op2(e.VPXORD, e.VPXORD_BCST, a, b)
	}
	return e.op2(e.VXORPS, nil, a, b)
}

func (e *vector) zero() vec {
	d := e.reg()
	e.clear(d)
	return d
}

func (e *vector) clear(d vec) {
	if e.wide {
		e.VPXORD(d, d, d)
	} else {
		e.VXORPS(d, d, d)
	}
}

// The fused operations change their first argument: mulAdd makes it d·x + c, addMul d + x·y, subMul d - x·y, rest c
// - d·x.
func (e *vector) mulAdd(d, x vec, c arg) vec {
	e.into(e.VFMADD213PS, e.VFMADD213PS_BCST, x, c, d)
	return d
}
func (e *vector) addMul(d, x vec, y arg) vec {
	e.into(e.VFMADD231PS, e.VFMADD231PS_BCST, x, y, d)
	return d
}
func (e *vector) subMul(d, x vec, y arg) vec {
	e.into(e.VFNMADD231PS, e.VFNMADD231PS_BCST, x, y, d)
	return d
}
func (e *vector) rest(d, x vec, c arg) vec {
	e.into(e.VFNMADD213PS, e.VFNMADD213PS_BCST, x, c, d)
	return d
}

// poly evaluates Σ c[i]·x^i by Horner's rule.
func (e *vector) poly(x vec, c ...float64) vec {
	p := e.fill(e.k(c[len(c)-1]))
	for i := len(c) - 2; i >= 0; i-- {
		e.mulAdd(p, x, e.k(c[i]))
	}
	return p
}

// nearest rounds to an integer, ties to even.
func (e *vector) nearest(x vec) vec {
	d := e.reg()
	if e.wide {
		e.VRNDSCALEPS(operand.U8(8), x, d)
	} else {
		e.VROUNDPS(operand.U8(8), x, d)
	}
	return d
}

// scalb returns p·2^n for whole n in [-250, 250].
func (e *vector) scalb(p, n vec) vec {
	d := e.reg()
	if e.wide {
		e.VSCALEFPS(n, p, d)
		return d
	}
	// Two factors, each a normal number: one alone would not reach subnormal results.
	whole, half, other := e.reg(), e.reg(), e.reg()
	e.VCVTPS2DQ(n, whole)
	e.VPSRAD(operand.U8(1), whole, half)
	e.VPSUBD(half, whole, other)
	bias := e.bits(127)
	e.VPADDD(bias.Mem, half, half)
	e.VPSLLD(operand.U8(23), half, half)
	e.VPADDD(bias.Mem, other, other)
	e.VPSLLD(operand.U8(23), other, other)
	e.VMULPS(half, p, d)
	e.VMULPS(other, d, d)
	return d
}

// inverse returns 1/x within 2^-23 for finite x below 2^126: an approximation to 14 bits and one Newton step, which
// costs a quarter of a division of 16 lanes. Eight lanes divide.
func (e *vector) inverse(x vec) vec {
	if !e.wide {
		d := e.fill(e.k(1))
		e.VDIVPS(x, d, d)
		return d
	}
	r := e.reg()
	e.VRCP14PS(x, r)
	t := e.copy(r)
	e.rest(t, x, e.k(1)) // 1 - r·x
	return e.mulAdd(t, r, r)
}

// sqrt is the exact square root.
func (e *vector) sqrt(x vec) vec {
	d := e.reg()
	e.VSQRTPS(x, d)
	return d
}

// fold combines the lanes of x in halves and returns a register with the result in every lane.
func (e *vector) fold(x vec, f instruction) vec {
	if e.wide {
		for _, swap := range []uint64{0x4e, 0xb1} { // halves of the register, then quarters of the halves
			y := e.reg()
			e.VSHUFF32X4(operand.U8(swap), x, x, y)
			z := e.reg()
			f(y, x, z)
			x = z
		}
	} else {
		y, z := e.reg(), e.reg()
		e.VPERM2F128(operand.U8(1), x, x, y)
		f(y, x, z)
		x = z
	}
	for _, swap := range []uint64{0x4e, 0xb1} {
		y, z := e.reg(), e.reg()
		e.VPERMILPS(operand.U8(swap), x, y)
		f(y, x, z)
		x = z
	}
	return x
}
