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

// A vector writes one function for vectors of 16 lanes (AVX-512) or 8 (AVX2 with FMA): kernels are written once,
// over its methods. Values are virtual registers that are written once, except where a method says that it changes
// its argument.
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
