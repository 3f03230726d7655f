package format

import (
	"math"
	"testing"

	"harness.invalid/core/random"
)

// TestDrawn: a value goes up where its fraction and its random number add up to 1, and not where 2^-16 is missing: of
// subnormal and of normal values, in vectors and in groups that a NaN makes slow.
func TestDrawn(t *testing.T) {
	stream := random.New(9, random.Rounding)
	for _, name := range []string{"e4m3", "e5m2", "e3m2", "e2m3", "e2m1"} {
		f, err := load(t, name).With(Stochastic, Saturate, "")
		if err != nil {
			t.Fatal(err)
		}
		c := f.Element.Caster()
		if c.random == nil {
			t.Fatalf("%s has no fast form", name)
		}
		values := f.Element.Values()
		x, want := make([]float32, 3*random.Group), make([]float32, 3*random.Group)
		const first = 3 // within a group
		for i := range x {
			at := i % (len(values) - 1)
			low, high := values[at], values[at+1]
			missing := float64(i / (len(values) - 1) % 2)
			r := float64(stream.Uint16(first + i))
			v := low + (high-low)*(1<<16-r-missing)/(1<<16)
			x[i], want[i] = float32(v), float32(low)
			if missing == 0 || v >= high {
				want[i] = float32(high)
			}
			if float64(x[i]) != v || missing == 1 && r == 0 {
				x[i], want[i] = float32(low), float32(low) // float32 does not have it
			}
			if i%3 == 0 {
				x[i], want[i] = -x[i], -want[i]
			}
		}
		for range 2 {
			got := make([]float32, len(x))
			c.Cast(got, x, stream, first)
			for i := range x {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) && (got[i] == got[i] || want[i] == want[i]) {
					t.Fatalf("%s: %g with %d becomes %g, want %g", name, x[i], stream.Uint16(first+i), got[i], want[i])
				}
			}
			x[random.Group], want[random.Group] = float32(math.NaN()), float32(math.NaN())
		}
	}
}
