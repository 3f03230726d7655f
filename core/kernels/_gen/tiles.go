package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tiles writes what products of BF16 values on AMX tiles, or on vectors of pairs, need: packing, and the loop over blocks of C. Values of 11 significant bits, FP16 and TF32, are
// sums of two BF16 parts, and their products of four.
func tiles(c *build.Context) {
	for _, parts := range []int{1, 2} {
		pairTiles(c, parts)
		multiplyTiles(c, parts)
	}
	amx{c}.peak()
	multiplyPairs(c)
	peakPairs(c)
}

// amx writes the instructions on tiles, which neither avo nor Go's assembler knows. Source: Intel 64 and IA-32 Architectures Software Developer's Manual,
// volume 2, 3.1.1.1 (VEX) and the pages of the instructions. All registers are of the first eight, so that no prefix is longer than VEX with three bytes.
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

// multiplyTiles writes the loop over blocks of C of 32 x 32, each of four tiles that stay in registers along K.
func multiplyTiles(context *build.Context, parts int) {
	c := amx{context}
	name := fmt.Sprintf("multiplyTiles%dAMX", parts)
	function(context, name, "func(config *[64]byte, rows, cols, depth int, a, b, c *float32, ldc int, add bool)",
		fmt.Sprintf("%s computes C (+)= A·B for rows x cols blocks of 32 x 32 and 32·depth products each; all three are above 0.\n", name)+
			"A and B are packed: groups of 16 rows of A or columns of B, for each of them depth steps of 32 products,\n"+
			fmt.Sprintf("and for each of these as many tiles as there are parts: %d.", parts))
	// Instructions on tiles take the first six alone.
	a, b, at, second, stride, ldc := reg.RAX, reg.RCX, reg.RDX, reg.RSI, reg.RBX, reg.RDI
	group, rows, ahead, depth, left := reg.R8, reg.R9, reg.R10, reg.R11, reg.R12
	cols := address(c.Param("cols"))
	firstA, firstB, firstC := reg.R13, reg.R14, reg.R15
	c.Load(c.Param("config"), a)
	c.configure(a)
	c.Load(c.Param("depth"), depth)
	c.Load(c.Param("b"), firstB)
	c.Load(c.Param("c"), firstC)
	c.Load(c.Param("ldc"), ldc)
	c.SHLQ(operand.U8(2), ldc)
	c.MOVQ(operand.U32(64), stride)
	c.IMUL3Q(operand.I32(parts*tileBytes), depth, group)

	// All rows of A pass while a strip of B is in the first level cache.
	c.Label("strip")
	c.Load(c.Param("a"), firstA)
	c.Load(c.Param("rows"), rows)
	c.MOVQ(firstC, at)
	c.Label("block")
	c.Load(c.Param("add"), left.As8())
	c.TESTB(left.As8(), left.As8())
	c.JZ(operand.LabelRef("zero"))
	below := func() {
		c.MOVQ(ldc, second)
		c.SHLQ(operand.U8(4), second)
		c.ADDQ(at, second)
	}
	below()
	for t := range 4 {
		c.load(t, []reg.Register{at, second}[t/2], ldc, t%2*64)
	}
	c.JMP(operand.LabelRef("products"))
	c.Label("zero")
	for t := range 4 {
		c.zero(t)
	}
	c.Label("products")
	// The block of C that comes next, the one below or the first of the next strip, is fetched meanwhile, some rows with each of the first steps.
	const rowsAhead = 8
	c.MOVQ(ldc, ahead)
	c.SHLQ(operand.U8(5), ahead)
	c.ADDQ(at, ahead)
	c.CMPQ(rows, operand.U8(1))
	c.JNE(operand.LabelRef("below"))
	c.LEAQ(operand.Mem{Base: firstC, Disp: 128}, ahead)
	c.Label("below")
	c.MOVQ(firstA, a)
	c.MOVQ(firstB, b)
	c.MOVQ(depth, left)
	load := func(tile int, at reg.Register, part int) {
		c.load(tile, at, stride, part*tileBytes)
		c.LEAQ(operand.Mem{Base: at, Index: group, Scale: 1}, second)
		c.load(tile+1, second, stride, part*tileBytes)
	}
	products := func() {
		load(tileA, a, 0)
		load(tileB, b, 0)
		multiply := func() {
			for t := range 4 {
				c.multiply(t, tileA+t/2, tileB+t%2)
			}
		}
		multiply()
		if parts == 2 { // one factor changes at a time
			load(tileB, b, 1)
			multiply()
			load(tileA, a, 1)
			multiply()
			load(tileB, b, 0)
			multiply()
		}
		c.ADDQ(operand.I32(parts*tileBytes), a)
		c.ADDQ(operand.I32(parts*tileBytes), b)
	}
	c.Label("early")
	c.MOVQ(ahead, second)
	for range rowsAhead {
		c.prefetchToWrite(second, 0)
		c.prefetchToWrite(second, 64)
		c.ADDQ(ldc, second)
	}
	c.MOVQ(second, ahead)
	products()
	c.DECQ(left)
	c.JZ(operand.LabelRef("store"))
	c.MOVQ(depth, second)
	c.SUBQ(left, second)
	c.CMPQ(second, operand.U8(32/rowsAhead))
	c.JLT(operand.LabelRef("early"))
	c.Label("step")
	products()
	c.DECQ(left)
	c.JNZ(operand.LabelRef("step"))
	c.Label("store")
	below()
	for t := range 4 {
		c.store(t, []reg.Register{at, second}[t/2], ldc, t%2*64)
	}
	c.MOVQ(ldc, second)
	c.SHLQ(operand.U8(5), second)
	c.ADDQ(second, at)
	c.LEAQ(operand.Mem{Base: firstA, Index: group, Scale: 2}, firstA)
	c.DECQ(rows)
	c.JNZ(operand.LabelRef("block"))
	c.LEAQ(operand.Mem{Base: firstB, Index: group, Scale: 2}, firstB)
	c.ADDQ(operand.I32(128), firstC)
	c.DECQ(cols)
	c.JNZ(operand.LabelRef("strip"))
	c.release()
	c.RET()
}

// multiplyPairs is the loop for processors that multiply pairs in vectors: of each block of 32 x 32 the sums of 8 rows at a time stay in registers.
func multiplyPairs(c *build.Context) {
	const rowsAtOnce = 8
	function(c, "multiplyPairsBF16", "func(rows, cols, depth int, a, b, c *float32, ldc int, add bool)",
		"multiplyPairsBF16 is multiplyTiles1AMX with the dot product of AVX-512, which adds the product of the second half of a pair to C,\nand then that of the first.")
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

// peakPairs is what the share of peak is measured against there.
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

// peak is what the share of peak is measured against where products are on tiles.
func (c amx) peak() {
	function(c.Context, "peakTilesAMX", "func(config *[64]byte, rounds int)", "peakTilesAMX does rounds·4 products of tiles, each 16·16·32 multiply-adds, none waiting for another.")
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

// pairTiles packs float32 values into tiles of pairs: the upper halves of two of them are one lane.
func pairTiles(c *build.Context, parts int) {
	name := fmt.Sprintf("pairTiles%dAVX512", parts)
	doc := fmt.Sprintf("%s sets lane r·16 + j of tile dst[t·step] to the pair of src[t·next + r·ld + j] and src[t·next + r·ld + apart + j],\n", name) +
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
