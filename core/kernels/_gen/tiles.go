package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tiles writes packing and the loops over blocks of C for products of BF16 values on AMX tiles and on vectors of
// pairs. Values with 11 significant bits, as in FP16 and TF32, are sums of two BF16 parts, and their products sums
// of four.
func tiles(c *build.Context) {
	for _, parts := range []int{1, 2} {
		pairTiles(c, parts)
		multiplyTiles(c, parts)
	}
	amx{c}.peak()
	multiplyPairs(c)
	peakPairs(c)
}

// amx writes the instructions on tiles, which avo and Go's assembler do not know. Source: Intel 64 and IA-32
// Architectures Software Developer's Manual, volume 2, 3.1.1.1 (VEX) and the pages of the instructions. It uses
// only the first eight registers, so that VEX prefixes of three bytes are enough.
type amx struct{ *build.Context }

// gp numbers the general registers as instructions do.
var gp = map[reg.Register]int{reg.RAX: 0, reg.RCX: 1, reg.RDX: 2, reg.RBX: 3, reg.RSI: 6, reg.RDI: 7}

func (c amx) bytes(code ...int) {
	for _, b := range code {
		c.Instruction(&ir.Instruction{Opcode: "BYTE", Operands: []operand.Op{operand.U8(b)}})
	}
}

// prefix is VEX.128 in map 0F38 with W0: simd is 0 for none, 2 for F3, 3 for F2, and vvvv a third register.
func (c amx) prefix(simd, vvvv, opcode int) { c.bytes(0xC4, 0xE2, (^vvvv&15)<<3|simd, opcode) }

func (c amx) comment(format string, args ...any) { c.Comment(fmt.Sprintf(format, args...)) }

// configure is LDTILECFG [base].
func (c amx) configure(base reg.Register) {
	c.comment("LDTILECFG")
	c.prefix(0, 0, 0x49)
	c.bytes(gp[base])
}

func (c amx) release() {
	c.comment("TILERELEASE")
	c.prefix(0, 0, 0x49)
	c.bytes(0xC0)
}

func (c amx) zero(tile int) {
	c.comment("TILEZERO tmm%d", tile)
	c.prefix(3, 0, 0x49)
	c.bytes(0xC0 | tile<<3)
}

// memory is [base + index + disp], rows index bytes apart.
func (c amx) memory(tile int, base, index reg.Register, disp int) {
	c.bytes(0x84|tile<<3, gp[index]<<3|gp[base], disp&255, disp>>8&255, disp>>16&255, disp>>24&255)
}

func (c amx) load(tile int, base, index reg.Register, disp int) {
	c.comment("TILELOADD tmm%d, [%v + %d], rows apart by %v", tile, base.Asm(), disp, index.Asm())
	c.prefix(3, 0, 0x4B)
	c.memory(tile, base, index, disp)
}

func (c amx) store(tile int, base, index reg.Register, disp int) {
	c.comment("TILESTORED tmm%d, [%v + %d], rows apart by %v", tile, base.Asm(), disp, index.Asm())
	c.prefix(2, 0, 0x4B)
	c.memory(tile, base, index, disp)
}

func (c amx) prefetchToWrite(base reg.Register, disp int) {
	c.comment("PREFETCHW [%v + %d]", base.Asm(), disp)
	c.bytes(0x0F, 0x0D, 1<<6|1<<3|gp[base], disp)
}

// multiply adds the products of the pairs in rows of a with those in columns of b to sum.
func (c amx) multiply(sum, a, b int) {
	c.comment("TDPBF16PS tmm%d, tmm%d, tmm%d", sum, a, b)
	c.prefix(2, b, 0x5C)
	c.bytes(0xC0 | sum<<3 | a)
}

// The tiles: four of C, two of A and two of B.
const tileA, tileB, tileBytes = 4, 6, 1024

// blocks is the loop over blocks of C while it is written. Instructions on tiles take only the first six registers.
type blocks struct {
	amx
	parts                         int
	a, b, at, second, stride, ldc reg.Register // of the first six
	group, rows, ahead, left      reg.GPPhysical
	depth, firstA, firstB, firstC reg.Register
}

// multiplyTiles writes the loop over blocks of C of 32 x 32, each of four tiles that stay in registers along K.
func multiplyTiles(context *build.Context, parts int) {
	name := fmt.Sprintf("multiplyTiles%dAMX", parts)
	function(context, name, "func(config *[64]byte, rows, cols, depth int, a, b, c *float32, ldc int, add bool)",
		fmt.Sprintf("%s computes C (+)= A·B for rows x cols blocks of 32 x 32 and 32·depth products each; all three are above 0.\n", name)+
			"A and B are packed: groups of 16 rows of A or columns of B, for each of them depth steps of 32 products,\n"+
			fmt.Sprintf("and for each of these as many tiles as there are parts: %d.", parts))
	c := blocks{amx: amx{context}, parts: parts, a: reg.RAX, b: reg.RCX, at: reg.RDX, second: reg.RSI, stride: reg.RBX, ldc: reg.RDI,
		group: reg.R8, rows: reg.R9, ahead: reg.R10, left: reg.R12, depth: reg.R11, firstA: reg.R13, firstB: reg.R14, firstC: reg.R15}
	cols := address(c.Param("cols"))
	c.Load(c.Param("config"), c.a)
	c.configure(c.a)
	c.Load(c.Param("depth"), c.depth)
	c.Load(c.Param("b"), c.firstB)
	c.Load(c.Param("c"), c.firstC)
	c.Load(c.Param("ldc"), c.ldc)
	c.SHLQ(operand.U8(2), c.ldc)
	c.MOVQ(operand.U32(64), c.stride)
	c.IMUL3Q(operand.I32(parts*tileBytes), c.depth, c.group)

	// All rows of A pass while a strip of B is in the first level cache.
	c.Label("strip")
	c.Load(c.Param("a"), c.firstA)
	c.Load(c.Param("rows"), c.rows)
	c.MOVQ(c.firstC, c.at)
	c.Label("block")
	c.begin()
	c.products()
	c.end()
	c.DECQ(c.rows)
	c.JNZ(operand.LabelRef("block"))
	c.LEAQ(operand.Mem{Base: c.firstB, Index: c.group, Scale: 2}, c.firstB)
	c.ADDQ(operand.I32(128), c.firstC)
	c.DECQ(cols)
	c.JNZ(operand.LabelRef("strip"))
	c.release()
	c.RET()
}

// begin fills the four tiles of C with zeros, or with the block that is there.
func (c *blocks) begin() {
	c.Load(c.Param("add"), c.left.As8())
	c.TESTB(c.left.As8(), c.left.As8())
	c.JZ(operand.LabelRef("zero"))
	c.lowerHalf()
	for t := range 4 {
		c.load(t, []reg.Register{c.at, c.second}[t/2], c.ldc, t%2*64)
	}
	c.JMP(operand.LabelRef("products"))
	c.Label("zero")
	for t := range 4 {
		c.zero(t)
	}
}

// lowerHalf sets second to the row of C where the lower two tiles of the block begin.
func (c *blocks) lowerHalf() {
	c.MOVQ(c.ldc, c.second)
	c.SHLQ(operand.U8(4), c.second)
	c.ADDQ(c.at, c.second)
}

// products adds up all products of a block. The block of C that comes next, the one below or the first of the next
// strip, is prefetched meanwhile, some rows with each of the first steps.
func (c *blocks) products() {
	const rowsAhead = 8
	c.Label("products")
	c.MOVQ(c.ldc, c.ahead)
	c.SHLQ(operand.U8(5), c.ahead)
	c.ADDQ(c.at, c.ahead)
	c.CMPQ(c.rows, operand.U8(1))
	c.JNE(operand.LabelRef("below"))
	c.LEAQ(operand.Mem{Base: c.firstC, Disp: 128}, c.ahead)
	c.Label("below")
	c.MOVQ(c.firstA, c.a)
	c.MOVQ(c.firstB, c.b)
	c.MOVQ(c.depth, c.left)
	c.Label("early")
	c.MOVQ(c.ahead, c.second)
	for range rowsAhead {
		c.prefetchToWrite(c.second, 0)
		c.prefetchToWrite(c.second, 64)
		c.ADDQ(c.ldc, c.second)
	}
	c.MOVQ(c.second, c.ahead)
	c.step()
	c.DECQ(c.left)
	c.JZ(operand.LabelRef("store"))
	c.MOVQ(c.depth, c.second)
	c.SUBQ(c.left, c.second)
	c.CMPQ(c.second, operand.U8(32/rowsAhead))
	c.JLT(operand.LabelRef("early"))
	c.Label("step")
	c.step()
	c.DECQ(c.left)
	c.JNZ(operand.LabelRef("step"))
}

// step adds 32 products to each of the four tiles of C.
func (c *blocks) step() {
	load := func(tile int, at reg.Register, part int) {
		c.load(tile, at, c.stride, part*tileBytes)
		c.LEAQ(operand.Mem{Base: at, Index: c.group, Scale: 1}, c.second)
		c.load(tile+1, c.second, c.stride, part*tileBytes)
	}
	multiply := func() {
		for t := range 4 {
			c.multiply(t, tileA+t/2, tileB+t%2)
		}
	}
	load(tileA, c.a, 0)
	load(tileB, c.b, 0)
	multiply()
	if c.parts == 2 { // one factor changes at a time
		load(tileB, c.b, 1)
		multiply()
		load(tileA, c.a, 1)
		multiply()
		load(tileB, c.b, 0)
		multiply()
	}
	c.ADDQ(operand.I32(c.parts*tileBytes), c.a)
	c.ADDQ(operand.I32(c.parts*tileBytes), c.b)
}

// end stores the tiles of C, and moves on to the block below.
func (c *blocks) end() {
	c.Label("store")
	c.lowerHalf()
	for t := range 4 {
		c.store(t, []reg.Register{c.at, c.second}[t/2], c.ldc, t%2*64)
	}
	c.MOVQ(c.ldc, c.second)
	c.SHLQ(operand.U8(5), c.second)
	c.ADDQ(c.second, c.at)
	c.LEAQ(operand.Mem{Base: c.firstA, Index: c.group, Scale: 2}, c.firstA)
}

// peak writes the loop that Peak times on tiles.
func (c amx) peak() {
	function(c.Context, "peakTilesAMX", "func(config *[64]byte, rounds int)",
		"peakTilesAMX does rounds·4 products of tiles, each 16·16·32 multiply-adds, none waiting for another.")
	c.Load(c.Param("config"), reg.RAX)
	c.Load(c.Param("rounds"), reg.RCX)
	c.configure(reg.RAX)
	for t := range 8 {
		c.zero(t)
	}
	c.Label("round")
	for t := range 4 {
		c.multiply(t, tileA+t/2, tileB+t%2)
	}
	c.DECQ(reg.RCX)
	c.JNZ(operand.LabelRef("round"))
	c.release()
	c.RET()
}

// pairTiles writes the packing of float32 values into tiles of pairs: a lane holds the upper halves of two values.
func pairTiles(c *build.Context, parts int) {
	name := fmt.Sprintf("pairTiles%dAVX512", parts)
	doc := name + " sets lane r·16 + j of tile dst[t·step] to the pair of src[t·next + r·ld + j] " +
		"and src[t·next + r·ld + apart + j],\n" +
		"each cut to its upper 16 bits, for r < 16, j < 16, t < tiles, tiles > 0."
	if parts == 2 {
		doc += " What the cut leaves of both is the lane of the tile behind it."
	}
	function(c, name, "func(dst, src *float32, ld, apart, tiles, next, step int)", doc)
	dst, src := c.Load(c.Param("dst"), c.GP64()), c.Load(c.Param("src"), c.GP64())
	ld, apart := c.Load(c.Param("ld"), c.GP64()), c.Load(c.Param("apart"), c.GP64())
	tiles, next, step := c.Load(c.Param("tiles"), c.GP64()), c.Load(c.Param("next"), c.GP64()), c.Load(c.Param("step"), c.GP64())
	for _, r := range []reg.Register{ld, apart, next, step} {
		c.SHLQ(operand.U8(2), r)
	}
	odd, bits := c.K(), c.GP32()
	c.MOVL(operand.U32(0xAAAAAAAA), bits)
	c.KMOVD(bits, odd)
	upper := c.ZMM()
	if parts == 2 {
		c.MOVL(operand.U32(0xFFFF0000), bits)
		c.VPBROADCASTD(bits, upper)
	}
	c.Label("tile")
	row := c.GP64()
	c.MOVQ(src, row)
	for r := range 16 {
		x, y, pair := c.ZMM(), c.ZMM(), c.ZMM()
		c.VMOVUPS(operand.Mem{Base: row}, x)
		c.VMOVUPS(operand.Mem{Base: row, Index: apart, Scale: 1}, y)
		c.VPSRLD(operand.U8(16), x, pair)
		c.VMOVDQU16(y, odd, pair)
		c.VMOVDQU32(pair, operand.Mem{Base: dst, Disp: 64 * r})
		if parts == 2 {
			restX, restY, rest := c.ZMM(), c.ZMM(), c.ZMM()
			c.VPANDD(x, upper, restX)
			c.VPANDD(y, upper, restY)
			c.VSUBPS(restX, x, restX)
			c.VSUBPS(restY, y, restY)
			c.VPSRLD(operand.U8(16), restX, rest)
			c.VMOVDQU16(restY, odd, rest)
			c.VMOVDQU32(rest, operand.Mem{Base: dst, Disp: tileBytes + 64*r})
		}
		c.ADDQ(ld, row)
	}
	c.ADDQ(next, src)
	c.ADDQ(step, dst)
	c.DECQ(tiles)
	c.JNZ(operand.LabelRef("tile"))
	c.VZEROUPPER()
	c.RET()
}
