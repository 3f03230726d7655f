package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Numbers of FP16 as float32, and the bits that it lacks.
const (
	halfNormal = 0x38800000 // 2^-14
	halfMax    = 0x477fe000 // 65504
	halfOver   = 0x477ff000 // 65520, which is rounded to 2^16
	halfInf    = 0x47800000 // 2^16
	lowMask    = 1<<13 - 1
	signMask   = 1 << 31
)

// round rounds the sums.
func (m *rounded) round() {
	large := m.large()
	m.CMPB(m.noise.stochastic, operand.U8(0))
	m.JEQ(operand.LabelRef("nearest"))
	for i := range m.rows {
		m.stochastic(i)
	}
	m.testLarge(large)
	m.JZ(operand.LabelRef("rounded"))
	m.replace(halfInf)
	m.JMP(operand.LabelRef("rounded"))
	m.Label("nearest")
	m.testLarge(large)
	m.JZ(operand.LabelRef("convert"))
	m.replace(halfOver)
	m.Label("convert")
	for i := range m.rows {
		for _, x := range m.sums[i] {
			if m.wide {
				h := m.YMM()
				m.VCVTPS2PH(operand.U8(0), x, h)
				m.VCVTPH2PS(h, x)
			} else {
				h := m.XMM()
				m.VCVTPS2PH(operand.U8(0), x, h)
				m.VCVTPH2PS(h, x)
			}
		}
	}
	m.Label("rounded")
}

// large finds out whether a sum may be too large for FP16, in a mask (AVX-512) or a register of bits.
func (m *rounded) large() reg.Register {
	limit := m.bits(halfMax)
	if m.wide {
		var top [vectors]vec
		for v := range top {
			top[v] = m.copy(m.sums[0][v])
		}
		for i := range m.rows {
			for v := range top {
				m.VRANGEPS(operand.U8(11), m.sums[i][v], top[v], top[v]) // the larger magnitude, positive; NaN loses
			}
		}
		m.VRANGEPS(operand.U8(11), top[0], top[1], top[0])
		k := m.K()
		m.VCMPPS_BCST(operand.U8(30), limit.Mem, top[0], k)
		return k
	}
	top, over := m.zero(), m.GP32()
	for i := range m.rows {
		for _, x := range m.sums[i] {
			m.VPMAXUD(m.and(x, m.bits(^uint32(signMask))), top, top)
		}
	}
	m.VPCMPGTD(limit.Mem, top, top)
	m.VMOVMSKPS(top, over)
	return over
}

func (m *rounded) testLarge(large reg.Register) {
	if m.wide {
		m.KORTESTW(large, large)
	} else {
		m.TESTL(large, large)
	}
}

// replace gives finite sums from a magnitude on the value of those that overflow, with their sign.
func (m *rounded) replace(from uint32) {
	over := m.reg()
	for i := range m.rows {
		for _, x := range m.sums[i] {
			m.VPBROADCASTD(m.noise.over, over)
			a := m.addInt(m.and(x, m.bits(^uint32(signMask))), m.bits(-from))
			if m.wide {
				k := m.compare(1, a, m.bits(infinity-from))
				m.VPTERNLOGD_BCST(operand.U8(0xf8), m.bits(signMask).Mem, x, over) // over | x & sign
				m.VMOVAPS(over, k, x)
				continue
			}
			k := m.reg()
			m.VPMINUD(m.bits(infinity-from-1).Mem, a, k)
			m.VPCMPEQD(k, a, k) // a < infinity - from, unsigned
			m.VPOR(m.and(x, m.bits(signMask)), over, over)
			m.VBLENDVPS(k, over, x, x)
		}
	}
}

// stochastic rounds the sums of a row: random bits are added below the bits that FP16 has, and the rest is cut. To
// values that FP16 has with fewer bits it first adds 2^-14 with their sign, rounding towards zero.
func (m *rounded) stochastic(i int) {
	if !m.wide {
		for v, x := range m.sums[i] {
			m.stochasticAVX2(m.key(i), m.column[v], x)
		}
		return
	}
	high, low := m.reg(), m.reg()
	if m.skew {
		m.VMOVUPS(m.columnsAt, high)
		m.VPMULLD_BCST(m.key(i), high, high)
	} else {
		m.VPMULLD_BCST(m.key(i), m.numbers, high)
	}
	m.VPSRLD(operand.U8(6), high, low)
	m.VPSRLD(operand.U8(19), high, high)
	m.VPANDND(low, m.truncated, low)
	for v, random := range []vec{low, high} {
		x, s, small := m.sums[i][v], m.reg(), m.K()
		if m.skew {
			m.VRANGEPS_BCST(operand.U8(3), m.bits(halfNormal).Mem, x, s)
		} else {
			m.VRANGEPS(operand.U8(3), m.least, x, s) // the larger magnitude, the sign of x; 2^-14 if x is NaN
		}
		m.VCMPPS(operand.U8(4), s, x, small)
		m.VADDPS_RZ_SAE(s, x, small, x)
		m.VPADDD(random, x, x)
		m.VPANDD(m.truncated, x, x)
		m.VSUBPS(s, x, small, x)
	}
}

// stochasticAVX2 does so for one vector. Small values are counted in units of 2^-37.
func (m *rounded) stochasticAVX2(row, column operand.Mem, x vec) {
	random, a, units := m.reg(), m.reg(), m.reg()
	m.VPBROADCASTD(row, random)
	m.VPMULLD(column, random, random)
	m.VPSRLD(m.shift, random, random)
	m.VPAND(m.bits(lowMask).Mem, random, random)
	m.VPAND(m.bits(^uint32(signMask)).Mem, x, a)
	m.VMULPS(m.k(1<<37).Mem, a, units)
	m.VCVTTPS2DQ(units, units)
	m.VPADDD(random, units, units)
	m.VPSRLD(operand.U8(13), units, units)
	m.VCVTDQ2PS(units, units)
	m.VMULPS(m.k(1.0/(1<<24)).Mem, units, units)
	m.VPADDD(random, a, random)
	m.VPAND(m.bits(^uint32(lowMask)).Mem, random, random)
	m.VPCMPGTD(m.bits(halfNormal-1).Mem, a, a)
	m.VBLENDVPS(a, random, units, units)
	m.VPAND(m.bits(signMask).Mem, x, x)
	m.VPOR(units, x, x)
	m.VADDPS(m.k(0).Mem, x, x) // -0 becomes 0
}
