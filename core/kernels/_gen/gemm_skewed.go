package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A skewed panel hides the rounding of its sums behind multiplications. Rounding all sums at once would leave the two
// ports of the multiply-add idle, so that groups of rows take turns: while one is rounded, the others multiply. A
// period is a slot for each product of a chunk, and idle ones for the rounding; each group's chunks begin a quarter of
// a period after those of the group before, and it reads B through a pointer of its own.
const (
	groups = 4
	idle   = 5 // a quarter of the period
	period = chunk + idle
)

// spread is how many instructions of rounding follow each row's multiplications, a little more than what is done when
// the group's next chunk begins.
const spread = 1.1 * 23 * 12 / groups / (idle * (12 - 12/groups))

// part says which chunks a period serves.
type part int

const (
	first  part = iota // the first chunk; groups wait for their turns
	middle             // a chunk, and the end of the one before in the groups behind
	last               // only that end
)

// skewed is the state of a panel while it is written.
type skewed struct {
	*rounded
	b, a    [groups]reg.GPVirtual // a: of columns
	top     vec                   // the largest magnitudes of the sums
	waiting []func()              // rounding instructions to be spread
	owed    float64               // of them
}

// begin returns the slot in which a group's chunks begin.
func begin(group int) int { return (period*group + groups/2) / groups }

// skewed writes the products of all whole chunks of a panel; there is at least one. Afterwards b and the pointers to A
// are behind them, and k products are left. The mask is not zero when a sum may have been too large.
func (m *rounded) skewed(b, k reg.GPVirtual) (large reg.OpmaskVirtual) {
	s := &skewed{rounded: m, top: m.zero()}
	s.b[0] = b
	if m.columns {
		s.a[0] = m.base[0]
	}
	for g := 1; g < groups; g++ {
		s.b[g] = m.GP64()
		m.MOVQ(b, s.b[g])
		if m.columns {
			s.a[g] = m.GP64()
			m.MOVQ(m.base[0], s.a[g])
		}
	}
	m.rowKeys()
	s.period(first, k)
	m.CMPQ(k, operand.U8(chunk))
	m.JLT(operand.LabelRef("ending"))
	m.Label("skewed")
	s.keepKeys()
	m.rowKeys()
	s.period(middle, k)
	m.CMPQ(k, operand.U8(chunk))
	m.JGE(operand.LabelRef("skewed"))
	m.Label("ending")
	s.keepKeys()
	s.period(last, k)
	large = m.K()
	m.VCMPPS_BCST(operand.U8(30), m.bits(halfMax).Mem, s.top, large)
	return large
}

// keepKeys keeps the rows' factors for groups that have not finished the chunk.
func (s *skewed) keepKeys() {
	x := s.reg()
	s.VMOVUPS(s.keys, x)
	s.VMOVUPS(x, s.before)
}

// period writes one.
func (s *skewed) period(which part, k reg.GPVirtual) {
	for slot := range period {
		for g := range groups {
			step := slot - begin(g)
			behind := step < 0
			if behind {
				step += period
			}
			if step == 0 {
				s.write(len(s.waiting))
			}
			if step >= chunk || behind && which == first || !behind && which == last {
				continue
			}
			s.products(g, step, behind)
		}
	}
	s.write(len(s.waiting))
	if which == last {
		return
	}
	if !s.columns {
		for _, p := range s.base {
			s.ADDQ(operand.I32(4*chunk), p)
		}
	}
	near := s.label("near")
	s.SUBQ(operand.U8(chunk), k)
	s.TESTB(operand.U8(63), k.As8())
	s.JNE(operand.LabelRef(near))
	s.ADDQ(s.saved[3], s.line)
	s.Label(near)
}

// products writes one product for each sum of a group: number step of a chunk, which may be the one before.
func (s *skewed) products(group, step int, behind bool) {
	var b [vectors]vec
	for v := range b {
		b[v] = s.reg()
		s.VMOVUPS(operand.Mem{Base: s.b[group], Disp: v * s.bytes()}, b[v])
		if group == 0 {
			s.PREFETCHT0(operand.Mem{Base: s.b[group], Index: s.ldb, Scale: 8, Disp: v * s.bytes()})
		}
	}
	s.ADDQ(s.ldb, s.b[group])
	if group == 0 && step%8 == 3 {
		s.PREFETCHT1(operand.Mem{Base: s.line})
	}
	if group == 0 && step%8 == 7 {
		s.PREFETCHT1(operand.Mem{Base: s.line, Disp: 64})
		s.SUBQ(operand.I8(-128), s.line)
	}
	rows := s.rows / groups
	for i := group * rows; i < (group+1)*rows; i++ {
		var at operand.Mem
		switch {
		case s.columns:
			at = operand.Mem{Base: s.a[group], Disp: 4 * i}
		case behind:
			at = s.element(i, step-chunk)
		default:
			at = s.element(i, step)
		}
		if s.folds(i) {
			for v := range b {
				s.VFMADD231PS_BCST(at, b[v], s.sums[i][v])
			}
		} else {
			x := s.reg()
			s.VBROADCASTSS(at, x)
			for v := range b {
				s.VFMADD231PS(b[v], x, s.sums[i][v])
			}
		}
		s.owed += spread
		s.write(int(s.owed))
		s.owed -= float64(int(s.owed))
		if step == chunk-1 {
			s.round(i, behind)
		}
	}
	if s.columns {
		if group == 0 {
			s.PREFETCHT0(operand.Mem{Base: s.a[0], Index: s.lda, Scale: 8})
			s.PREFETCHT0(operand.Mem{Base: s.a[0], Index: s.lda, Scale: 8, Disp: 4 * (s.rows - 1)})
		}
		s.ADDQ(s.lda, s.a[group])
	}
}

// folds says whether a row's multiply-adds broadcast an operand from memory. Zen 4 hides the rounding behind
// multiplications when half of the rows do, and not when each broadcast is an instruction of its own.
func (s *skewed) folds(i int) bool { return s.columns || i%2 == 0 }

// write writes instructions that wait.
func (s *skewed) write(count int) {
	for ; count > 0 && len(s.waiting) > 0; count-- {
		s.waiting[0]()
		s.waiting = s.waiting[1:]
	}
}

// round lets the instructions wait that round the sums of a row, see rounded.stochastic.
func (s *skewed) round(i int, behind bool) {
	keys := s.keys
	if behind {
		keys = s.before
	}
	keys.Disp += 4 * i
	high, low := s.reg(), s.reg()
	s.wait(func() { s.VPBROADCASTD(keys, high) })
	s.wait(func() { s.VPMULLD(s.columnsAt, high, high) })
	for v, random := range []vec{low, high} {
		x, sized := s.sums[i][v], s.reg()
		s.wait(func() { s.VRANGEPS_BCST(operand.U8(3), s.bits(halfNormal).Mem, x, sized) })
		s.wait(func() { s.VRANGEPS(operand.U8(11), sized, s.top, s.top) })
		s.wait(func() { s.VPSUBD(sized, x, low) })
		s.wait(func() { s.VPSRAD(operand.U8(31), low, low) })
		s.wait(func() { s.VPANDD(low, sized, sized) })
		s.wait(func() { s.VADDPS_RZ_SAE(sized, x, x) })
		if v == 0 {
			s.wait(func() { s.VPSRLD(operand.U8(6), high, low) })
			s.wait(func() { s.VPANDND(low, s.truncated, low) })
		} else {
			s.wait(func() { s.VPSRLD(operand.U8(19), high, high) })
		}
		s.wait(func() { s.VPADDD(random, x, x) })
		s.wait(func() { s.VPANDD(s.truncated, x, x) })
		s.wait(func() { s.VSUBPS(sized, x, x) })
	}
}

func (s *skewed) wait(f func()) { s.waiting = append(s.waiting, f) }
