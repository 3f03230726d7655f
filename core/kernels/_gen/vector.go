package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/gotypes"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A vector writes one function for vectors of 16 lanes (AVX-512) or 8 (AVX2 with FMA): kernels are written once, over its methods. Values are
// virtual registers that are written once, except where a method says that it changes its argument.
type vector struct {
	*build.Context
	wide   bool
	labels int
	tail   tail
	consts map[uint32]operand.Mem
	ahead  reg.GPVirtual // how far fetch prefetches
}

type vec = reg.VecVirtual

// tail is the mask of the lanes that exist in the last, incomplete vector.
type tail struct {
	k reg.OpmaskVirtual // AVX-512
	v vec               // AVX2: all ones in the lanes that exist
}

// konst is a constant in memory, that an instruction can take as its last source.
type konst struct{ operand.Mem }

// arg is a vec or a konst.
type arg any

func (e *vector) lanes() int {
	if e.wide {
		return 16
	}
	return 8
}

func (e *vector) bytes() int { return 4 * e.lanes() }

func (e *vector) suffix() string {
	if e.wide {
		return "AVX512"
	}
	return "AVX2"
}

func (e *vector) reg() vec {
	if e.wide {
		return e.ZMM()
	}
	return e.YMM()
}

// begin starts a function whose name ends in the level's.
func (e *vector) begin(name, signature, doc string) {
	e.labels = 0
	name += e.suffix()
	function(e.Context, name, signature, strings.Split(name+" "+doc, "\n")...)
}

func (e *vector) end() {
	e.VZEROUPPER()
	e.RET()
}

func (e *vector) label(name string) string {
	e.labels++
	return fmt.Sprintf("%s%d", name, e.labels)
}

// pointer and length load parts of a slice.
func (e *vector) pointer(name string) reg.GPVirtual {
	return e.Load(e.Param(name).Base(), e.GP64()).(reg.GPVirtual)
}

func (e *vector) length(name string) reg.GPVirtual {
	return e.Load(e.Param(name).Len(), e.GP64()).(reg.GPVirtual)
}

// address is where a parameter lies.
func address(c gotypes.Component) operand.Mem {
	b, err := c.Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

// scalar fills a vector with a float32 parameter.
func (e *vector) scalar(name string) vec {
	d := e.reg()
	e.VBROADCASTSS(address(e.Param(name)), d)
	return d
}

// bits returns the constant of 32 bits; AVX2 has no embedded broadcast and takes eight copies.
func (e *vector) bits(b uint32) konst {
	m, ok := e.consts[b]
	if !ok {
		m = e.StaticGlobal(fmt.Sprintf("c%08x", b))
		e.DataAttributes(attr.RODATA | attr.NOPTR)
		for i := range 8 {
			e.AddDatum(4*i, operand.U32(b))
		}
		e.consts[b] = m
	}
	return konst{m}
}

func (e *vector) k(x float64) konst { return e.bits(math.Float32bits(float32(x))) }

// fill puts a constant in a register.
func (e *vector) fill(k konst) vec {
	d := e.reg()
	e.VBROADCASTSS(k.Mem, d)
	return d
}

// copy of a register that a following method may change.
func (e *vector) copy(x vec) vec {
	d := e.reg()
	e.VMOVAPS(x, d)
	return d
}

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

// The fused operations change their first argument: mulAdd makes it d·x + c, addMul d + x·y, subMul d - x·y, rest c - d·x.
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

// inverse returns 1/x within 2^-23 for finite x below 2^126: an approximation to 14 bits and one Newton step, which costs a quarter of a
// division of 16 lanes. Eight lanes divide.
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

// prefetch gets the distance for fetch.
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

// each writes loops over n elements: unroll vectors at a time, then one, then the last incomplete one. body writes the work on the vector at
// offset j of the pointers, which advance.
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

// tailTable is the key of the table in consts: a NaN that is no constant of a kernel.
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

// result stores lane 0 of x, after which no vector is live.
func (e *vector) result(x vec, index int) {
	e.VMOVSS(x.AsX(), address(e.ReturnIndex(index)))
}

// slices is a signature of float32 slices followed by other parameters.
func slices(names string, more ...string) string {
	return "func(" + strings.Join(append([]string{names + " []float32"}, more...), ", ") + ")"
}

// word fills a vector with a uint32 parameter.
func (e *vector) word(name string) vec {
	w, x, d := e.Load(e.Param(name), e.GP32()), e.XMM(), e.reg()
	e.VMOVD(w, x)
	e.VPBROADCASTD(x, d)
	return d
}
