package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// narrows are formats of each kind: with and without saturation, infinity and the sign of zero; fixed point; flushed.
func narrows() map[string]*Narrow {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	shift := func(mantissa uint32) uint32 { return (23 - mantissa) << 23 }
	return map[string]*Narrow{
		"e4m3 saturating": {448, 0x1p-6, shift(3), 448, 448, 0x1p-9, signBit},
		"e4m3":            {512, 0x1p-6, shift(3), 448, nan, 0x1p-9, signBit},
		"e5m2":            {0x1p16, 0x1p-14, shift(2), 57344, inf, 0x1p-16, signBit},
		"f143":            {256, 0x1p-7, shift(3), 240, nan, 0x1p-10, 0},
		"fp16 flushed":    {0x1p16, 0x1p-14, shift(10), 65504, inf, 0x1p-14, signBit},
		"e2m1":            {6, 1, shift(1), 6, 6, 0.5, signBit},
		"int8":            {127, 128, shift(7), 127, 127, 1, signBit},
	}
}

// TestNarrow: the constants of a format give its values, by a search among all of them.
func TestNarrow(t *testing.T) {
	values := []float32{0, 0.5, 1, 1.5, 2, 3, 4, 6} // E2M1
	f := narrows()["e2m1"]
	for x := float32(-8); x <= 8; x += 1.0 / 64 {
		want, distance := float32(0), float32(math.Inf(1))
		for i, v := range values {
			d := float32(math.Abs(math.Abs(float64(x)) - float64(v)))
			if d < distance || d == distance && i%2 == 0 { // i is the code
				want, distance = v, d
			}
		}
		if got := f.round(x); word(got) != word(float32(math.Copysign(float64(want), float64(x)))) {
			t.Errorf("%g becomes %g, want %g", x, got, want)
		}
	}
}

func strata(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	edges := []float32{0, 6, 7, 464, 480, 448, 240, 248, 65519, 65520, 57344, 61440, 127.5, 0.25, 0x1p-10, 0x1p-17,
		math.MaxFloat32, 0x1p-149, float32(math.Inf(1)), float32(math.NaN())}
	for i := range x {
		b := rng.Uint32()
		switch i % 4 {
		case 0:
			b = b&0x800fffff | (100+rng.Uint32N(50))<<23
		case 1:
			b = b&0x80300000 | (100+rng.Uint32N(50))<<23
		case 2:
			b = math.Float32bits(edges[rng.IntN(len(edges))]) | b&signBit
		}
		x[i] = math.Float32frombits(b)
	}
	return x
}

var factors = []float32{1, 0.37, 0x1p-127, 0x1p127, 0, float32(math.NaN())}

// TestCast: all ways to cast have the bits of the scalar function on each level.
func TestCast(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	onEachLevel(t, func(t *testing.T) {
		for name, f := range narrows() {
			for _, n := range []int{0, 1, 7, 8, 15, 16, 17, 33, 64, 100, 300} {
				x := strata(rng, n)
				y, intact := guarded(t, n, 2)
				for _, encode := range factors {
					for _, decode := range []float32{1, 0.25, 0x1p-127, 1.0 / 3} {
						Cast(y, x, f, encode, decode)
						intact()
						for i := range y {
							if want := f.round(x[i]*encode) * decode; !same(y[i], want) {
								t.Fatalf("%s: element %d of %d, %g·%g, becomes %g, want %g", name, i, n, x[i], encode, y[i], want)
							}
						}
					}
				}
				for _, width := range []int{1, 2, 15, 16, 32, 48, 1000} {
					testBlocks(t, name, f, rng, x, width)
				}
			}
		}
	})
}

// testBlocks casts x in blocks, with factors of both types, and in place.
func testBlocks(t *testing.T, name string, f *Narrow, rng *rand.Rand, x []float32, width int) {
	t.Helper()
	blocks := (len(x) + width - 1) / width
	encode, decode, decode64 := make([]float32, blocks), make([]float32, blocks), make([]float64, blocks)
	for i := range encode {
		encode[i], decode64[i] = factors[rng.IntN(len(factors))], 1/(1+rng.Float64())
		decode[i] = float32(decode64[i])
	}
	y, intact := guarded(t, len(x), 2)
	check := func(wide bool) {
		intact()
		for i := range y {
			r := f.round(x[i] * encode[i/width])
			want := r * decode[i/width]
			if wide {
				want = float32(float64(r) * decode64[i/width])
			}
			if !same(y[i], want) {
				t.Fatalf("%s: element %d of %d in blocks of %d, %g·%g, becomes %g, want %g", name, i, len(x), width, x[i],
					encode[i/width], y[i], want)
			}
		}
	}
	CastBlocks(y, x, f, encode, decode, width)
	check(false)
	copy(y, x)
	CastBlocks64(y, y, f, encode, decode64, width)
	check(true)
}

// TestMagnitudes holds the kernels against a search, with and without NaN and infinity.
func TestMagnitudes(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	search := func(x []float32) float32 {
		top := float32(0)
		for _, v := range x {
			if a := float32(math.Abs(float64(v))); a > top || a != a {
				top = a
			}
			if top != top {
				break
			}
		}
		return top
	}
	onEachLevel(t, func(t *testing.T) {
		for _, n := range []int{0, 1, 15, 16, 17, 32, 100, 257} {
			for _, special := range []float32{0, float32(math.Inf(-1)), float32(math.NaN())} {
				x, other := normals(n, 1), normals(n, 2)
				if n > 0 {
					x[rng.IntN(n)] = special
				}
				if got, want := Magnitude(x), search(x); !same(got, want) {
					t.Errorf("%d elements with %g: %g, want %g", n, special, got, want)
				}
				for _, width := range []int{1, 3, 16, 32, 500} {
					m, intact := guarded(t, (n+width-1)/width, 1)
					BlockMagnitudes(m, x, width)
					intact()
					for i := range m {
						if want := search(x[i*width : min((i+1)*width, n)]); !same(m[i], want) {
							t.Errorf("block %d of %d in %d elements with %g: %g, want %g", i, width, n, special, m[i], want)
						}
					}
				}
				z, intact := guarded(t, n, 1)
				Magnitudes(z, x, other)
				intact()
				for i := range z {
					if want := search([]float32{x[i], other[i]}); !same(z[i], want) {
						t.Errorf("of %g and %g %g is larger, want %g", x[i], other[i], z[i], want)
					}
				}
			}
		}
	})
}

func BenchmarkCast(b *testing.B) {
	const n = 4096
	x, y := normals(n, 1), make([]float32, n)
	f := narrows()["e4m3"]
	encode, decode, decode64 := make([]float32, n), make([]float32, n), make([]float64, n)
	for i := range encode {
		encode[i], decode[i], decode64[i] = 2, 0.5, 0.5
	}
	b.Run("copy", func(b *testing.B) { perElement(b, n, func() { copy(y, x) }) })
	b.Run("one scale", func(b *testing.B) { perElement(b, n, func() { Cast(y, x, f, 2, 0.5) }) })
	for _, width := range []int{1, 16, 32, 128} {
		b.Run(fmt.Sprintf("blocks of %d", width), func(b *testing.B) {
			perElement(b, n, func() { CastBlocks(y, x, f, encode[:n/width], decode[:n/width], width) })
		})
	}
	b.Run("blocks of 16, float64", func(b *testing.B) {
		perElement(b, n, func() { CastBlocks64(y, x, f, encode[:n/16], decode64[:n/16], 16) })
	})
	b.Run("magnitudes of 32", func(b *testing.B) { perElement(b, n, func() { BlockMagnitudes(y[:n/32], x, 32) }) })
}
