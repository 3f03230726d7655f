package random

import (
	"math"
	"math/rand/v2"
	"testing"
)

var _ rand.Source = (*Source)(nil)

// TestPhilox holds the generator against the known answers that its authors publish (Random123, tests/kat_vectors).
func TestPhilox(t *testing.T) {
	const ff = math.MaxUint32
	pi := [4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}
	piKey := [2]uint32{0xa4093822, 0x299f31d0}
	for _, test := range []struct {
		rounds int
		ctr    [4]uint32
		key    [2]uint32
		want   [4]uint32
	}{
		{7, [4]uint32{}, [2]uint32{}, [4]uint32{0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}},
		{7, [4]uint32{ff, ff, ff, ff}, [2]uint32{ff, ff}, [4]uint32{0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662}},
		{7, pi, piKey, [4]uint32{0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a}},
		{10, [4]uint32{}, [2]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{10, [4]uint32{ff, ff, ff, ff}, [2]uint32{ff, ff}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{10, pi, piKey, [4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		if got := philox(test.rounds, test.key, test.ctr); got != test.want {
			t.Errorf("philox4x32-%d(%x, %x) = %x, want %x", test.rounds, test.key, test.ctr, got, test.want)
		}
	}
}

func TestUint16s(t *testing.T) {
	s := New(1, Rounding)
	s.Step, s.Sample, s.Site = 2, 3, 4
	for _, start := range []int{0, 1, 15, 16, 100, 127, 128, 1000} {
		for _, n := range []int{0, 1, 16, 17, 128, 300} {
			got := make([]uint16, n)
			s.Uint16s(got, start)
			for i := range got {
				if want := s.Uint16(start + i); got[i] != want {
					t.Fatalf("Uint16s(%d values from %d)[%d] = %x, want %x", n, start, i, got[i], want)
				}
			}
		}
	}
}

// TestIndependence counts equal bits between streams that differ in one field: 2^17 fair bits have standard
// deviation 181, and 6 of them are exceeded once in 5e8 tests.
func TestIndependence(t *testing.T) {
	base := New(7, Dropout)
	other := map[string]Stream{"seed": New(8, Dropout), "purpose": New(7, Rounding), "step": base, "sample": base, "site": base}
	for name, s := range other {
		switch name {
		case "step":
			s.Step = 1
		case "sample":
			s.Sample = 1
		case "site":
			s.Site = 1
		}
		equal := 0
		for i := range uint32(1 << 10) {
			a, b := base.Block(i), s.Block(i)
			for w := range a {
				for d := ^(a[w] ^ b[w]); d != 0; d &= d - 1 {
					equal++
				}
			}
		}
		if d := math.Abs(float64(equal) - 1<<16); d > 6*181 {
			t.Errorf("streams that differ in %s share %d of %d bits", name, equal, 1<<17)
		}
	}
}

func TestSource(t *testing.T) {
	a := &Source{Stream: New(3, Data)}
	var drawn []uint64
	for range 10 {
		drawn = append(drawn, a.Uint64())
	}
	for i, want := range drawn {
		b := &Source{Stream: New(3, Data), Position: uint64(i)}
		if got := b.Uint64(); got != want {
			t.Errorf("value %d drawn afresh is %x, want %x", i, got, want)
		}
		if a.Position = uint64(len(drawn) - 1 - i); a.Uint64() != drawn[a.Position-1] {
			t.Errorf("value %d is another one the second time", a.Position-1)
		}
	}
}
