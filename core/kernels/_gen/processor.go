package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// peak writes the loop that Peak times on vectors.
func (c *vector) peak(registers int) {
	c.begin("peak", "func(rounds int)",
		fmt.Sprintf("does rounds·%d multiply-adds of %d lanes on registers alone, none waiting for another.", registers, c.lanes()))
	rounds := c.Load(c.Param("rounds"), c.GP64())
	x := c.zero()
	sums := c.sums(registers)
	c.Label("round")
	for _, s := range sums {
		c.VFMADD231PS(x, x, s)
	}
	c.DECQ(rounds)
	c.JNZ(operand.LabelRef("round"))
	c.end()
}

// pauseInstruction writes pause, for loops that wait.
func pauseInstruction(c *build.Context) {
	function(c, "pause", "func()", "pause waits for some tens of cycles without disturbing the other thread of the core.")
	c.PAUSE()
	c.RET()
}

// cpuidInstruction writes cpuid.
func cpuidInstruction(c *build.Context) {
	function(c, "cpuid", "func(leaf, subleaf uint32) (a, b, c, d uint32)",
		"cpuid returns what the processor says of itself under leaf and subleaf, in the registers EAX, EBX, ECX and EDX.")
	c.Load(c.Param("leaf"), reg.EAX)
	c.Load(c.Param("subleaf"), reg.ECX)
	c.CPUID()
	for i, r := range []reg.Register{reg.EAX, reg.EBX, reg.ECX, reg.EDX} {
		c.Store(r, c.ReturnIndex(i))
	}
	c.RET()
}
