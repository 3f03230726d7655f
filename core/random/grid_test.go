package random

import (
	"math"
	"testing"
)

// TestGrid: bits are uniform along rows, along columns and in time, pairs of neighbours are independent, and so are the
// corners of rectangles, which bits made of a row's and a column's by addition or exclusive or would not be. A count of n
// events of probability p is off by more than 5 standard deviations once in two million.
func TestGrid(t *testing.T) {
	g := New(1, Rounding).Grid()
	near := func(what string, count, n int, p float64) {
		t.Helper()
		if d := (float64(count) - float64(n)*p) / math.Sqrt(float64(n)*p*(1-p)); math.Abs(d) > 5 {
			t.Errorf("%s: %d of %d, want a share of %g: off by %.1f standard deviations", what, count, n, p, d)
		}
	}
	const n = 1 << 16
	for name, at := range map[string]func(i uint32) uint32{
		"a row": func(i uint32) uint32 { return g.Bits(3, i, 5) }, "a column": func(i uint32) uint32 { return g.Bits(i, 3, 5) },
		"time": func(i uint32) uint32 { return g.Bits(3, 21, i) }, "all": func(i uint32) uint32 { return g.Bits(i>>8, i&255, i>>12) },
	} {
		var ones [GridBits]int
		var pairs [16]int
		for i := range uint32(n) {
			b := at(i)
			if b >= 1<<GridBits {
				t.Fatalf("%s: %d has more than %d bits", name, b, GridBits)
			}
			for k := range ones {
				ones[k] += int(b >> k & 1)
			}
			pairs[b>>(GridBits-2)<<2|at(i+1)>>(GridBits-2)]++
		}
		for _, count := range ones {
			near("ones in "+name, count, n, 0.5)
		}
		for _, count := range pairs {
			near("pairs in "+name, count, n, 1./16)
		}
	}
	odd := 0
	for i := range uint32(n) {
		row, column, down, right := i>>8, i&255, 1+i%7, 1+i%19
		corners := g.Bits(row, column, 0) ^ g.Bits(row+down, column, 0) ^ g.Bits(row, column+right, 0) ^ g.Bits(row+down, column+right, 0)
		odd += int(corners >> (GridBits - 1))
	}
	near("rectangles with an odd number of leading ones", odd, n, 0.5)
}

// TestGridIsFixed: the bits of runs that were recorded.
func TestGridIsFixed(t *testing.T) {
	g := Grid{Row: 0x01234567, Column: 0x89abcdef}
	for _, c := range []struct{ row, column, time, want uint32 }{
		{0, 0, 0, 7877}, {7, 17, 3, 5595}, {4095, 30521, 1907, 4736},
	} {
		if got := g.Bits(c.row, c.column, c.time); got != c.want {
			t.Errorf("bits of row %d, column %d, time %d are %d, want %d", c.row, c.column, c.time, got, c.want)
		}
	}
}
