package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// multiplyPairs writes the loop for processors that multiply pairs in vectors. It keeps the sums of 8 rows of a
// block of 32 x 32 in registers at a time.
func multiplyPairs(c *build.Context) {
	const rowsAtOnce = 8
	function(c, "multiplyPairsBF16", "func(rows, cols, depth int, a, b, c *float32, ldc int, add bool)",
		"multiplyPairsBF16 is multiplyTiles1AMX with the dot product of AVX-512, "+
			"which adds the product of the second half of a pair to C,\nand then that of the first.")
	sum := func(i, v int) reg.VecPhysical { return zmm[2*i+v] }
	b0, b1, pair := zmm[16], zmm[17], zmm[18:]
	ldc := c.Load(c.Param("ldc"), c.GP64())
	c.SHLQ(operand.U8(2), ldc)
	group := c.Load(c.Param("depth"), c.GP64())
	c.SHLQ(operand.U8(10), group)
	firstB, firstC := c.Load(c.Param("b"), c.GP64()), c.Load(c.Param("c"), c.GP64())
	cols := c.Load(c.Param("cols"), c.GP64())

	c.Label("strip")
	a, at := c.Load(c.Param("a"), c.GP64()), c.GP64()
	groups := c.Load(c.Param("rows"), c.GP64()) // of 16 rows
	c.SHLQ(operand.U8(1), groups)
	c.MOVQ(firstC, at)
	c.Label("group")
	halves := c.GP64()
	c.MOVQ(operand.U32(16/rowsAtOnce), halves)
	c.Label("half")
	add, row := c.GP64(), c.GP64()
	c.Load(c.Param("add"), add.As8())
	for i := range rowsAtOnce {
		for v := range 2 {
			c.VPXORD(sum(i, v), sum(i, v), sum(i, v))
		}
	}
	c.TESTB(add.As8(), add.As8())
	c.JZ(operand.LabelRef("products"))
	c.MOVQ(at, row)
	for i := range rowsAtOnce {
		for v := range 2 {
			c.VMOVUPS(operand.Mem{Base: row, Disp: 64 * v}, sum(i, v))
		}
		c.ADDQ(ldc, row)
	}
	c.Label("products")
	from, b, left := c.GP64(), c.GP64(), c.GP64()
	c.MOVQ(a, from)
	c.MOVQ(firstB, b)
	c.Load(c.Param("depth"), left)
	c.Label("step")
	for r := range 16 {
		c.VMOVUPS(operand.Mem{Base: b, Disp: 64 * r}, b0)
		c.VMOVUPS(operand.Mem{Base: b, Index: group, Scale: 1, Disp: 64 * r}, b1)
		for i := range rowsAtOnce {
			c.VPBROADCASTD(operand.Mem{Base: from, Disp: 64*i + 4*r}, pair[i])
			dotPairs(c, 2*i, 18+i, 16)
			dotPairs(c, 2*i+1, 18+i, 17)
		}
	}
	c.ADDQ(operand.I32(tileBytes), from)
	c.ADDQ(operand.I32(tileBytes), b)
	c.DECQ(left)
	c.JNZ(operand.LabelRef("step"))
	for i := range rowsAtOnce {
		for v := range 2 {
			c.VMOVUPS(sum(i, v), operand.Mem{Base: at, Disp: 64 * v})
		}
		c.ADDQ(ldc, at)
	}
	c.ADDQ(operand.I32(64*rowsAtOnce), a)
	c.DECQ(halves)
	c.JNZ(operand.LabelRef("half"))
	c.SUBQ(operand.I32(tileBytes), a)
	c.ADDQ(group, a)
	c.DECQ(groups)
	c.JNZ(operand.LabelRef("group"))
	c.LEAQ(operand.Mem{Base: firstB, Index: group, Scale: 2}, firstB)
	c.ADDQ(operand.I32(128), firstC)
	c.DECQ(cols)
	c.JNZ(operand.LabelRef("strip"))
	c.VZEROUPPER()
	c.RET()
}

// peakPairs writes the loop that Peak times on vectors of pairs.
func peakPairs(c *build.Context) {
	function(c, "peakPairsBF16", "func(rounds int)", "peakPairsBF16 does rounds·16 dot products of 16 pairs, none waiting for another.")
	rounds := c.Load(c.Param("rounds"), c.GP64())
	for i := range 18 {
		c.VPXORD(zmm[i], zmm[i], zmm[i])
	}
	c.Label("round")
	for i := range 16 {
		dotPairs(c, i, 16, 17)
	}
	c.DECQ(rounds)
	c.JNZ(operand.LabelRef("round"))
	c.VZEROUPPER()
	c.RET()
}

// zmm are the vector registers by number.
var zmm = []reg.VecPhysical{
	reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7, reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15,
	reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23, reg.Z24, reg.Z25,
}

// dotPairs is VDPBF16PS on registers by number: sum += x·y, EVEX.512.F3.0F38.W0 52 /r.
func dotPairs(c *build.Context, sum, x, y int) {
	not := func(n, bit, at int) int { return (^n >> bit & 1) << at }
	c.Comment(fmt.Sprintf("VDPBF16PS Z%d, Z%d, Z%d", y, x, sum))
	amx{c}.bytes(0x62,
		not(sum, 3, 7)|not(y, 4, 6)|not(y, 3, 5)|not(sum, 4, 4)|2,
		(^x&15)<<3|1<<2|2,
		2<<5|not(x, 4, 3),
		0x52, 0xC0|sum&7<<3|y&7)
}
