package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"harness.invalid/core/numerics"
	"harness.invalid/core/random"
)

var testStream = random.Stream{Key: [2]uint32{0x12345678, 0x9abcdef0}, Step: 3, Sample: 1 << 31, Site: 77}

func TestDropout(t *testing.T) {
	onEachLevel(t, func(t *testing.T) {
		for _, pos := range []int{0, 1, 64, 128, 129, 1000, 128 << 20} {
			for _, n := range []int{0, 1, 15, 16, 17, 64, 127, 128, 129, 256, 300, 1024, 1100} {
				for _, p := range []float32{0, 0.1, 0.5, 0.9999} {
					x := normals(n, 1)
					y, intact := guarded(t, n, 1)
					Dropout(y, x, p, testStream, pos)
					intact()
					threshold := int(math.Round(float64(p) * 65536))
					scale := float32(65536 / float64(65536-threshold))
					for i := range y {
						want := float32(0)
						if int(testStream.Uint16(pos+i)) >= threshold {
							want = x[i] * scale
						}
						if !same(y[i], want) {
							t.Fatalf("position %d, p %g: element %d of %d is %g, want %g", pos, p, i, n, y[i], want)
						}
					}
					Dropout(x, x, p, testStream, pos)
					for i := range y {
						if !same(x[i], y[i]) {
							t.Fatalf("position %d, p %g: element %d is %g in place, %g out of place", pos, p, i, x[i], y[i])
						}
					}
				}
			}
		}
	})
}

// TestDropoutDropsNaN: a dropped NaN is 0, as in the twin, and a kept one stays.
func TestDropoutDropsNaN(t *testing.T) {
	onEachLevel(t, func(t *testing.T) {
		x := make([]float32, 256)
		for i := range x {
			x[i] = float32(math.NaN())
		}
		Dropout(x, x, 0.5, testStream, 0)
		for i, v := range x {
			if kept := testStream.Uint16(i) >= 32768; kept != (v != v) || !kept && v != 0 {
				t.Fatalf("element %d, kept %v, is %g", i, kept, v)
			}
		}
	})
}

func roundings() []numerics.Rounding {
	list := []numerics.Rounding{{}, {Format: numerics.TF32}, {Format: numerics.BF16},
		{Format: numerics.BF16, Stochastic: true, Stream: testStream}}
	for _, o := range []numerics.Overflow{numerics.Inf, numerics.Clip, numerics.NaN} {
		list = append(list, numerics.Rounding{Format: numerics.FP16, Overflow: o},
			numerics.Rounding{Format: numerics.FP16, Overflow: o, Stochastic: true, Stream: testStream})
	}
	return list
}

// TestRound: every mode gives the scalar function's bits, for random bit patterns (a third of them in FP16's range,
// where it matters) and for the places where formats end.
func TestRound(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	edges := []uint32{0, 1, 0x007fffff, 0x00800000, 0x33000000, 0x33000001, 0x387fffff, 0x38800000, 0x477fe000, 0x477fefff,
		0x477ff000, 0x477fffff,
		0x47800000, 0x7f7fffff, 0x7f7f0000, 0x7f7f8000, 0x7f800000, 0x7f800001, 0x7fc00000, 0x7fffffff}
	onEachLevel(t, func(t *testing.T) {
		for _, r := range roundings() {
			for _, pos := range []int{0, 5, 128, 1000} {
				for _, n := range []int{0, 1, 16, 17, 100, 128, 130, 300, 4096} {
					x := make([]float32, n)
					for i := range x {
						b := rng.Uint32()
						switch i % 3 {
						case 0:
							b = b&0x807fffff | (100+rng.Uint32N(45))<<23
						case 1:
							b = edges[i/3%len(edges)] | b&(1<<31)
						}
						x[i] = math.Float32frombits(b)
					}
					y, intact := guarded(t, n, 2)
					Round(y, x, r, pos)
					intact()
					for i := range y {
						if want := r.Round(x[i], pos+i); word(y[i]) != word(want) {
							t.Fatalf("%+v at %d: %x becomes %x, want %x", r, pos+i, word(x[i]), word(y[i]), word(want))
						}
					}
					Round(x, x, r, pos)
					for i := range y {
						if word(x[i]) != word(y[i]) {
							t.Fatalf("%+v: element %d of %d differs in place", r, i, n)
						}
					}
				}
			}
		}
	})
}

func BenchmarkNoise(b *testing.B) {
	const n = 4096
	x, y := normals(n, 1), make([]float32, n)
	b.Run("Dropout", func(b *testing.B) { perElement(b, n, func() { Dropout(y, x, 0.1, testStream, 0) }) })
	for _, r := range roundings()[1:6] {
		b.Run(fmt.Sprintf("Round/%v/stochastic=%v",
			r.Format, r.Stochastic), func(b *testing.B) { perElement(b, n, func() { Round(y, x, r, 0) }) })
	}
}
