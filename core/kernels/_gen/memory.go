package main

import (
	"math"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// load reads the vector at p[j·lanes]; lanes that do not exist are 0.
func (e *vector) load(p reg.GPVirtual, j int, last bool) vec {
	d, m := e.reg(), operand.Mem{Base: p, Disp: j * e.bytes()}
	switch {
	case !last:
		e.VMOVUPS(m, d)
	case e.wide:
		e.VMOVUPS_Z(m, e.tail.k, d)
	default:
		e.VMASKMOVPS(m, e.tail.v, d)
	}
	return d
}

// prefetch loads the distance for fetch.
func (e *vector) prefetch() {
	e.ahead = e.GP64()
	e.MOVQ(operand.NewDataAddr(operand.Symbol{Name: "·fetchAhead"}, 0), e.ahead)
}

// fetch is load for passes over memory: it also prefetches what lies ahead.
func (e *vector) fetch(p reg.GPVirtual, j int, last bool) vec {
	if !last {
		e.PREFETCHT0(operand.Mem{Base: p, Index: e.ahead, Scale: 1, Disp: j * e.bytes()})
	}
	return e.load(p, j, last)
}

func (e *vector) store(x vec, p reg.GPVirtual, j int, last bool) {
	m := operand.Mem{Base: p, Disp: j * e.bytes()}
	switch {
	case !last:
		e.VMOVUPS(x, m)
	case e.wide:
		e.VMOVUPS(x, e.tail.k, m)
	default:
		e.VMASKMOVPS(x, e.tail.v, m)
	}
}

// merge changes d to x, in the lanes that exist.
func (e *vector) merge(d, x vec, last bool) {
	switch {
	case !last:
		e.VMOVAPS(x, d)
	case e.wide:
		e.VMOVAPS(x, e.tail.k, d)
	default:
		e.VBLENDVPS(e.tail.v, x, d, d)
	}
}

// existing returns x, with 0 in the lanes that do not exist.
func (e *vector) existing(x vec, last bool) vec {
	if !last {
		return x
	}
	if !e.wide {
		return e.and(x, e.tail.v)
	}
	d := e.reg()
	e.VMOVAPS_Z(x, e.tail.k, d)
	return d
}

// each writes loops over n elements: unroll vectors at a time, then one, then the last incomplete one. body writes
// the work on the vector at offset j of the pointers, which advance.
func (e *vector) each(n reg.GPVirtual, pointers []reg.GPVirtual, unroll int, body func(j int, last bool)) {
	e.groups(n, pointers, unroll, func(count int, last bool) {
		for j := range count {
			body(j, last)
		}
	})
}

// groups is each with the vectors of one iteration together.
func (e *vector) groups(n reg.GPVirtual, pointers []reg.GPVirtual, unroll int, body func(count int, last bool)) {
	left := e.GP64()
	e.MOVQ(n, left)
	steps := []int{unroll}
	if unroll > 1 {
		steps = append(steps, 1)
	}
	for _, u := range steps {
		loop, rest := e.label("loop"), e.label("rest")
		e.SUBQ(operand.I32(u*e.lanes()), left)
		e.JLT(operand.LabelRef(rest))
		e.Label(loop)
		body(u, false)
		for _, p := range pointers {
			e.ADDQ(operand.I32(u*e.bytes()), p)
		}
		e.SUBQ(operand.I32(u*e.lanes()), left)
		e.JGE(operand.LabelRef(loop))
		e.Label(rest)
		e.ADDQ(operand.I32(u*e.lanes()), left)
	}
	done := e.label("done")
	e.TESTQ(left, left)
	e.JZ(operand.LabelRef(done))
	e.setTail(left)
	body(1, true)
	e.Label(done)
}

// setTail makes the mask of the first n lanes.
func (e *vector) setTail(n reg.GPVirtual) {
	if e.wide {
		ones := e.GP32()
		e.MOVL(operand.U32(0xffff), ones)
		e.BZHIL(n.As32(), ones, ones)
		e.tail.k = e.K()
		e.KMOVW(ones, e.tail.k)
		return
	}
	// The table holds eight words of ones and eight of zeros: reading 8-n words into it gives n ones.
	table, ok := e.consts[tailTable]
	if !ok {
		table = e.StaticGlobal("tail")
		e.DataAttributes(attr.RODATA | attr.NOPTR)
		for i := range 16 {
			word := uint32(0)
			if i < 8 {
				word = math.MaxUint32
			}
			e.AddDatum(4*i, operand.U32(word))
		}
		e.consts[tailTable] = table
	}
	at, index := e.GP64(), e.GP64()
	e.LEAQ(table, at)
	e.MOVQ(operand.I32(8), index)
	e.SUBQ(n, index)
	e.tail.v = e.reg()
	e.VMOVUPS(operand.Mem{Base: at, Index: index, Scale: 4}, e.tail.v)
}

// tailTable is the key of the table in consts: a NaN that no kernel has as a constant.
const tailTable = 0x7fabcdef

// again returns copies of pointers for another pass.
func (e *vector) again(pointers ...reg.GPVirtual) []reg.GPVirtual {
	var out []reg.GPVirtual
	for _, p := range pointers {
		q := e.GP64()
		e.MOVQ(p, q)
		out = append(out, q)
	}
	return out
}

// result stores lane 0 of x, after which no vector is live.
func (e *vector) result(x vec, index int) {
	e.VMOVSS(x.AsX(), address(e.ReturnIndex(index)))
}
